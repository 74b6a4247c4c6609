"""Hold rows of zeros and ones in little memory: as column numbers, or as runs of ones."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

# Runs are cut at multiples of this number of columns. Sums over a segment this short are precise in float32, a
# length fits in a byte, and no line of a grid of 100³ cells is cut.
SEGMENT = 200
# A run is kept as 256 · start + length in 32 bits.
LENGTH_BITS = 8
MAX_RUN_COLUMNS = 2 ** (32 - LENGTH_BITS)
# Rows that are decoded at once.
ROWS_AT_ONCE = 2**12


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
    def stored(self) -> NDArray:
        """The large array: column numbers, or runs."""
        return self.indices

    @property
    def nnz(self) -> int:
        """Number of ones."""
        return int(self.indptr[-1])

    def counts(self) -> NDArray[np.int64]:
        """Return the number of ones in each row."""
        return np.asarray(self.indptr[1:], dtype=np.int64) - self.indptr[:-1]

    def column_squares(self) -> NDArray[np.float64]:
        """Return the sum of squares of each column."""
        squares = np.zeros(self.shape[1])
        for start in range(0, self.shape[0], ROWS_AT_ONCE):
            columns, indptr = self._gather(slice(start, start + ROWS_AT_ONCE))
            counts = np.diff(indptr)
            squares += np.bincount(columns, np.repeat(1 / np.maximum(counts, 1), counts), self.shape[1])
        return squares

    def view(self, start: int, stop: int) -> "BinaryRows":
        """Return consecutive rows in the same form, without reading them."""
        bounds = np.asarray(self.indptr[start : stop + 1], dtype=np.int64)
        stored = self.stored[bounds[0] : bounds[-1]]
        return type(self)(bounds - bounds[0], stored, self.shape[1], self.dtype)

    def take(self, rows: Any) -> "BinaryRows":
        """Return some rows in the same form, in memory."""
        stored, indptr = self._gather(rows)
        return type(self)(indptr, stored, self.shape[1], self.dtype)

    @classmethod
    def concatenate(cls, parts: list["BinaryRows"]) -> "BinaryRows":
        """Return the rows of several parts as one, in memory."""
        lengths = np.concatenate([np.diff(part.indptr) for part in parts])
        stored = np.concatenate([part.stored for part in parts])
        return cls(np.concatenate(([0], np.cumsum(lengths))), stored, parts[0].shape[1], parts[0].dtype)

    def __getitem__(self, rows) -> sp.csr_matrix:
        """Return a CSR matrix of the given rows: a slice, a boolean mask or row numbers in any order."""
        return self._csr(*self._gather(rows))

    def _gather(self, rows: Any) -> tuple[NDArray, NDArray[np.int64]]:
        """Copy what is stored of the given rows into memory; return it and the bounds of the rows in it."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.shape[0])
            if step == 1:
                stop = max(start, stop)
                bounds = np.asarray(self.indptr[start : stop + 1], dtype=np.int64)
                return np.array(self.stored[bounds[0] : bounds[-1]]), bounds - bounds[0]
            rows = np.arange(start, stop, step)
        rows = np.asarray(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64).ravel()
        # Row −1 is the last one, whose end is not at −1 + 1.
        rows = np.where(rows < 0, rows + self.shape[0], rows)
        starts = np.asarray(self.indptr[rows], dtype=np.int64)
        lengths = np.asarray(self.indptr[rows + 1], dtype=np.int64) - starts
        indptr = np.concatenate(([0], np.cumsum(lengths)))
        stored = np.empty(indptr[-1], dtype=self.stored.dtype)
        for row, start in enumerate(starts):
            stored[indptr[row] : indptr[row + 1]] = self.stored[start : start + lengths[row]]
        return stored, indptr

    def _csr(self, stored: NDArray, indptr: NDArray) -> sp.csr_matrix:
        return _unit_csr(stored, indptr, self.shape[1], self.dtype)


