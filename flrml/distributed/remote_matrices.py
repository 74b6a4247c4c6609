"""Matrices with one row per row of a dask array; the rows stay at the workers.

The operations are those of :class:`flrml.ridge.sample_matrices.SampleMatrices`, one task per portion. Sums of D × p
numbers are sent from worker to worker along a tree to the one that keeps the directions, and new directions back
the same way. The client sees only matrices of p × p, and submits one block ahead, so that no worker waits for it.
"""

from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
from dask.sizeof import sizeof
from distributed import Future
from numpy.typing import NDArray

from flrml.distributed.cluster import gather
from flrml.distributed.remote_rows import RemoteRows, add_up
from flrml.distributed.stored import open_together
from flrml.ridge.arrays import combine, inner, random_columns
from flrml.ridge.krylov import Block, next_block
from flrml.ridge.sample_matrices import DualSampleMatrices, SampleMatrices
from flrml.ridge.scaling import ScaledRows
from flrml.ridge.subspace import Subspace, orthonormal_coordinates
from flrml.rows import product, product_transposed


@dataclass(frozen=True)
class RemoteMatrix:
    """Pieces side by side, whose rows are at the workers."""

    rows: RemoteRows  # of X
    pieces: list[list[Future]]  # rows of each piece in each portion
    dtype: np.dtype
    n_columns: int = 0  # for images, only the workers know the number

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.rows.shape[0], self.n_columns

    @property
    def by_portion(self) -> list[list[Future]]:
        """The pieces of each portion."""
        return [list(parts) for parts in zip(*self.pieces, strict=True)]

    def __getitem__(self, rows: NDArray) -> NDArray:
        """Return some rows on the client."""
        places, parts = self.rows.pick(_take, rows, self.by_portion)
        found = np.concatenate(gather(self.rows.client, parts))
        out = np.empty_like(found)
        out[places] = found
        return out


class ScaledBlocks(ScaledRows):
    """Scaled rows whose blocks are at workers; see :class:`flrml.ridge.scaling.ScaledRows`."""

    def matrices(self, rows: NDArray | None, n_columns: int) -> "RemoteMatrices":
        """Return the operations on sample matrices; all rows are training rows."""
        if rows is not None:
            raise ValueError("remote rows cannot be split into training and validation rows; take a sample")
        kind = DualRemoteMatrices if self.has_many_columns else RemoteMatrices
        return kind(self, self.is_narrow(n_columns))


class SampledBlocks(ScaledRows):
    """Scaled rows of a sample: they are at workers, but sample matrices, which are small then, on the client."""

    @cached_property
    def _blocks(self) -> "DualRemoteMatrices":
        # Of other rows: a reference back to these would keep what workers hold until Python looks for cycles.
        blocks = ScaledBlocks(self.X, self.weights, self.constant, self.scale, self.mean_square)
        return DualRemoteMatrices(blocks, is_narrow=False)

    def matrices(self, rows: NDArray | None, n_columns: int) -> DualSampleMatrices:
        """Return the operations on sample matrices; directions are represented by their duals."""
        return DualSampleMatrices(self, rows, whole=False, formed=False)

    def gram_times(self, R: NDArray) -> NDArray:
        """Return X (Xᵀ R)."""
        return self._blocks.gram_times(self._at_workers(R))[np.arange(self.shape[0])]

    def product_transposed(self, R: NDArray) -> NDArray:
        """Return the transposed rows times R."""
        return self._blocks.gather_sums(self._at_workers(R))

    def _at_workers(self, R: NDArray) -> RemoteMatrix:
        return RemoteMatrix(self.X, [self.X.scatter_rows(R)], self.dtype, R.shape[1])


