"""The thin SVD X = V Σ Uᵀ of row blocks: V is computed block by block and stays at the workers.

As in :mod:`flrml.spectrum`, the shape of X decides how it is found:

* n > D: Xᵀ X is summed over the blocks, D × D at a time; its eigenvectors U are found on the client.
* n ≤ D: X Xᵀ is put together from pairs of blocks, so a block visits the workers of the others once; its
  eigenvectors V are found on the client, and every block is given its rows.
* both long: :func:`flrml.spectrum.randomized_svd` by products with blocks. Its n × (r + 100) basis stays at the
  workers; sums of D × 256 and of (r + 100)² are communicated.
"""

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.linalg
from distributed import Future
from numpy.typing import NDArray

from flrml.distributed.cluster import gather
from flrml.distributed.remote_rows import RemoteRows
from flrml.distributed.stored import opened
from flrml.rows import cross_gram, gram_of_columns, product, product_transposed
from flrml.spectrum import (
    PRODUCT_COLUMNS,
    Range,
    Spectrum,
    choose_method,
    column_signs,
    count_kept,
    eigen,
    randomized_svd,
    signed,
)


@dataclass(frozen=True)
class RemoteSpectrum(Spectrum):
    """Thin SVD of remote rows ``X``; see :class:`flrml.Spectrum`."""

    basis: Any  # None if V is at the workers only
    dual: Any  # rows of each portion
    V: list[Future] = field(default_factory=list)  # rows of each portion

    def lift(self, B: NDArray) -> NDArray:
        """Return Lᵀ = U Σ⁻¹ B (D × d), on the client."""
        if self.side == "right":
            return super().lift(B)
        left = self.V if self.dual is None else self.dual
        B = B / self.singular_values[:, None] ** 2 if self.dual is None else B
        return self.X.sum(self.X.map(_lift, self.X.futures, left, self.X.scatter(B)))

    def collect(self, fingerprint: str) -> Spectrum:
        """Return the same on the client, which must have room for n × r numbers, with the digest of the rows."""
        client = self.X.client
        basis = self.basis if self.basis is not None else np.concatenate(gather(client, self.V))
        dual = None if self.dual is None else np.concatenate(gather(client, self.dual))
        return Spectrum(self.singular_values, basis, self.side, dual, fingerprint, self.settings)


def decompose(
    rows: RemoteRows,
    max_rank: int = 3000,
    *,
    method: str = "auto",
    smallest: float = 0.0,
    random: np.random.RandomState | None = None,
) -> RemoteSpectrum:
    """Decompose row blocks; see :func:`flrml.decompose` for the parameters."""
    n, n_features = rows.shape
    method = choose_method(method, n, n_features, max_rank)
    settings = {"max_rank": max_rank, "method": method, "smallest": smallest}
    if method == "randomized":
        values, V, dual = randomized_svd(RemoteRange(rows), max_rank, random or np.random.RandomState())
        kept = count_kept(values, max_rank, smallest, n_features)
        # The largest and the smallest entry of each column decide its sign, as in memory.
        signs = column_signs(np.vstack(gather(rows.client, rows.map(_extremes, V))))[:kept]
        V, dual = (rows.map(signed, part, signs, rows.dtype) for part in (V, dual))
        return RemoteSpectrum(values[:kept].astype(rows.dtype), None, "left", dual, "", settings, rows, V)
    side = "right" if n > n_features else "left"
    total = rows.sum(rows.map(_gram_of_columns, rows.futures)) if side == "right" else _gram_of_rows(rows)
    values, basis = eigen(total)
    kept = count_kept(values, max_rank, smallest, n_features)
    values, basis = values[:kept].astype(rows.dtype), signed(basis, column_signs(basis[:, :kept]), rows.dtype)
    V = _left_vectors(rows, basis, values, side)
    return RemoteSpectrum(values, basis, side, None, "", settings, rows, V)