class RunRows(BinaryRows):
    """Rows of zeros and ones, each scaled to unit length, kept as runs of consecutive ones.

    Solid voxels are such rows: a run has about 20 cells and takes 4 bytes, as much as one column number. Products
    need two additions per run. Let U sum from the start of a segment of ``SEGMENT`` columns, so that row j of
    U B is the sum of the rows of B from there to j. A run from a to b, both included, contributes row b of U B
    less row a − 1, or row b alone if a begins a segment. Hence X = S U, where S (from :meth:`steps`) has these
    two entries per run, scaled to unit length.

    Parameters
    ----------
    indptr : ndarray of shape (n + 1,), integer
        Row i owns ``runs[indptr[i]:indptr[i + 1]]``.
    runs : ndarray of uint32
        256 · start + length, ascending within a row, none across a multiple of ``SEGMENT``; see
        :func:`find_runs`.
    n_columns : int
        Number of columns D, at most 2²⁴.
    dtype : dtype, default float32
        Type of the values handed out.
    nnz : int, optional
        Number of ones, counted when it is first needed if it is left out.

    Examples
    --------
    >>> import numpy as np
    >>> runs, indptr = find_runs(np.array([2, 3, 4, 0]), np.array([0, 3, 4]))
    >>> X = RunRows(indptr, runs, 5)
    >>> X[:].toarray().round(3)
    array([[0.   , 0.   , 0.577, 0.577, 0.577],
           [1.   , 0.   , 0.   , 0.   , 0.   ]], dtype=float32)
    """

    def __init__(self, indptr, runs, n_columns: int, dtype=np.float32, nnz: int | None = None):
        self.indptr, self.runs, self.dtype = indptr, runs, np.dtype(dtype)
        self.shape = (len(indptr) - 1, int(n_columns))
        self._nnz = nnz

    @property
    def stored(self) -> NDArray:
        """The runs."""
        return self.runs

    @property
    def nnz(self) -> int:
        """Number of ones."""
        if self._nnz is None:
            self._nnz = int(self.counts().sum())
        return self._nnz

    def counts(self) -> NDArray[np.int64]:
        """Return the number of ones in each row."""
        counts = np.zeros(self.shape[0], dtype=np.int64)
        for start in range(0, self.shape[0], ROWS_AT_ONCE):
            runs, indptr = self._gather(slice(start, start + ROWS_AT_ONCE))
            counts[start : start + ROWS_AT_ONCE] = _sums_of_rows(decode(runs)[1], indptr)
        return counts

    def column_squares(self) -> NDArray[np.float64]:
        """Return the sum of squares of each column, exactly 0 for one without ones."""
        changes = np.zeros(self.shape[1] + 1)
        for start in range(0, self.shape[0], ROWS_AT_ONCE):
            runs, indptr = self._gather(slice(start, start + ROWS_AT_ONCE))
            starts, lengths = decode(runs)
            counts = np.maximum(_sums_of_rows(lengths, indptr), 1)
            squares = np.repeat(1 / counts, np.diff(indptr))
            for columns, sign in ((starts, 1), (starts + lengths, -1)):
                changes += sign * np.bincount(columns, squares, len(changes))
        sums = np.cumsum(changes)[:-1]
        return np.where(sums > 1e-12 * sums.max(initial=0), sums, 0)

    def steps(self, rows: Any) -> sp.csr_matrix:
        """Return the rows of S, where X = S U: two entries per run."""
        runs, indptr = self._gather(rows)
        starts, lengths = decode(runs)
        columns = np.empty((len(runs), 2), dtype=np.int32)
        values = np.empty((len(runs), 2), dtype=self.dtype)
        np.subtract(starts, 1, out=columns[:, 0])
        np.add(columns[:, 0], lengths, out=columns[:, 1])
        values[:, 1] = _unit_values(_sums_of_rows(lengths, indptr), np.diff(indptr), self.dtype)
        np.negative(values[:, 1], out=values[:, 0])
        # Nothing precedes a run that begins a segment. An explicit zero costs less than closing the gap.
        first = starts // SEGMENT * SEGMENT == starts
        columns[first, 0], values[first, 0] = columns[first, 1], 0
        return sp.csr_matrix((values.ravel(), columns.ravel(), 2 * indptr), shape=(len(indptr) - 1, self.shape[1]))

    def _csr(self, stored: NDArray, indptr: NDArray) -> sp.csr_matrix:
        starts, lengths = decode(stored)
        ends = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        indices = np.arange(ends[-1], dtype=np.int32)
        indices += np.repeat((starts - ends[:-1]).astype(np.int32), lengths)
        return _unit_csr(indices, ends[indptr], self.shape[1], self.dtype)


