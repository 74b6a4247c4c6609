"""The thin SVD X = V Σ Uᵀ as an operator.

Only one side is stored; products with the other go through X itself. Which side, and how it is found, depends
on the shape of X (n samples, D features):

* n ≤ D: the eigenvectors of X Xᵀ are V. U stays implicit.
* n > D: the eigenvectors of Xᵀ X are U. V stays implicit: V B = X (U Σ⁻¹ B).
* both long, and far longer than the wanted rank: a randomized range finder on X Xᵀ, then an exact SVD of X
  projected on the directions found.
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
    fingerprint,
    gram,
    gram_of_columns,
    is_sparse,
    product,
    product_transposed,
    row_means,
)

FORMAT = 1
RELATIVE_CUT = 1e-6  # a Gram matrix squares the condition number: what lies below is rounding noise
REFERENCE_CUT = 1e-5
OVERSAMPLING = 100
POWER_ITERATIONS = 3


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
        V (n × r) where ``side`` is ``"left"``, U (D × r) where it is ``"right"``.
    side : {"left", "right"}
        Which side is stored.
    dual : ndarray of shape (n, r) or None
        F with U Σ⁻¹ = Xᵀ F. None where that is V Σ⁻².
    means : ndarray of shape (n,) or None
        Row means that are taken off X, or None where X is decomposed as it is.
    fingerprint : str
        Digest of X.
    settings : dict
        What :func:`decompose` was asked for.
    """

    singular_values: NDArray
    basis: NDArray
    side: str
    dual: NDArray | None
    means: NDArray | None
    fingerprint: str
    settings: dict
    X: Any = field(default=None, repr=False)

    @property
    def rank(self) -> int:
        """r, the number of singular values kept."""
        return len(self.singular_values)

    def __matmul__(self, B: NDArray) -> NDArray:
        """V @ B, for B of shape (r, d)."""
        if self.side == "left":
            return self.basis @ B
        return product(self._data(), self._unwhiten(B))

    def transposed_matmul(self, R: NDArray) -> NDArray:
        """V.T @ R, for R of shape (n, d)."""
        if self.side == "left":
            return np.asarray((R.T @ self.basis).T)
        return (self.basis.T @ product_transposed(self._data(), R)) / self.singular_values[:, None]

    def top(self, B: NDArray) -> NDArray:
        """V[:, :d] @ B, for B of shape (d, d)."""
        if self.side == "left":
            return self.basis[:, : len(B)] @ B
        padded = np.zeros((self.rank, B.shape[1]), dtype=B.dtype)
        padded[: len(B)] = B
        return self @ padded

    def lift(self, B: NDArray) -> NDArray:
        """Lᵀ = U Σ⁻¹ B (D × d), the map whose embedding of the training data is X Lᵀ = V B."""
        if self.side == "right":
            return self._unwhiten(B)
        C = self.basis @ (B / self.singular_values[:, None] ** 2) if self.dual is None else self.dual @ B
        C = C.astype(self.basis.dtype, copy=False)
        L_transposed = product_transposed(self._data(), C)
        if self.means is not None:
            L_transposed -= (self.means @ C).astype(C.dtype)
        return L_transposed

    def bind(self, X: Any) -> "Spectrum":
        """Return this spectrum bound to the data it was made from; any other data raise SpectrumError."""
        if fingerprint(X) != self.fingerprint:
            raise SpectrumError(
                f"this spectrum was made from other data than the given X of shape {X.shape}, "
                "or X has changed since: decompose X anew"
            )
        return replace(self, X=X)

    def unbind(self) -> "Spectrum":
        """Return this spectrum without its reference to the data."""
        return replace(self, X=None)

    def save(self, path: PathLike) -> None:
        """Write to one .npz file."""
        arrays = {"singular_values": self.singular_values, "basis": self.basis}
        arrays |= {name: value for name in ("dual", "means") if (value := getattr(self, name)) is not None}
        meta = {
            "format": FORMAT,
            "side": self.side,
            "fingerprint": self.fingerprint,
            "settings": self.settings,
            "digest": _digest(arrays),
        }
        write_arrays(path, meta, **arrays)

    @classmethod
    def load(cls, path: PathLike, X: Any = None, **settings: Any) -> "Spectrum":
        """Read a file that :meth:`save` wrote; a damaged file or one for other data or settings is refused.

        Parameters
        ----------
        path : path
            The file.
        X : data, optional
            Bind to these data; they must be those that the spectrum was made from.
        **settings
            Settings that the spectrum must have been made with, such as ``max_rank=3000``.
        """
        try:
            meta, arrays = read_arrays(path)
        except DamagedFileError as error:
            raise SpectrumError(str(error)) from error
        intact = meta.get("format") == FORMAT and meta.get("digest") == _digest(arrays)
        if not intact:
            raise SpectrumError(f"{path} is damaged or of another format: delete it and run again")
        for name, wanted in settings.items():
            found = meta["settings"].get(name)
            if found != wanted:
                raise SpectrumError(
                    f"{path} was made with {name}={found!r}, wanted {name}={wanted!r}: decompose anew"
                )
        spectrum = cls(
            arrays["singular_values"],
            arrays["basis"],
            meta["side"],
            arrays.get("dual"),
            arrays.get("means"),
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
    X: Any, max_rank: int = 3000, *, centred: bool = False, method: str = "auto", random_state: Any = None
) -> Spectrum:
    """Decompose X into its thin SVD.

    Parameters
    ----------
    X : ndarray, csr_matrix or BinaryRows of shape (n, D)
        Data, float32 or float64, in memory or in a memory map.
    max_rank : int, default 3000
        Keep at most this many singular values.
    centred : bool, default False
        Decompose X with the mean of each *row* taken off, without densifying a sparse X. The ``"reference"``
        variant of FLRML does so.
    method : {"auto", "gram", "randomized"}
        ``"gram"`` is exact; ``"auto"`` takes it unless the randomized method is several times cheaper.
    random_state : int, RandomState or None
        Seed of the randomized method.

    Returns
    -------
    Spectrum
        Bound to X. Singular values up to 1e-6 of the largest (centred: at least up to 1e-5) are dropped.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(12.0).reshape(4, 3)
    >>> decompose(X).singular_values.round(3)
    array([22.447,  1.464])
    """
    if max_rank < 1:
        raise ValueError(f"max_rank must be at least 1, got {max_rank}")
    n, n_features = X.shape
    if method == "auto":
        method = _cheapest(n, n_features, max_rank)
    means = row_means(X) if centred else None
    dual = None
    if method == "randomized":
        side = "left"
        values, basis, dual = _randomized(X, means, max_rank, check_random_state(random_state))
    elif method != "gram":
        raise ValueError(f"method must be 'auto', 'gram' or 'randomized', got {method!r}")
    else:
        side = "left" if n <= n_features else "right"
        values, basis = _eigen(_gram_matrix(X, means, side))
    kept = min(int(np.sum(values > max(RELATIVE_CUT * values[0], REFERENCE_CUT if centred else 0.0))), max_rank)
    if kept == 0:
        constant = "constant" if centred else "zero"
        raise ValueError(f"X has rank 0: all its rows are {constant} (n_features={n_features})")
    basis, dtype = basis[:, :kept], np.dtype(X.dtype)
    signs = column_signs(basis)
    settings = {"max_rank": max_rank, "centred": centred, "method": method}
    if method == "randomized" and isinstance(random_state, int | np.integer):
        settings["seed"] = int(random_state)
    return Spectrum(
        values[:kept].astype(dtype),
        np.multiply(basis, signs, dtype=dtype, casting="same_kind", order="C"),
        side,
        None if dual is None else np.multiply(dual[:, :kept], signs, dtype=dtype, casting="same_kind", order="C"),
        means,
        fingerprint(X),
        settings,
        X,
    )


