"""The thin SVD X = V Σ Uᵀ of row blocks: V is made block by block and stays at the workers.

As in :mod:`flrml.spectrum`, the shape of X decides how it is found:

* n > D: Xᵀ X is summed over the blocks, D × D at a time; its eigenvectors U are found on the client.
* n ≤ D: X Xᵀ is put together from pairs of blocks, so a block visits the workers of the others once; its
  eigenvectors V are found on the client, and every block is given its rows.
* both long: the same randomized range finder as on one machine, by products with blocks. Its n × (r + 100) basis
  stays at the workers; sums of D × 256 and of (r + 100)² travel.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from distributed import Future
from numpy.typing import NDArray

from flrml.distributed.blocks import RowBlocks
from flrml.distributed.stored import opened
from flrml.rows import gram_of_columns, product, product_transposed, row_means
from flrml.spectrum import (
    OVERSAMPLING,
    POWER_ITERATIONS,
    REFERENCE_CUT,
    RELATIVE_CUT,
    Spectrum,
    _cheapest,
    _eigen,
    column_signs,
)

WIDTH = 256


@dataclass(frozen=True)
class BlockSpectrum:
    """Thin SVD of row blocks.

    Attributes
    ----------
    rows : RowBlocks
        X.
    singular_values : ndarray of shape (r,)
        In descending order.
    basis : ndarray or None
        U (D × r) or V (n × r) where the client has it, as ``side`` says; None where V is at the workers only.
    side : {"left", "right"}
        Which side that is.
    V : list of futures
        Rows of V of each block.
    dual : list of futures or None
        Rows of F of each block, where U Σ⁻¹ = Xᵀ F and F is not V Σ⁻².
    means : list of futures or None
        Row means that are taken off.
    settings : dict
        What :func:`decompose` was asked for.
    """

    rows: RowBlocks
    singular_values: NDArray
    basis: NDArray | None
    side: str
    V: list[Future]
    dual: list[Future] | None
    means: list[Future] | None
    settings: dict

    @property
    def rank(self) -> int:
        """r, the number of singular values kept."""
        return len(self.singular_values)

    def lift(self, B: NDArray) -> NDArray:
        """Lᵀ = U Σ⁻¹ B (D × d), on the client."""
        if self.side == "right":
            assert self.basis is not None
            return self.basis @ (B / self.singular_values[:, None])
        left = self.V if self.dual is None else self.dual
        B = B / self.singular_values[:, None] ** 2 if self.dual is None else B
        rows = self.rows
        means = self.means if self.means is not None else [None] * len(left)
        return rows.sum(rows.map(_lifted, rows.futures, left, means, rows.given(B)))

    def collect(self, fingerprint: str) -> Spectrum:
        """The same on the client, where n × r fits, to be saved or used with data in memory."""
        gather = self.rows.client.gather
        basis = self.basis if self.basis is not None else np.concatenate(gather(self.V))
        dual = None if self.dual is None else np.concatenate(gather(self.dual))
        means = None if self.means is None else np.concatenate(gather(self.means))
        return Spectrum(self.singular_values, basis, self.side, dual, means, fingerprint, self.settings)


def decompose(
    rows: RowBlocks, max_rank: int = 3000, *, centred: bool = False, method: str = "auto", random: Any = None
) -> BlockSpectrum:
    """Decompose row blocks; the parameters are those of :func:`flrml.decompose`.

    Parameters
    ----------
    rows : RowBlocks
        X.
    max_rank, centred, method
        See :func:`flrml.decompose`.
    random : RandomState
        Of the randomized method.
    """
    n, n_features = rows.shape
    method = _cheapest(n, n_features, max_rank) if method == "auto" else method
    means = rows.map(_row_means, rows.futures) if centred else None
    dual, basis = None, None
    V: list[Future] = []
    side = "right" if method == "gram" and n > n_features else "left"
    if method == "randomized":
        values, V, dual = _randomized(rows, means, max_rank, random or np.random.RandomState())
    elif side == "right":
        values, basis = _eigen(rows.sum(rows.map(_gram_of_columns, rows.futures, _or_none(means, rows))))
    else:
        values, basis = _eigen(_gram_of_rows(rows, means))
    kept = min(int(np.sum(values > max(RELATIVE_CUT * values[0], REFERENCE_CUT if centred else 0.0))), max_rank)
    if kept == 0:
        constant = "constant" if centred else "zero"
        raise ValueError(f"X has rank 0: all its rows are {constant} (n_features={n_features})")
    values = values[:kept].astype(rows.dtype)
    if basis is not None:
        basis = basis[:, :kept]
        basis = np.multiply(basis, column_signs(basis), dtype=rows.dtype, casting="same_kind", order="C")
        V = _left_blocks(rows, basis, values, side)
    else:
        signs = _signs(rows, V)[:kept]
        V, dual = (rows.map(_cut, part, signs, rows.dtype) for part in (V, dual))
    settings = {"max_rank": max_rank, "centred": centred, "method": method}
    return BlockSpectrum(rows, values, basis, side, V, dual, means, settings)


def decompose_stored(X: Any, max_rank: int, *, centred: bool, seed: int, fingerprint: str) -> Spectrum:
    """Decompose a dask array and bring the result to the client, to be saved.

    Parameters
    ----------
    X : dask array
        Rows.
    max_rank, centred
        See :func:`flrml.decompose`.
    seed : int
        Of the randomized method.
    fingerprint : str
        Digest of the same rows on disk.
    """
    found = decompose(RowBlocks(X), max_rank, centred=centred, random=np.random.RandomState(seed))
    return found.collect(fingerprint)


def from_spectrum(rows: RowBlocks, spectrum: Spectrum) -> BlockSpectrum:
    """A decomposition that the client has, for the rows that it was made from.

    Parameters
    ----------
    rows : RowBlocks
        X.
    spectrum : Spectrum
        Its decomposition.
    """
    V = _left_blocks(rows, spectrum.basis, spectrum.singular_values, spectrum.side)
    dual, means = (None if whole is None else rows.dealt(whole) for whole in (spectrum.dual, spectrum.means))
    values, basis = spectrum.singular_values, spectrum.basis
    return BlockSpectrum(rows, values, basis, spectrum.side, V, dual, means, spectrum.settings)


def _left_blocks(rows: RowBlocks, basis: NDArray, values: NDArray, side: str) -> list[Future]:
    """V of each block: X U Σ⁻¹ where the client has U, else the rows of V."""
    if side == "right":
        return rows.map(_times, rows.futures, rows.given(basis / values))
    return rows.dealt(basis)


def _or_none(parts: list[Future] | None, rows: RowBlocks) -> list:
    return [None] * len(rows.sizes) if parts is None else parts


def _gram_of_rows(rows: RowBlocks, means: list[Future] | None) -> NDArray:
    """X Xᵀ from pairs of blocks."""
    G = np.empty((rows.shape[0], rows.shape[0]))
    places = [slice(a, b) for a, b in pairwise(rows.bounds)]
    for number, (here, block) in enumerate(zip(places, rows.futures, strict=True)):
        others = rows.futures[: number + 1]
        parts = rows.client.gather(rows.map(_gram_part, others, block))
        for there, part in zip(places, parts, strict=False):
            G[there, here], G[here, there] = part, part.T
    if means is not None:
        m = np.concatenate(rows.client.gather(means))
        G -= rows.shape[1] * np.outer(m, m)
    return G


def _randomized(
    rows: RowBlocks, means: list[Future] | None, max_rank: int, random: np.random.RandomState
) -> tuple[NDArray, list[Future], list[Future]]:
    """Singular values and blocks of V and F, by the scheme of :mod:`flrml.spectrum`."""
    width = min(max_rank + OVERSAMPLING, *rows.shape)
    start = [rows.given(random.standard_normal((size, width)), block) for block, size in enumerate(rows.sizes)]
    Q = _orthonormal(rows, start)
    for _ in range(POWER_ITERATIONS - 1):
        Q = _orthonormal(rows, _gram_times(rows, means, Q))
    GQ = _gram_times(rows, means, Q)
    S_values, S_vectors = scipy.linalg.eigh(rows.sum(rows.map(_inner, Q, GQ)), driver="evd")
    sound = S_values > RELATIVE_CUT**2 * S_values[-1]
    whiten = S_vectors[:, sound] / np.sqrt(S_values[sound])
    H = rows.map(_times, GQ, rows.given(whiten))
    values, W = _eigen(rows.sum(rows.map(_inner, H, H)))
    sound = values > RELATIVE_CUT * values[0]
    W = W[:, sound] / values[sound]
    return values[sound], rows.map(_times, H, rows.given(W)), rows.map(_times, Q, rows.given(whiten @ W))


def _gram_times(rows: RowBlocks, means: list[Future] | None, Q: list[Future]) -> list[Future]:
    """X (Xᵀ Q), some columns at a time; the D × 256 sums go from worker to worker, not to the client."""
    n_columns = rows.client.submit(_n_columns, Q[0], pure=False).result()
    pieces = []
    for start in range(0, n_columns, WIDTH):
        sums = rows.sum_future(rows.map(_transposed_times, rows.futures, Q, start))
        pieces.append(rows.map(_times, rows.futures, sums))
    out = rows.map(_side_by_side, *pieces)
    if means is None:
        return out
    mean_Q = rows.given(rows.shape[1] * rows.sum(rows.map(_vector_times, means, Q)))
    return rows.map(_less_outer, out, means, mean_Q)


def _orthonormal(rows: RowBlocks, Y: list[Future]) -> list[Future]:
    """Orthonormal basis of the columns of Y: two rounds by the Gram matrix, for Y close to rank-deficient too."""
    for _ in range(2):
        S = rows.sum(rows.map(_inner, Y, Y))
        try:
            R = scipy.linalg.cholesky(S, check_finite=False)
            turn = scipy.linalg.solve_triangular(R, np.eye(len(R)), check_finite=False)
        except np.linalg.LinAlgError:
            values, vectors = scipy.linalg.eigh(S)
            sound = values > 1e-14 * values[-1]
            turn = vectors[:, sound] / np.sqrt(values[sound])
        Y = rows.map(_times, Y, rows.given(turn))
    return Y


def _signs(rows: RowBlocks, V: list[Future]) -> NDArray:
    """Signs that make the largest entry of each column of V positive; the first of several largest ones."""
    largest, signs = None, None
    for size, sign in rows.client.gather(rows.map(_extremes, V)):
        if largest is None:
            largest, signs = size, sign
        else:
            signs = np.where(size > largest, sign, signs)
            largest = np.maximum(size, largest)
    assert signs is not None
    return signs


def _row_means(block: Any) -> NDArray:
    return row_means(opened(block))


def _gram_of_columns(block: Any, means: NDArray | None) -> NDArray:
    rows = opened(block)
    G = gram_of_columns(rows)
    if means is not None:
        across = product_transposed(rows, means[:, None].astype(np.float64))
        G -= across + across.T - means @ means
    return G


def _gram_part(one: Any, other: Any) -> NDArray:
    left, right = (opened(block)[:].astype(np.float64) for block in (one, other))
    part = left @ right.T
    return part.toarray() if sp.issparse(part) else np.asarray(part)


def _times(block: Any, B: NDArray) -> NDArray:
    rows = opened(block)
    return product(rows, B) if not isinstance(rows, np.ndarray) else np.asarray(rows @ B)


def _transposed_times(block: Any, Q: NDArray, start: int) -> NDArray:
    return product_transposed(opened(block), np.ascontiguousarray(Q[:, start : start + WIDTH]))


def _inner(Y: NDArray, Z: NDArray) -> NDArray:
    return Y.T @ Z


def _vector_times(means: NDArray, Q: NDArray) -> NDArray:
    return means @ Q


def _less_outer(out: NDArray, means: NDArray, mean_Q: NDArray) -> NDArray:
    return out - np.outer(means, mean_Q)


def _side_by_side(*pieces: NDArray) -> NDArray:
    return np.hstack(pieces)


def _n_columns(Q: NDArray) -> int:
    return Q.shape[1]


def _extremes(V: NDArray) -> tuple[NDArray, NDArray]:
    return np.abs(V).max(axis=0), column_signs(V)


def _cut(part: NDArray, signs: NDArray, dtype: Any) -> NDArray:
    return np.multiply(part[:, : len(signs)], signs, dtype=dtype, casting="same_kind", order="C")


def _lifted(block: Any, left: NDArray, means: NDArray | None, B: NDArray) -> NDArray:
    C = (left @ B).astype(left.dtype, copy=False)
    L_transposed = product_transposed(opened(block), C)
    if means is not None:
        L_transposed -= (means @ C).astype(C.dtype)
    return L_transposed