def from_spectrum(rows: RemoteRows, spectrum: Spectrum) -> RemoteSpectrum:
    """Distribute a decomposition on the client to the row blocks that it belongs to."""
    V = _left_vectors(rows, spectrum.basis, spectrum.singular_values, spectrum.side)
    dual = None if spectrum.dual is None else rows.scatter_rows(spectrum.dual)
    return RemoteSpectrum(**vars(spectrum) | {"dual": dual, "X": rows, "V": V})


class RemoteRange(Range):
    """Sample matrices as lists of row blocks at the workers."""

    def __init__(self, rows: RemoteRows):
        self.rows, self.shape = rows, rows.shape

    def random(self, width: int, random: np.random.RandomState) -> list[Future]:
        spans = enumerate(self.rows.spans)
        return [
            self.rows.scatter(random.standard_normal((stop - start, width)), portion)
            for portion, ((start, stop),) in spans
        ]

    def gram_times(self, Q: list[Future]) -> list[Future]:
        """Return X (Xᵀ Q), some columns at a time; workers send one another the D × 256 sums."""
        rows = self.rows
        ((_, n_columns),) = gather(rows.client, [rows.submit(attrgetter("shape"), Q[0])])
        pieces = []
        for start in range(0, n_columns, PRODUCT_COLUMNS):
            sums = rows.sum_future(rows.map(_transposed_times, rows.futures, Q, start))
            pieces.append(rows.map(_times, rows.futures, sums))
        return rows.map(np.hstack, [list(parts) for parts in zip(*pieces, strict=True)])

    def inner(self, Y: list[Future], Z: list[Future]) -> NDArray:
        return self.rows.sum(self.rows.map(_inner, Y, Z))

    def squared_lengths(self, Y: list[Future]) -> NDArray:
        return self.rows.sum(self.rows.map(_squared_lengths, Y))

    def times(self, Y: list[Future], B: NDArray) -> list[Future]:
        return self.rows.map(np.matmul, Y, self.rows.scatter(B))

    def divide(self, Y: list[Future], R: NDArray) -> list[Future]:
        return self.times(Y, scipy.linalg.solve_triangular(R, np.eye(len(R)), check_finite=False))


def _left_vectors(rows: RemoteRows, basis: NDArray, values: NDArray, side: str) -> list[Future]:
    """Return V of each portion: X U Σ⁻¹ if the client has U, else the rows of V."""
    if side == "right":
        return rows.map(_times, rows.futures, rows.scatter(basis / values))
    return rows.scatter_rows(basis)


def _gram_of_rows(rows: RemoteRows) -> NDArray:
    """Return X Xᵀ from pairs of blocks."""
    G = np.empty((rows.shape[0], rows.shape[0]))
    places = [slice(*span) for (span,) in rows.spans]
    for number, (here, (block,)) in enumerate(zip(places, rows.futures, strict=True)):
        parts = gather(rows.client, rows.map(_cross_gram, rows.futures[: number + 1], block))
        for there, part in zip(places, parts, strict=False):
            G[there, here], G[here, there] = part, part.T
    return G


def _gram_of_columns(blocks: list[Any]) -> NDArray:
    return gram_of_columns(opened(*blocks))


def _cross_gram(blocks: list[Any], other: Any) -> NDArray:
    return cross_gram(opened(*blocks), opened(other))


def _times(blocks: list[Any], B: NDArray) -> NDArray:
    return product(opened(*blocks), B)


def _transposed_times(blocks: list[Any], Q: NDArray, start: int) -> NDArray:
    return product_transposed(opened(*blocks), np.ascontiguousarray(Q[:, start : start + PRODUCT_COLUMNS]))


def _inner(Y: NDArray, Z: NDArray) -> NDArray:
    return Y.T @ Z


def _squared_lengths(Y: NDArray) -> NDArray:
    return np.einsum("ij,ij->j", Y, Y)


def _extremes(V: NDArray) -> NDArray:
    return np.stack((V.max(axis=0), V.min(axis=0)))


def _lift(blocks: list[Any], left: NDArray, B: NDArray) -> NDArray:
    return product_transposed(opened(*blocks), (left @ B).astype(left.dtype, copy=False))