def _cheapest(n: int, n_features: int, max_rank: int) -> str:
    """Compare rough operation counts; exactness is worth a factor of three."""
    short = min(n, n_features)
    block = min(max_rank + OVERSAMPLING, short)
    return "gram" if 9 * short**3 <= 3 * (2 * POWER_ITERATIONS + 6) * n * block**2 else "randomized"


def _gram_matrix(X: Any, means: NDArray | None, side: str) -> NDArray:
    n_features = X.shape[1]
    if side == "left":
        G = gram(X)
        if means is not None:
            G -= n_features * np.outer(means, means)
        return G
    G = gram_of_columns(X)
    if means is not None:
        across = product_transposed(X, means[:, None].astype(np.float64))
        G -= across + across.T - means @ means
    return G


def _eigen(G: NDArray) -> tuple[NDArray, NDArray]:
    """Square roots of the eigenvalues, descending, and the eigenvectors. Overwrites G."""
    values, vectors = scipy.linalg.eigh(G, overwrite_a=True, check_finite=False, driver="evd")
    return np.sqrt(np.maximum(values[::-1], 0)), vectors[:, ::-1]


def column_signs(basis: NDArray) -> NDArray:
    """Signs that make the largest entry of each column positive, so that rounding does not decide them."""
    signs = np.sign(basis[np.abs(basis).argmax(axis=0), np.arange(basis.shape[1])])
    return np.where(signs == 0, 1, signs)