def find_runs(indices: NDArray, indptr: NDArray) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the runs of rows that are given as ascending column numbers, and the bounds of the rows in them.

    Parameters
    ----------
    indices, indptr : ndarray
        Column numbers below 2²⁴, and the bounds of the rows in them.
    """
    indptr = np.asarray(indptr, dtype=np.int64)
    is_start = np.empty(len(indices), dtype=bool)
    np.not_equal(indices[1:], indices[:-1] + 1, out=is_start[1:])
    is_start[indptr[:-1][np.diff(indptr) > 0]] = True
    first = np.flatnonzero(is_start)
    starts, lengths = indices[first].astype(np.int64), np.diff(first, append=len(indices))
    bounds = np.searchsorted(first, indptr)
    # Cut at the segments: piece after piece, each up to the end of its segment.
    n_pieces = (starts + lengths - 1) // SEGMENT - starts // SEGMENT + 1
    stops = np.repeat(starts + lengths, n_pieces)
    before = np.concatenate(([0], np.cumsum(n_pieces)))
    piece = np.arange(before[-1]) - np.repeat(before[:-1], n_pieces)
    starts = np.repeat(starts, n_pieces)
    segments = starts // SEGMENT + piece
    starts = np.maximum(starts, segments * SEGMENT)
    lengths = np.minimum(stops, (segments + 1) * SEGMENT) - starts
    return (starts << LENGTH_BITS | lengths).astype(np.uint32), before[bounds]


def decode(runs: NDArray) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the starts and lengths of runs."""
    return (runs >> LENGTH_BITS).view(np.int32), (runs & (2**LENGTH_BITS - 1)).view(np.int32)


def are_runs(runs: NDArray, n_columns: int) -> bool:
    """Tell whether all runs lie within the columns and within their segment."""
    starts, lengths = decode(runs)
    within = (lengths > 0) & (starts % SEGMENT + lengths <= SEGMENT) & (starts + lengths <= n_columns)
    return bool(within.all())


def running_sums(B: NDArray, backward: bool = False) -> None:
    """Replace each row of B by the sum of the rows from the start of its segment, or up to the end: U B or Uᵀ B."""
    whole = len(B) // SEGMENT * SEGMENT
    order = range(SEGMENT - 2, -1, -1) if backward else range(1, SEGMENT)
    before = 1 if backward else -1
    segments = B[:whole].reshape(-1, SEGMENT, B.shape[1])
    for row in order:
        segments[:, row] += segments[:, row + before]
    rest = B[whole:]
    for row in order:
        if max(row, row + before) < len(rest):
            rest[row] += rest[row + before]


def _sums_of_rows(values: NDArray, indptr: NDArray) -> NDArray:
    """Sum the values of each row."""
    return np.diff(np.concatenate(([0], np.cumsum(values, dtype=np.int64)))[indptr])


def _unit_values(counts: NDArray, repeats: NDArray, dtype: Any) -> NDArray:
    """Return 1/√p for each row with p ones, as often as asked for."""
    return np.repeat((1 / np.sqrt(np.maximum(counts, 1))).astype(dtype), repeats)


def _unit_csr(indices: NDArray, indptr: NDArray, n_columns: int, dtype: Any) -> sp.csr_matrix:
    counts = np.diff(indptr)
    values = _unit_values(counts, counts, dtype)
    return sp.csr_matrix((values, indices, indptr), shape=(len(counts), n_columns))
