"""Matrices with a row for each row of X, "tall" ones, that the solver works with.

The solver knows X and tall matrices through the operations of :class:`Tall` alone. In memory they are those of
NumPy arrays; on a cluster the rows of tall matrices stay where the rows of X are.
"""

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from flrml.wide import is_wide

if TYPE_CHECKING:
    from flrml.ridge.scaling import ScaledRows

CACHED_BYTES = 2**18  # of rows that are multiplied at a time


class Tall(Protocol):
    """Operations on tall matrices, with a row for each of the rows that are learned from."""

    def random(self, width: int, seed: int) -> Any:
        """Return random columns, which depend on the numbers of the rows and the seed alone."""

    def gram_times(self, B: Any) -> Any:
        """Return X (Xᵀ B), for all rows of X."""

    def learned(self, Y: Any) -> Any:
        """Return those of all rows that are learned from."""

    def product_transposed(self, B: Any) -> NDArray:
        """Return Xᵀ B."""

    def gram_within(self, B: Any) -> NDArray[np.float64]:
        """Return Bᵀ X Xᵀ B."""

    def inner(self, pieces: list[Any], B: Any) -> NDArray[np.float64]:
        """Return [P₁ P₂ …]ᵀ B, summed in float64."""

    def combine(self, pieces: list[Any], C: NDArray) -> Any:
        """Return [P₁ P₂ …] C, which may be computed when it is used."""

    def computed(self, B: Any) -> Any:
        """Return B, computed now."""

    def side_by_side(self, pieces: list[Any]) -> Any:
        """Return [P₁ P₂ …]."""


class TallArrays:
    """Tall matrices in memory.

    Parameters
    ----------
    X : ScaledRows of shape (n, D)
        The data.
    rows : ndarray or None
        Numbers of the rows that are learned from; None if all are.
    """

    def __init__(self, X: "ScaledRows", rows: NDArray | None):
        self.X, self.rows = X, rows
        self.n = X.shape[0] if rows is None else len(rows)
        self._K = X.gram[:, slice(None) if rows is None else rows].astype(X.dtype) if is_wide(X.shape) else None

    def random(self, width: int, seed: int) -> NDArray:
        """Return random columns."""
        return random_columns(seed, 0, self.n, width).astype(self.X.dtype)

    def gram_times(self, B: NDArray) -> NDArray:
        """Return X (Xᵀ B), for all rows of X."""
        return self._K @ B if self._K is not None else self.X.gram_times(self._for_all_rows(B))

    def learned(self, Y: NDArray) -> NDArray:
        """Return the rows that are learned from."""
        return Y if self.rows is None else Y[self.rows]

    def product_transposed(self, B: NDArray) -> NDArray:
        """Return Xᵀ B."""
        return self.X.product_transposed(self._for_all_rows(B))

    def gram_within(self, B: NDArray) -> NDArray[np.float64]:
        """Return Bᵀ X Xᵀ B."""
        sums = self.product_transposed(B)
        return (sums.T @ sums).astype(np.float64)

    def inner(self, pieces: list[NDArray], B: NDArray) -> NDArray[np.float64]:
        """Return [P₁ P₂ …]ᵀ B, summed in float64."""
        return inner(pieces, [B])

    def combine(self, pieces: list[NDArray], C: NDArray) -> NDArray:
        """Return [P₁ P₂ …] C."""
        return combine(pieces, C)

    def computed(self, B: NDArray) -> NDArray:
        """Return B."""
        return B

    def side_by_side(self, pieces: list[NDArray]) -> NDArray:
        """Return [P₁ P₂ …]."""
        return np.hstack(pieces)

    def _for_all_rows(self, B: NDArray) -> NDArray:
        """Return B with rows of zeros for the rows that are not learned from."""
        if self.rows is None:
            return B
        found = np.zeros((self.X.shape[0], B.shape[1]), dtype=B.dtype)
        found[self.rows] = B
        return found


def random_columns(seed: int, start: int, stop: int, width: int) -> NDArray[np.float64]:
    """Return rows ``start`` to ``stop`` of an endless matrix of random numbers, whatever the rows around them."""
    numbers = np.random.PCG64(seed)
    numbers.advance(start * width)  # a number takes one step
    return np.random.Generator(numbers).random((stop - start, width)) - 0.5


def inner(pieces: list[NDArray], others: list[NDArray]) -> NDArray[np.float64]:
    """Return [P₁ P₂ …]ᵀ [Q₁ Q₂ …] of arrays, summed in float64."""
    widths = [sum(P.shape[1] for P in parts) for parts in (pieces, others)]
    out, n, step = np.zeros(widths), len(others[0]), _cached_rows(8 * sum(widths))
    # Memory is asked for once: Dask's workers give it back whenever an array is deleted, which doubles the time.
    left, right, part = np.empty((min(step, n), widths[0])), np.empty((min(step, n), widths[1])), np.empty(widths)
    for start in range(0, n, step):
        out += np.matmul(_side_by_side(pieces, start, left).T, _side_by_side(others, start, right), out=part)
    return out


def combine(pieces: list[NDArray], C: NDArray) -> NDArray:
    """Return [P₁ P₂ …] C of arrays."""
    n, dtype = len(pieces[0]), pieces[0].dtype
    C, step = C.astype(dtype), _cached_rows(dtype.itemsize * sum(C.shape))
    out, both = np.empty((n, C.shape[1]), dtype), np.empty((min(step, n), C.shape[0]), dtype)
    for start in range(0, n, step):
        np.matmul(_side_by_side(pieces, start, both), C, out=out[start : start + step])
    return out


def _cached_rows(n_bytes: int) -> int:
    """Return how many rows of that many bytes stay in cache."""
    return max(1, CACHED_BYTES // max(n_bytes, 1))


def _side_by_side(pieces: list[NDArray], start: int, out: NDArray) -> NDArray:
    """Fill an array with rows of all pieces from ``start`` on, as many as there are."""
    rows = slice(start, min(start + len(out), len(pieces[0])))
    return np.concatenate([piece[rows] for piece in pieces], axis=1, out=out[: rows.stop - start])
