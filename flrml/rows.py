"""Rows of a data matrix, wherever they lie: in memory, in a memory map, dense or sparse.

Everything in flrml that walks over a large matrix does it through these few functions, so that only a block
of rows is ever in memory at once.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

BLOCK_BYTES = 64 * 2**20


class BinaryRows:
    """Rows of zeros and ones, each scaled to unit length, kept as column numbers alone.

    A row with p ones has p entries of value 1/√p. Reading rows gives an ordinary CSR matrix; the whole never
    becomes one, so the column numbers can stay in a memory map and may count more than 2³¹ entries.

    Parameters
    ----------
    indptr : ndarray of shape (n + 1,), integer
        Row i owns ``indices[indptr[i]:indptr[i + 1]]``.
    indices : ndarray of integers
        Column numbers, ascending within a row.
    n_columns : int
        Number of columns D.
    dtype : dtype, default float32
        Type of the values handed out.

    Examples
    --------
    >>> import numpy as np
    >>> X = BinaryRows(np.array([0, 1, 3]), np.array([2, 0, 1]), 3)
    >>> X[[1]].toarray().round(3)
    array([[0.707, 0.707, 0.   ]], dtype=float32)
    """

    ndim = 2

    def __init__(self, indptr, indices, n_columns: int, dtype=np.float32):
        self.indptr, self.indices, self.dtype = indptr, indices, np.dtype(dtype)
        self.shape = (len(indptr) - 1, int(n_columns))

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return int(self.indptr[-1])

    def __getitem__(self, rows) -> sp.csr_matrix:
        """CSR matrix of the given rows: a slice, a boolean mask or row numbers in any order."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.shape[0])
            if step == 1:
                stop = max(start, stop)
                bounds = np.asarray(self.indptr[start : stop + 1], dtype=np.int64)
                return self._csr(np.array(self.indices[bounds[0] : bounds[-1]]), bounds - bounds[0])
            rows = np.arange(start, stop, step)
        rows = np.asarray(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64).ravel()
        starts = np.asarray(self.indptr[rows], dtype=np.int64)
        lengths = np.asarray(self.indptr[rows + 1], dtype=np.int64) - starts
        indptr = np.concatenate(([0], np.cumsum(lengths)))
        indices = np.empty(indptr[-1], dtype=self.indices.dtype)
        for row, start in enumerate(starts):
            indices[indptr[row] : indptr[row + 1]] = self.indices[start : start + lengths[row]]
        return self._csr(indices, indptr)

    def _csr(self, indices, indptr) -> sp.csr_matrix:
        lengths = np.diff(indptr)
        values = np.repeat(1 / np.sqrt(np.maximum(lengths, 1)), lengths).astype(self.dtype)
        return sp.csr_matrix((values, indices, indptr), shape=(len(lengths), self.shape[1]))


def is_sparse(X: Any) -> bool:
    """Whether rows of X come as CSR matrices."""
    return sp.issparse(X) or isinstance(X, BinaryRows)


def row_blocks(X: Any, max_bytes: int = BLOCK_BYTES) -> Iterator[slice]:
    """Slices that walk over the rows of X, each block of about ``max_bytes`` at most."""
    n, n_columns = X.shape
    per_row = 12 * X.nnz / max(n, 1) if is_sparse(X) else n_columns * np.dtype(X.dtype).itemsize
    step = max(1, int(max_bytes / max(per_row, 1)))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
