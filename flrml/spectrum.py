"""The thin SVD X = V Σ Uᵀ as an operator.

Only one side is stored; products with the other go through X itself. Which side, and how it is found, depends
on the shape of X (n samples, D features):

* n ≤ D: the eigenvectors of X Xᵀ are V. U stays implicit.
* n > D: the eigenvectors of Xᵀ X are U. V stays implicit: V B = X (U Σ⁻¹ B).
* both long, and far longer than the wanted rank: a randomized range finder on X Xᵀ, then an exact SVD of X
  projected on the directions found.

X is any kind of rows that :mod:`flrml.rows` supports, :class:`flrml.rows.RowOperator` included.
"""

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from flrml.exceptions import DamagedFileError, SpectrumError
from flrml.files import PathLike, read_arrays, write_arrays
from flrml.rows import (
    RowOperator,
    check_rows,
    check_scale,
    fingerprint,
    gram,
    gram_of_columns,
    in_float64,
    product,
    product_transposed,
)
from flrml.rows.threads import slices

FORMAT = 2
RELATIVE_CUT = 1e-6  # a Gram matrix squares the condition number: what lies below is rounding noise
OVERSAMPLING = 100
POWER_ITERATIONS = 3
PRODUCT_COLUMNS = 256  # of a randomized method, which are multiplied at once


@dataclass(frozen=True)
class Spectrum:
    """Thin SVD of a data matrix with one side stored.

    Get one from :func:`decompose` or :meth:`load`. Products need the data: :func:`decompose` binds the spectrum
    to them, :meth:`bind` does so for a loaded one.

    Attributes
    ----------
    singular_values : ndarray of shape (r,)
        In descending order.
    basis : ndarray
        V (n × r) if ``side`` is ``"left"``, U (D × r) if it is ``"right"``.
    side : {"left", "right"}
        Which side is stored.
    dual : ndarray of shape (n, r) or None
        F with U Σ⁻¹ = Xᵀ F, or None if that is V Σ⁻².
    fingerprint : str
        Digest of X.
    settings : dict
        Arguments of :func:`decompose`.
    """

    singular_values: NDArray
    basis: NDArray
    side: str
    dual: NDArray | None
    fingerprint: str
    settings: dict
    X: Any = field(default=None, repr=False)

    @property
    def rank(self) -> int:
        """The number r of singular values kept."""
        return len(self.singular_values)

    def __matmul__(self, B: NDArray) -> NDArray:
        """Return V @ B, for B of shape (r, d)."""
        if self.side == "left":
            return product(self.basis, B)
        return product(self._data(), self._unwhiten(B))

    def transposed_matmul(self, R: NDArray) -> NDArray:
        """Return V.T @ R, for R of shape (n, d)."""
        if self.side == "left":
            return product_transposed(self.basis, R)
        return (self.basis.T @ product_transposed(self._data(), R)) / self.singular_values[:, None]

    def top(self, B: NDArray) -> NDArray:
        """Return V[:, :d] @ B, for B of shape (d, d)."""
        if self.side == "left":
            return self.basis[:, : len(B)] @ B
        padded = np.zeros((self.rank, B.shape[1]), dtype=B.dtype)
        padded[: len(B)] = B
        return self @ padded

    def lift(self, B: NDArray) -> NDArray:
        """Return Lᵀ = U Σ⁻¹ B (D × d), the map whose embedding of the training data is X Lᵀ = V B."""
        if self.side == "right":
            return self._unwhiten(B)
        C = self.basis @ (B / self.singular_values[:, None] ** 2) if self.dual is None else self.dual @ B
        C = C.astype(self.basis.dtype, copy=False)
        return product_transposed(self._data(), C)

    def bind(self, X: Any) -> "Spectrum":
        """Return this spectrum bound to the data it was made from; other data raise SpectrumError.

        X is not read if the spectrum is bound to it already.
        """
        same_kind = isinstance(X, RowOperator) and isinstance(self.X, type(X))
        if self.X is X or (same_kind and self.X.X is X.X):
            return self
        if fingerprint(X) != self.fingerprint:
            raise SpectrumError(
                f"this spectrum does not belong to the given {type(X).__name__} of shape {X.shape}, or the data "
                "have changed since: decompose them again"
            )
        return replace(self, X=X)

    def unbind(self) -> "Spectrum":
        """Return this spectrum without its reference to the data."""
        return replace(self, X=None)

    def save(self, path: PathLike) -> None:
        """Write to one .npz file."""
        arrays = {"singular_values": self.singular_values, "basis": self.basis}
        arrays |= {} if self.dual is None else {"dual": self.dual}
        meta = {
            "format": FORMAT,
            "side": self.side,
            "fingerprint": self.fingerprint,
            "settings": self.settings,
            "digest": _digest(arrays),
        }
        write_arrays(path, meta, **arrays)

    @classmethod
    def load(cls, path: PathLike, X: Any = None) -> "Spectrum":
        """Read a file that :meth:`save` wrote; a damaged file or one for other data is refused.

        Parameters
        ----------
        path : path
            The file.
        X : data, optional
            Bind to these data; they must be those that the spectrum was made from.
        """
        try:
            meta, arrays = read_arrays(path)
        except DamagedFileError as error:
            raise SpectrumError(str(error)) from error
        intact = meta.get("format") == FORMAT and meta.get("digest") == _digest(arrays)
        if not intact:
            raise SpectrumError(f"{path} is damaged or of another format: delete it and run again")
        spectrum = cls(
            arrays["singular_values"],
            arrays["basis"],
            meta["side"],
            arrays.get("dual"),
            meta["fingerprint"],
            meta["settings"],
        )
        if X is None:
            return spectrum
        try:
            return spectrum.bind(X)
        except SpectrumError as error:
            raise SpectrumError(f"{path}: {error}") from None

    def _unwhiten(self, B: NDArray) -> NDArray:
        return self.basis @ (B / self.singular_values[:, None])

    def _data(self) -> Any:
        if self.X is None:
            raise SpectrumError("this spectrum is not bound to its data: call bind(X) first")
        return self.X