class RemoteMatrices(SampleMatrices):
    """Operations on sample matrices at the workers."""

    def __init__(self, X: ScaledBlocks, is_narrow: bool):
        super().__init__(X, None, is_narrow)
        self.remote: RemoteRows = X.X
        self._weights = self.remote.scatter(np.append(X.weights, X.dtype.type(X.constant)))
        self._last: Block | None = None

    def dense(self) -> RemoteMatrix:
        found = self.remote.map(_dense, self.remote.futures, self._weights, self.X.constant)
        return RemoteMatrix(self.remote, [found], self.X.dtype, self.X.shape[1])

    def random(self, width: int, seed: int) -> Any:
        """Return random columns, made by the workers."""
        found = self.remote.map(_random, self.remote.spans, seed, width, self.X.dtype)
        return RemoteMatrix(self.remote, [found], self.X.dtype, width)

    def side_by_side(self, pieces: list[Any]) -> Any:
        found = [part for P in pieces for part in P.pieces]
        return RemoteMatrix(self.remote, found, self.X.dtype, sum(P.n_columns for P in pieces))

    def sums(self, B: Any) -> Any:
        """Return Xᵀ B in partial sums."""
        remote = self.remote
        return remote.sums_by_worker(remote.map(_transposed_times, remote.futures, B.by_portion, self._weights))

    def next_block(self, blocks: list[Any], sums: Any) -> Any:
        """Return futures of the block that sums add, and of its small matrix; one worker keeps all blocks."""
        found = self._submit(_next_block, [earlier.directions for earlier in blocks], sums)
        along: Any = self._submit(attrgetter("along"), found)
        return Block(found, along)

    def is_empty(self, block: Block) -> bool:
        """Return False without waiting for the block; products without columns take no time."""
        return False

    def product(self, block: Block) -> RemoteMatrix:
        """Return X V for the directions V of a block.

        It waits for the previous block, so that workers that join get their share from the next block on.
        """
        remote = self.remote
        if self._last is not None:
            self.gather([self._last.along])
            remote.rebalance()
        self._last = block
        copies = remote.broadcast(block.directions)
        return RemoteMatrix(remote, [remote.map(_times, remote.futures, copies, self._weights)], self.X.dtype)

    def last_column(self, blocks: list[Block] | None, images: list[RemoteMatrix]) -> Future:
        parts = self.side_by_side(images).by_portion
        return self.remote.sum_future(self.remote.map(_inner, parts))

    def gather(self, matrices: list[Any]) -> list[NDArray[np.float64]]:
        return gather(self.remote.client, matrices)

    def lift(self, blocks: list[Block] | None, C: NDArray) -> NDArray:
        if blocks is None:
            return C
        (found,) = gather(self.remote.client, [self._submit(_lift, [block.directions for block in blocks], C)])
        return found if self.X.constant else found[:-1]

    def _submit(self, work: Any, *arguments: Any) -> Future:
        """Work on directions at the worker that keeps them."""
        return self.remote.submit(work, *arguments, at=self.remote.places[0])


