"""Rows with scaled features and a constant, represented by their products.

Features differ in size by orders of magnitude: frequent and rare words, millilitres and percentages. A ridge
shrinks the small ones most, whether they separate classes or not. Each feature is therefore divided by a power of
its root mean square: 0 leaves it as it is, 1 makes all of them equal. The map stays linear in the features.

A constant can be a further feature, which gives the map an intercept. Without one, the cosine cannot distinguish
rows that differ in length only, nor a class around the origin from the others.
"""

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from flrml.ridge.sample_matrices import DualSampleMatrices, SampleMatrices
from flrml.rows import gram, is_sparse, product, product_transposed, row_blocks
from flrml.rows.binary import BinaryRows
from flrml.rows.wide import is_wide

EXACT_ROWS, EXACT_COLUMNS = 400, 200  # up to this size, the whole row space is used
DUAL_COLUMNS_PER_ROW = 3  # above it, directions are represented by their duals


class ScaledRows:
    """Rows x of X as (w ∘ x, c), with weights w and a constant c, 0 if there is none; X is not copied.

    ``scale`` is the power of the root mean squares that the weights divide by, ``mean_square`` the mean squared
    length of the scaled rows.
    """

    def __init__(
        self, X: Any, weights: NDArray, constant: float = 0.0, scale: float = 0.0, mean_square: float = 1.0
    ):
        self.X, self.weights, self.constant = X, weights.astype(X.dtype), constant
        self.scale, self.mean_square = scale, mean_square
        self.shape = (X.shape[0], X.shape[1] + (constant > 0))
        self.dtype = np.dtype(X.dtype)

    @property
    def is_plain(self) -> bool:
        """Whether the inner products are those of the rows as they are."""
        return self.scale == 0 and self.constant == 0

    @property
    def filled(self) -> float:
        """Share of the values that are stored: 1 if rows are dense."""
        n, n_columns = self.shape
        if is_remote(self.X):
            return self.X.filled
        return self.X.nnz / max(n * n_columns, 1) if is_sparse(self.X) else 1.0

    def is_narrow(self, n_columns: int) -> bool:
        """Return whether features are few, or not more than the planned columns, and dense enough to be stored."""
        return self.shape[1] <= max(EXACT_COLUMNS, min(n_columns, self.shape[0])) and self.filled >= 0.1

    def product(self, B: NDArray) -> NDArray:
        """Return the rows times B."""
        D = self.X.shape[1]
        found = product(self.X, self.weights[:, None] * B[:D])
        if self.constant:
            found += self.dtype.type(self.constant) * B[D]
        return found

    def product_transposed(self, R: NDArray) -> NDArray:
        """Return the transposed rows times R."""
        found = product_transposed(self.X, R)
        found *= self.weights[:, None]
        return np.vstack((found, self.dtype.type(self.constant) * R.sum(axis=0))) if self.constant else found

    def gram_times(self, R: NDArray) -> NDArray:
        """Return X (Xᵀ R)."""
        return self.product(self.product_transposed(R))

    @property
    def has_many_columns(self) -> bool:
        """Whether columns outnumber rows so far that directions are represented by their duals."""
        return self.shape[1] > DUAL_COLUMNS_PER_ROW * self.shape[0]

    def matrices(self, rows: NDArray | None, n_columns: int) -> SampleMatrices:
        """Return the operations on sample matrices, with the given training rows or all of them.

        ``n_columns`` is the number of directions that are planned; if there are fewer features, these are taken.
        """
        few, narrow = self.shape[0] <= EXACT_ROWS, self.is_narrow(n_columns)
        if narrow or not (few or self.has_many_columns):
            return SampleMatrices(self, rows, narrow)
        return DualSampleMatrices(self, rows, few, is_wide(self.shape))

    def toarray(self) -> Any:
        """Return the rows as a dense matrix."""
        rows, out = self.X[:], np.empty(self.shape, self.dtype)
        np.multiply(rows.toarray() if sp.issparse(rows) else rows, self.weights, out=out[:, : len(self.weights)])
        out[:, len(self.weights) :] = self.constant
        return out

    @cached_property
    def gram(self) -> NDArray[np.float64]:
        """The inner products of the rows."""
        rows = self.X[:]
        scaled = rows @ sp.diags(self.weights) if sp.issparse(rows) else rows * self.weights
        return gram(sp.csr_matrix(scaled) if sp.issparse(rows) else scaled) + self.constant**2

    def unscale(self, directions: NDArray) -> tuple[NDArray, NDArray]:
        """Return the map Lᵀ (D × d) and the intercept (d) on rows of X for a map on the scaled rows, in place."""
        D, d = self.X.shape[1], directions.shape[1]
        intercept = self.constant * directions[D] if self.constant else np.zeros(d)
        L_transposed = directions[:D]
        L_transposed *= self.weights[:, None]
        return L_transposed, intercept.astype(self.dtype)


def is_remote(X: Any) -> bool:
    """Return whether other processes hold the rows, as for :class:`flrml.distributed.closed_form.ClusterRows`."""
    return getattr(X, "is_remote", False)


def scale_rows(X: Any, scale: float, fit_intercept: bool) -> ScaledRows:
    """Return rows with features divided by a power of their root mean squares, and a constant for an intercept."""
    squares = squares_of(X)
    total = float(squares.sum())
    least = 1e-6**2 * squares.max(initial=np.finfo(np.float64).tiny)  # smaller ones are raised to it
    roots = np.sqrt(np.maximum(squares, least))
    # A feature that no row has gets no weight: rounding in products with it must not count.
    weights = np.where(squares > 0, roots**-scale, 0.0)
    constant = total ** ((1 - scale) / 2) if fit_intercept else 0.0
    mean_square = float(weights**2 @ squares) + constant**2
    scaled_type = X.scaled_type if is_remote(X) else ScaledRows
    return scaled_type(X, weights, constant, scale, mean_square)


def squares_of(X: Any) -> NDArray[np.float64]:
    """Return the mean square of each feature."""
    if is_remote(X):
        return X.squares()
    if isinstance(X, BinaryRows):
        return X.column_squares() / X.shape[0]
    columns = np.zeros(X.shape[1])
    for block in row_blocks(X):
        part = X[block]
        if sp.issparse(part):
            squared = sp.csr_matrix((np.square(part.data), part.indices, part.indptr), part.shape)
        else:
            squared = np.square(part)
        columns += squared.T @ np.ones(part.shape[0], dtype=X.dtype)
    return columns / X.shape[0]
