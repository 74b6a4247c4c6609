"""Arithmetic of long matrices in memory."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from flrml.rows.threads import in_threads, slices

PRODUCT_ROWS = 512  # that are multiplied at a time, and stay in cache
PIECE_ROWS = 2**14  # rows of a piece of work for a thread


def random_columns(seed: int, start: int, stop: int, width: int) -> NDArray[np.float64]:
    """Return rows ``start`` to ``stop`` of an endless matrix of random numbers."""
    numbers = np.random.PCG64(seed)
    numbers.advance(start * width)  # a number takes one step
    return np.random.Generator(numbers).random((stop - start, width)) - 0.5


def inner(pieces: list[NDArray], B: NDArray) -> NDArray[np.float64]:
    """Return [P₁ P₂ …]ᵀ B; blocks of rows are added up in float64, in the same order for any number of threads."""
    parts = slices(len(B), PIECE_ROWS)
    bounds = list(pairwise(np.cumsum([0, *(P.shape[1] for P in pieces)])))
    sums = np.zeros((len(parts), sum(P.shape[1] for P in pieces), B.shape[1]))

    def add(number: int) -> None:
        for rows in _blocks(parts[number]):
            for P, (start, stop) in zip(pieces, bounds, strict=True):
                sums[number, start:stop] += P[rows].T @ B[rows]

    in_threads(add, range(len(parts)))
    return sums.sum(axis=0)


def combine(pieces: list[NDArray], C: NDArray) -> NDArray:
    """Return [P₁ P₂ …] C."""
    n, dtype = len(pieces[0]), pieces[0].dtype
    C, out = C.astype(dtype), np.empty((n, C.shape[1]), dtype)

    def fill(part: slice) -> None:
        # One buffer for all blocks: Dask's workers return memory whenever an array is deleted, which takes time.
        both = np.empty((PRODUCT_ROWS, len(C)), dtype)
        for rows in _blocks(part):
            left = np.concatenate([P[rows] for P in pieces], axis=1, out=both[: rows.stop - rows.start])
            np.matmul(left, C, out=out[rows])

    in_threads(fill, slices(n, PIECE_ROWS))
    return out


def _blocks(part: slice) -> list[slice]:
    starts = range(part.start, part.stop, PRODUCT_ROWS)
    return [slice(start, min(start + PRODUCT_ROWS, part.stop)) for start in starts]