class DualRemoteMatrices(RemoteMatrices):
    """Operations for fewer rows than columns, at the workers.

    See :class:`flrml.ridge.sample_matrices.DualSampleMatrices`.
    """

    def sums(self, B: Any) -> RemoteMatrix:
        """Return B, which represents Xᵀ B."""
        return self._matrix(self.remote.map(np.hstack, B.by_portion), B.n_columns)

    def next_block(self, blocks: list[Any], sums: Any) -> Any:
        return next_block(blocks, sums, self._inner, self._combine)

    def is_empty(self, block: Any) -> bool:
        return block.directions.n_columns == 0

    def product(self, block: Any) -> RemoteMatrix:
        """Return K A; workers that have joined get their share."""
        self.remote.rebalance()
        return self.gram_times(block.directions)

    def gram_times(self, B: RemoteMatrix) -> RemoteMatrix:
        """Return X (Xᵀ B)."""
        remote = self.remote
        copies = remote.broadcast(self._submit(_as_block, super().sums(B)))
        return self._matrix(remote.map(_times, remote.futures, copies, self._weights), B.n_columns)

    def product_transposed(self, E: RemoteMatrix) -> Any:
        """Return E, which represents Xᵀ E."""
        return E

    def last_column(self, blocks: list[Any] | None, images: list[RemoteMatrix]) -> Any:
        return self._inner([block.directions for block in blocks or ()], images[-1])

    def gather(self, matrices: list[Any]) -> list[NDArray[np.float64]]:
        """Return the matrices, which are on the client."""
        return matrices

    def subspace(self, blocks: list[Any] | None, images: list[RemoteMatrix], columns: list[Any]) -> Subspace:
        C = orthonormal_coordinates(columns, self.X.dtype)
        E = self._combine(images, C)
        dual = self._combine([block.directions for block in blocks or ()], C)
        return Subspace(E, self, [self._inner([E], E)], dual)

    def lift(self, blocks: Any, C: NDArray) -> NDArray:
        """Return Xᵀ A C, on the client; ``blocks`` is A."""
        return self.gather_sums(self._combine([blocks], C))

    def gather_sums(self, B: RemoteMatrix) -> NDArray:
        """Return Xᵀ B, on the client."""
        (found,) = gather(self.remote.client, [self._submit(add_up, super().sums(B))])
        return found if self.X.constant else found[:-1]

    def _inner(self, pieces: list[RemoteMatrix], B: RemoteMatrix) -> NDArray[np.float64]:
        parts, (others,) = self.side_by_side(pieces).by_portion, B.pieces
        return self.remote.sum(self.remote.map(inner, parts, others), small=True)

    def _combine(self, pieces: list[RemoteMatrix], C: NDArray) -> RemoteMatrix:
        return self._matrix(self.remote.map(combine, self.side_by_side(pieces).by_portion, C), C.shape[1])

    def _matrix(self, futures: list[Future], n_columns: int) -> RemoteMatrix:
        return RemoteMatrix(self.remote, [futures], self.X.dtype, n_columns)


@sizeof.register(Block)
def _size_in_memory(block: Block) -> int:
    return block.directions.nbytes + block.along.nbytes


def _random(spans: list[tuple[int, int]], seed: int, width: int, dtype: Any) -> NDArray:
    return np.concatenate([random_columns(seed, start, stop, width) for start, stop in spans]).astype(dtype)


def _dense(blocks: list[Any], weights: NDArray, constant: float) -> NDArray:
    return np.concatenate([ScaledRows(rows, weights[:-1], constant).toarray() for rows in open_together(blocks)])


def _next_block(blocks: list[Block], parts: list[NDArray]) -> Block:
    return next_block(blocks, add_up(parts))


def _lift(blocks: list[Block], C: NDArray) -> NDArray:
    return combine([block.directions for block in blocks], C)


def _times(blocks: list[Any], block: Block, weights: NDArray) -> NDArray:
    """Return X V for the directions V of a block; the last of their rows is that of the constant."""
    V = block.directions * weights[:, None]
    out, start = np.empty((sum(block.shape[0] for block in blocks), V.shape[1]), dtype=V.dtype), 0
    for rows in open_together(blocks):
        product(rows, V[:-1], out[start : start + rows.shape[0]])
        start += rows.shape[0]
    out += V[-1]
    return out


def _transposed_times(blocks: list[Any], pieces: list[NDArray], weights: NDArray) -> NDArray:
    """Return Xᵀ E, with a row for the constant."""
    E, start = np.hstack(pieces) if len(pieces) > 1 else pieces[0], 0
    out = np.zeros((blocks[0].shape[1] + 1, E.shape[1]), dtype=E.dtype)
    for rows in open_together(blocks):
        stop = start + rows.shape[0]
        product_transposed(rows, E[start:stop], out[:-1])
        start = stop
    out[-1] = E.sum(axis=0)
    out *= weights[:, None]
    return out


def _inner(pieces: list[NDArray]) -> NDArray[np.float64]:
    return inner(pieces, pieces[-1])


def _as_block(parts: list[NDArray]) -> Block:
    return Block(add_up(parts), np.empty((0, 0)))


def _take(pieces: list[NDArray], numbers: NDArray) -> NDArray:
    return np.hstack([piece[numbers] for piece in pieces])
