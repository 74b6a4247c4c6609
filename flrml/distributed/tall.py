"""Matrices with a row for each row of a dask array; the rows stay at the workers.

The operations are those of :class:`flrml.ridge.tall.Tall`. Each is one task per shard, and sums go from worker to
worker by a tree. A product X (Xᵀ B) communicates D × p numbers from and to every worker, the others p × p.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from distributed import Future
from numpy.typing import NDArray

from flrml.distributed.shards import Shards
from flrml.distributed.stored import open_together
from flrml.distributed.waiting import gather
from flrml.ridge.scaling import ScaledRows
from flrml.ridge.tall import combine, inner, random_columns
from flrml.rows import product, product_transposed


@dataclass(frozen=True)
class TallMatrix:
    """Pieces side by side, times a small factor, which is applied when the matrix is used.

    Attributes
    ----------
    shards : Shards
        The rows of X.
    pieces : list of lists of futures
        Rows of each piece in each shard.
    factor : ndarray with p columns
        The matrix is [P₁ P₂ …] times this.
    dtype : dtype
        Of the pieces.
    """

    shards: Shards
    pieces: list[list[Future]]
    factor: NDArray
    dtype: np.dtype

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.shards.shape[0], self.factor.shape[1]

    @property
    def by_shard(self) -> list[list[Future]]:
        """The pieces of each shard."""
        return [list(parts) for parts in zip(*self.pieces, strict=True)]

    def __getitem__(self, rows: NDArray) -> NDArray:
        """Bring some rows to the client."""
        places, parts = self.shards.pick(_take, rows, self.by_shard, self.factor)
        out = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        out[places] = np.concatenate(parts)
        return out


class ScaledBlocks(ScaledRows):
    """Scaled rows whose blocks are at workers; see :class:`flrml.ridge.scaling.ScaledRows`."""

    def tall(self, rows: NDArray | None) -> "TallBlocks":
        """Return the operations on tall matrices; all rows are learned from."""
        if rows is not None:
            raise ValueError("some of the rows at workers cannot be learned from alone; take them to the client")
        return TallBlocks(self)

    def toarray(self) -> TallMatrix:
        """Return the rows as dense matrices at the workers."""
        shards = self.X.shards
        found = shards.map(_dense, shards.futures, shards.scatter(self.weights), self.constant)
        return TallMatrix(shards, [found], np.eye(self.shape[1]), self.dtype)


class SampledBlocks(ScaledRows):
    """Scaled rows of a sample: they are at workers, but tall matrices, which are small then, on the client."""

    @cached_property
    def _blocks(self) -> "TallBlocks":
        return TallBlocks(self)

    def gram_times(self, R: NDArray) -> NDArray:
        """Return X (Xᵀ R)."""
        return self._blocks.gram_times(self._at_workers(R))[np.arange(self.shape[0])]

    def product_transposed(self, R: NDArray) -> NDArray:
        """Return the transposed rows times R."""
        return self._blocks.product_transposed(self._at_workers(R))

    def _at_workers(self, R: NDArray) -> TallMatrix:
        shards = self.X.shards
        return TallMatrix(shards, [shards.scatter_rows(R)], np.eye(R.shape[1]), self.dtype)


class TallBlocks:
    """Operations on tall matrices at the workers.

    Parameters
    ----------
    X : ScaledBlocks or SampledBlocks of shape (n, D)
        The data.
    """

    def __init__(self, X: ScaledBlocks | SampledBlocks):
        self.X, self.shards = X, X.X.shards
        self._squared_weights = self.shards.scatter(np.append(X.weights**2, X.dtype.type(X.constant**2)))

    def random(self, width: int, seed: int) -> TallMatrix:
        """Return random columns; the workers make them."""
        return self._matrix(self.shards.map(_random, self.shards.spans, seed, width, self.X.dtype), width)

    def gram_times(self, B: TallMatrix) -> TallMatrix:
        """Return X (Xᵀ B); workers that have joined take their share from here on."""
        shards = self.shards
        shards.rebalance()
        sums = shards.broadcast(self._sums(B, self._squared_weights))
        return self._matrix(shards.map(_times, shards.futures, sums), B.shape[1])

    def learned(self, Y: TallMatrix) -> TallMatrix:
        """Return Y: all rows are learned from."""
        return Y

    def product_transposed(self, B: TallMatrix) -> NDArray:
        """Return Xᵀ B, on the client."""
        X, (sums,) = self.X, gather(self.shards.client, [self._sums(B)])
        found = np.append(X.weights, X.dtype.type(X.constant))[:, None] * sums
        return found if X.constant else found[:-1]

    def gram_within(self, B: TallMatrix) -> NDArray[np.float64]:
        """Return Bᵀ X Xᵀ B; the sums of D × p stay at a worker."""
        client = self.shards.client
        found = client.submit(_weighted_gram, self._sums(B), self._squared_weights, pure=False)
        return gather(client, [found])[0]

    def inner(self, pieces: list[TallMatrix], B: TallMatrix) -> NDArray[np.float64]:
        """Return [P₁ P₂ …]ᵀ B, summed in float64."""
        P = self.side_by_side(pieces)
        return P.factor.T @ self.shards.sum(self.shards.map(inner, P.by_shard, B.by_shard)) @ B.factor

    def combine(self, pieces: list[TallMatrix], C: NDArray) -> TallMatrix:
        """Return [P₁ P₂ …] C, computed when it is used."""
        P = self.side_by_side(pieces)
        return TallMatrix(self.shards, P.pieces, P.factor @ C, P.dtype)

    def computed(self, B: TallMatrix) -> TallMatrix:
        """Return B, computed now: later products with it are as precise as those of arrays."""
        return self._matrix(self.shards.map(combine, B.by_shard, B.factor), B.shape[1])

    def side_by_side(self, pieces: list[TallMatrix]) -> TallMatrix:
        """Return [P₁ P₂ …]."""
        factor = scipy.linalg.block_diag(*(P.factor for P in pieces))
        return TallMatrix(self.shards, [part for P in pieces for part in P.pieces], factor, self.X.dtype)

    def _sums(self, B: TallMatrix, weights: Future | None = None) -> Future:
        """Return Xᵀ B for the unscaled features, and the column sums of B below it, times weights.

        They stay at a worker.
        """
        shards = self.shards
        return shards.sum_future(shards.map(_transposed_times, shards.futures, B.by_shard, B.factor, weights))

    def _matrix(self, futures: list[Future], width: int) -> TallMatrix:
        return TallMatrix(self.shards, [futures], np.eye(width), self.X.dtype)


def _random(spans: list[tuple[int, int]], seed: int, width: int, dtype: Any) -> NDArray:
    return np.concatenate([random_columns(seed, start, stop, width) for start, stop in spans]).astype(dtype)


def _transposed_times(
    blocks: list[Any], pieces: list[NDArray], factor: NDArray, weights: NDArray | None
) -> NDArray:
    out, start = np.zeros((blocks[0].shape[1] + 1, factor.shape[1]), dtype=pieces[0].dtype), 0
    for rows in open_together(blocks):
        stop = start + rows.shape[0]
        B = _combine([piece[start:stop] for piece in pieces], factor)
        product_transposed(rows, B, out[:-1])
        out[-1] += B.sum(axis=0)
        start = stop
    if weights is not None:
        out *= weights[:, None]
    return out


def _weighted_gram(sums: NDArray, squared_weights: NDArray) -> NDArray[np.float64]:
    return (sums.T @ (sums * squared_weights[:, None])).astype(np.float64)


def _times(blocks: list[Any], sums: NDArray) -> NDArray:
    out, start = np.empty((sum(block.shape[0] for block in blocks), sums.shape[1]), dtype=sums.dtype), 0
    for rows in open_together(blocks):
        product(rows, sums[:-1], out[start : start + rows.shape[0]])
        start += rows.shape[0]
    out += sums[-1]
    return out


def _dense(blocks: list[Any], weights: NDArray, constant: float) -> NDArray:
    return np.concatenate([ScaledRows(rows, weights, constant).toarray() for rows in open_together(blocks)])


def _combine(pieces: list[NDArray], factor: NDArray) -> NDArray:
    identity = (
        len(pieces) == 1 and factor.shape[0] == factor.shape[1] and np.array_equal(factor, np.eye(len(factor)))
    )
    return pieces[0] if identity else combine(pieces, factor)


def _take(numbers: NDArray, pieces: list[NDArray], factor: NDArray) -> NDArray:
    return combine([piece[numbers] for piece in pieces], factor)