def decompose(
    X: Any, max_rank: int = 3000, *, method: str = "auto", smallest: float = 0.0, random_state: Any = None
) -> Spectrum:
    """Decompose X into its thin SVD.

    Parameters
    ----------
    X : array-like, CSR matrix, BinaryRows or RowOperator of shape (n_samples, n_features)
        Data, float32 or float64, in memory or in a memory map.
    max_rank : int, default=3000
        Keep at most this many singular values.
    method : {"auto", "gram", "randomized"}
        ``"gram"`` is exact; ``"auto"`` takes it unless the randomized method is several times cheaper.
    smallest : float, default=0
        Drop singular values up to this size, besides those up to 1e-6 of the largest.
    random_state : int, RandomState or None, default=None
        Seed of the randomized method.

    Returns
    -------
    Spectrum
        Bound to X.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(12.0).reshape(4, 3)
    >>> decompose(X).singular_values.round(3)
    array([22.447,  1.464])
    """
    if max_rank < 1:
        raise ValueError(f"max_rank must be at least 1, got {max_rank}")
    X = check_rows(X)
    check_scale(X)
    n, n_features = X.shape
    method = choose_method(method, n, n_features, max_rank)
    dual = None
    if method == "randomized":
        side = "left"
        values, basis, dual = randomized_svd(Range(X), max_rank, check_random_state(random_state))
    else:
        side = "left" if n <= n_features else "right"
        values, basis = eigen(gram(X) if side == "left" else gram_of_columns(X))
    kept = count_kept(values, max_rank, smallest, n_features)
    signs = column_signs(basis[:, :kept])
    settings = {"max_rank": max_rank, "method": method, "smallest": smallest}
    if method == "randomized" and isinstance(random_state, int | np.integer):
        settings["seed"] = int(random_state)
    return Spectrum(
        values[:kept].astype(X.dtype),
        signed(basis, signs, X.dtype),
        side,
        None if dual is None else signed(dual, signs, X.dtype),
        fingerprint(X),
        settings,
        X,
    )


def choose_method(method: str, n: int, n_features: int, max_rank: int) -> str:
    """Return "gram" or "randomized" for "auto", by rough operation counts; exactness is worth a factor of three."""
    if method in ("gram", "randomized"):
        return method
    if method != "auto":
        raise ValueError(f"method must be 'auto', 'gram' or 'randomized', got {method!r}")
    short = min(n, n_features)
    block = min(max_rank + OVERSAMPLING, short)
    return "gram" if 9 * short**3 <= 3 * (2 * POWER_ITERATIONS + 6) * n * block**2 else "randomized"


def count_kept(values: NDArray, max_rank: int, smallest: float, n_features: int) -> int:
    """Return the number of singular values that are above noise, at most ``max_rank``."""
    kept = min(int(np.sum(values > max(RELATIVE_CUT * values[0], smallest))), max_rank)
    if kept == 0:
        raise ValueError(f"X has rank 0: its rows are all zero or constant (n_features={n_features})")
    return kept