def _randomized(X: Any, means: NDArray | None, max_rank: int, random: Any) -> tuple[NDArray, NDArray, NDArray]:
    """Singular values, V and F of X projected on an approximate span of its leading right singular vectors.

    Q spans the leading left singular vectors roughly. The right space is that of Xᵀ Q, whose orthonormal basis
    is Xᵀ Q S^(-1/2) with S = Qᵀ X Xᵀ Q; the SVD of X on that basis is exact: V has orthonormal columns and
    X (Xᵀ F) = V to rounding, however rough Q is.
    """
    n = X.shape[0]
    block = min(max_rank + OVERSAMPLING, *X.shape)
    Q = _orthonormal(random.standard_normal((n, block)))
    for _ in range(POWER_ITERATIONS - 1):
        Q = _orthonormal(_gram_times(X, means, Q))
    GQ = _gram_times(X, means, Q)
    S_values, S_vectors = scipy.linalg.eigh(Q.T @ GQ, driver="evd")
    sound = S_values > RELATIVE_CUT**2 * S_values[-1]
    whiten = S_vectors[:, sound] / np.sqrt(S_values[sound])
    H = GQ @ whiten
    values, W = _eigen(H.T @ H)
    sound = values > RELATIVE_CUT * values[0]
    W = W[:, sound] / values[sound]
    return values[sound], H @ W, Q @ (whiten @ W)


def _gram_times(X: Any, means: NDArray | None, Q: NDArray, width: int = 256) -> NDArray:
    """X (Xᵀ Q) in float64, with row means taken off, a few columns at a time to bound the D × width product."""
    out = np.empty_like(Q)
    rows = X.astype(np.float64) if is_sparse(X) and hasattr(X, "astype") else X
    for start in range(0, Q.shape[1], width):
        columns = slice(start, start + width)
        out[:, columns] = product(rows, product_transposed(rows, np.ascontiguousarray(Q[:, columns])))
    if means is not None:
        out -= X.shape[1] * np.outer(means, means @ Q)
    return out


def _orthonormal(Y: NDArray) -> NDArray:
    """Orthonormal basis of the columns of Y: by Cholesky, or by QR where Y is too close to rank-deficient."""
    try:
        R = scipy.linalg.cholesky(Y.T @ Y, overwrite_a=True, check_finite=False)
        Q = scipy.linalg.solve_triangular(R, Y.T, trans="T", overwrite_b=True, check_finite=False).T
        if np.abs(np.einsum("ij,ij->j", Q, Q) - 1).max() < 1e-6:
            return Q
    except np.linalg.LinAlgError:
        pass
    return scipy.linalg.qr(Y, mode="economic", check_finite=False)[0]


def _digest(arrays: dict[str, NDArray]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()
