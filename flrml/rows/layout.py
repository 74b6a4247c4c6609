"""Kinds of rows, and how to read them block by block."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from flrml.rows.binary import BinaryRows
from flrml.rows.threads import slices

ROW_BLOCK_BYTES = 64 * 2**20  # size of a block of rows


class RowOperator(ABC):
    """Rows that are represented by their products, such as rows with their means subtracted.

    The functions of :mod:`flrml.rows` call the methods of an operator.
    """

    ndim = 2

    def __init__(self, X: Any):
        self.X = X

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.X.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the values."""
        return np.dtype(self.X.dtype)

    @abstractmethod
    def product(self, B: NDArray) -> NDArray:
        """Return the rows times B."""

    @abstractmethod
    def product_transposed(self, R: NDArray) -> NDArray:
        """Return the transposed rows times R."""

    @abstractmethod
    def cross_gram(self, other: Any) -> NDArray[np.float64]:
        """Return the inner products with other rows of the same kind, or with themselves."""

    @abstractmethod
    def gram_of_columns(self) -> NDArray[np.float64]:
        """Return the inner products of the columns."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a digest of the content."""


def is_dask(X: Any) -> bool:
    """Return whether X is a dask array, without importing dask."""
    return type(X).__module__.startswith("dask.")


def is_sparse(X: Any) -> bool:
    """Return whether rows of X come as CSR matrices."""
    return sp.issparse(X) or isinstance(X, BinaryRows)


def large_arrays(X: Any) -> list[NDArray]:
    """Return the arrays of dense rows, a CSR matrix or BinaryRows whose size grows with the number of values."""
    if isinstance(X, BinaryRows):
        return [X.stored]
    return [X.indices, X.data] if sp.issparse(X) else [X]


def n_bytes(X: Any) -> int:
    """Return the bytes that the values of X take where they are."""
    return sum(array.nbytes for array in large_arrays(X))


def on_disk(X: Any) -> bool:
    """Return whether the values of X lie in a memory map, so that reading them all is expensive."""
    array = X.stored if isinstance(X, BinaryRows) else getattr(X, "indices", None) if sp.issparse(X) else X
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return False


def take_rows(X: Any, rows: NDArray) -> Any:
    """Return some rows in memory, in the form in which X keeps them."""
    return X.take(rows) if isinstance(X, BinaryRows) else X[rows]


def row_blocks(X: Any, max_bytes: int = ROW_BLOCK_BYTES) -> Iterator[slice]:
    """Yield slices that walk over the rows of X, in blocks of about ``max_bytes``."""
    n, n_columns = X.shape
    per_row = 12 * X.nnz / max(n, 1) if is_sparse(X) else n_columns * np.dtype(X.dtype).itemsize
    step = max(1, int(max_bytes / max(per_row, 1)))
    yield from slices(n, step)


def occurring_columns(X: Any) -> NDArray | None:
    """Return the columns of rows in memory that are not empty, or None if almost all have entries."""
    if sp.issparse(X):
        occurs = np.zeros(X.shape[1], dtype=bool)
        occurs[X.indices] = True
    else:
        occurs = X.any(axis=0)
    occurring = np.flatnonzero(occurs)
    return occurring if len(occurring) < 0.9 * X.shape[1] else None  # leaving out a few columns does not pay


def in_float64(X: Any) -> Any:
    """Return sparse rows with float64 values, so that products with float64 need not convert them each time."""
    if isinstance(X, RowOperator):
        converted = copy(X)
        converted.X = in_float64(X.X)
        return converted
    return X.astype(np.float64) if sp.issparse(X) else X