def eigen(G: NDArray) -> tuple[NDArray, NDArray]:
    """Return the square roots of the eigenvalues, descending, and the eigenvectors. Overwrites G."""
    values, vectors = scipy.linalg.eigh(G, overwrite_a=True, check_finite=False, driver="evd")
    return np.sqrt(np.maximum(values[::-1], 0)), vectors[:, ::-1]


def column_signs(basis: NDArray) -> NDArray:
    """Return signs that make the largest entry of each column positive, so that rounding does not decide them."""
    return np.where(basis.max(axis=0) >= -basis.min(axis=0), 1, -1).astype(basis.dtype)


def signed(basis: NDArray, signs: NDArray, dtype: Any) -> NDArray:
    """Return the leading columns of a basis with the given signs, row-contiguous."""
    return np.multiply(basis[:, : len(signs)], signs, dtype=dtype, casting="same_kind", order="C")


def randomized_svd(rows: "Range", max_rank: int, random: np.random.RandomState) -> tuple[NDArray, Any, Any]:
    """Return singular values, V and F of X projected on an approximate span of its leading right singular vectors.

    Q spans the leading left singular vectors roughly. The right space is that of Xᵀ Q, whose orthonormal basis
    is Xᵀ Q S^(-1/2) with S = Qᵀ X Xᵀ Q; the SVD of X on that basis is exact: V has orthonormal columns and
    X (Xᵀ F) = V to rounding, however rough Q is.
    """
    Q = orthonormal(rows, rows.random(min(max_rank + OVERSAMPLING, *rows.shape), random))
    for _ in range(POWER_ITERATIONS - 1):
        Q = orthonormal(rows, rows.gram_times(Q))
    GQ = rows.gram_times(Q)
    S_values, S_vectors = scipy.linalg.eigh(rows.inner(Q, GQ), driver="evd")
    sound = S_values > RELATIVE_CUT**2 * S_values[-1]
    whiten = S_vectors[:, sound] / np.sqrt(S_values[sound])
    H = rows.times(GQ, whiten)
    values, W = eigen(rows.inner(H, H))
    sound = values > RELATIVE_CUT * values[0]
    W = W[:, sound] / values[sound]
    return values[sound], rows.times(H, W), rows.times(Q, whiten @ W)


def orthonormal(rows: "Range", Y: Any) -> Any:
    """Return an orthonormal basis of the columns of Y, by the Cholesky factor of its Gram matrix.

    A Gram matrix too close to singular gives its sound directions instead, and a second round restores what
    rounding took.
    """
    for _ in range(2):
        S = rows.inner(Y, Y)
        try:
            Y = rows.divide(Y, scipy.linalg.cholesky(S, check_finite=False))
        except np.linalg.LinAlgError:
            values, vectors = scipy.linalg.eigh(S)
            sound = values > 1e-14 * values[-1]
            Y = rows.times(Y, vectors[:, sound] / np.sqrt(values[sound]))
        if np.abs(rows.squared_lengths(Y) - 1).max() < 1e-6:
            break
    return Y


class Range:
    """Operations on matrices with a row per row of X, in memory and in float64, for :func:`randomized_svd`."""

    shape: tuple[int, int]

    def __init__(self, X: Any):
        self.shape = X.shape
        self._X = in_float64(X)

    def random(self, width: int, random: np.random.RandomState) -> Any:
        """Return a matrix of Gaussian numbers."""
        return random.standard_normal((self.shape[0], width))

    def gram_times(self, Q: Any) -> Any:
        """Return X (Xᵀ Q), a few columns at a time to bound the product with D rows."""
        out = np.empty_like(Q)
        for columns in slices(Q.shape[1], PRODUCT_COLUMNS):
            out[:, columns] = product(self._X, product_transposed(self._X, np.ascontiguousarray(Q[:, columns])))
        return out

    def inner(self, Y: Any, Z: Any) -> NDArray:
        """Return YᵀZ."""
        return Y.T @ Z

    def squared_lengths(self, Y: Any) -> NDArray:
        """Return the squared length of each column of Y."""
        return np.einsum("ij,ij->j", Y, Y)

    def times(self, Y: Any, B: NDArray) -> Any:
        """Return Y B, for a small matrix B."""
        return Y @ B

    def divide(self, Y: Any, R: NDArray) -> Any:
        """Return Y R⁻¹, for a small upper triangular matrix R."""
        return scipy.linalg.solve_triangular(R, Y.T, trans="T", check_finite=False).T


def _digest(arrays: dict[str, NDArray]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()
