"""Rows of zeros and ones, stored as column numbers or as runs of ones."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

# Runs are cut at multiples of this number of columns. Sums over a segment this short are precise in float32, a
# length fits in a byte, and no line of a grid of 100³ cells is cut.
SEGMENT = 200
# Columns that products work on at a time: 50 columns of a dense factor then take 2 MB.
TILE = 50 * SEGMENT
# A run is kept as 256 · start + length in 32 bits.
LENGTH_BITS = 8
MAX_RUN_COLUMNS = 2 ** (32 - LENGTH_BITS)
# Rows that are decoded at once.
ROWS_AT_ONCE = 2**12


def _check_bounds(indptr: NDArray, stored: NDArray, name: str) -> None:
    """Raise ValueError unless the bounds of the rows are integers that ascend from 0 to the end of the array."""
    for array, what in ((indptr, "indptr"), (stored, name)):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ValueError(f"{what} must be one row of integers, got {array.dtype} of shape {array.shape}")
    if len(indptr) == 0 or indptr[0] != 0 or indptr[-1] != len(stored) or np.any(indptr[1:] < indptr[:-1]):
        raise ValueError(f"indptr must ascend from 0 to {len(stored)}, the number of {name}")


def _check_ascending(indptr: NDArray, starts: NDArray, ends: NDArray, n_columns: int) -> None:
    """Raise ValueError unless columns are in range and ascend within each row."""
    if len(starts) == 0:
        return
    if starts.min() < 0 or ends.max() > n_columns:
        raise ValueError(f"columns must be from 0 to {n_columns - 1}, got {starts.min()} to {ends.max() - 1}")
    falls = np.flatnonzero(starts[1:] < ends[:-1]) + 1
    if not np.isin(falls, indptr).all():
        raise ValueError("columns must ascend within a row, each at most once")


class BinaryRows:
    """Rows of zeros and ones, each scaled to unit length, stored as column numbers only.

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
    dtype : dtype, default=float32
        Type of the values.
    check : bool, default=True
        Whether to check the arrays; numbers out of range make compiled code read foreign memory.

    Examples
    --------
    >>> import numpy as np
    >>> X = BinaryRows(np.array([0, 1, 3]), np.array([2, 0, 1]), 3)
    >>> X[[1]].toarray().round(3)
    array([[0.707, 0.707, 0.   ]], dtype=float32)
    """

    ndim = 2

    def __init__(self, indptr, indices, n_columns: int, dtype=np.float32, *, check: bool = True):
        if check:
            indptr, indices = np.asarray(indptr), np.asarray(indices)
            _check_bounds(indptr, indices, "indices")
            _check_ascending(indptr, indices, indices + 1, n_columns)
        self.indptr, self.dtype = indptr, np.dtype(dtype)
        self.stored = indices  # the large array: column numbers, or runs
        self.shape = (len(indptr) - 1, int(n_columns))

    def __len__(self) -> int:
        return self.shape[0]

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
        return type(self)(bounds - bounds[0], stored, self.shape[1], self.dtype, check=False)

    def take(self, rows: Any) -> "BinaryRows":
        """Return some rows in the same form, in memory."""
        stored, indptr = self._gather(rows)
        return type(self)(indptr, stored, self.shape[1], self.dtype, check=False)

    @classmethod
    def concatenate(cls, parts: list["BinaryRows"]) -> "BinaryRows":
        """Return the rows of several parts as one, in memory."""
        lengths = np.concatenate([np.diff(part.indptr) for part in parts])
        stored = np.concatenate([part.stored for part in parts])
        indptr = np.concatenate(([0], np.cumsum(lengths)))
        return cls(indptr, stored, parts[0].shape[1], parts[0].dtype, check=False)

    def __getitem__(self, rows) -> sp.csr_matrix:
        """Return a CSR matrix of the given rows: a slice, a boolean mask or row numbers in any order."""
        return self._csr(*self._gather(rows))

    def _gather(self, rows: Any) -> tuple[NDArray, NDArray[np.int64]]:
        """Copy what is stored of the given rows into memory; return it and the bounds of the rows in it."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.shape[0])
            if step == 1:
                part = self.view(start, max(start, stop))
                return np.array(part.stored), part.indptr
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
    """Rows of zeros and ones, each scaled to unit length, stored as runs of consecutive ones.

    Solid voxels are such rows: a run has about 20 cells and takes 4 bytes, as much as one column number. Products
    need two additions per run. U (:func:`running_sums`) sums the rows of a matrix B from the start of their segment
    of ``SEGMENT`` columns: U B has the sum of none of them, of the first, of the first two and so on. A run
    contributes the sum up to its end less the sum up to its start. Hence the rows of X, before they are scaled to
    unit length, are those of S U, where S (:meth:`steps`) has the entries 1 and −1 for each run.

    Parameters
    ----------
    runs : ndarray of uint32
        256 · start + length, ascending within a row, none across a multiple of ``SEGMENT``; see :func:`find_runs`.
    nnz : int, optional
        Number of ones, counted when it is first needed if it is left out.
    indptr, n_columns, dtype, check
        As for :class:`BinaryRows`; there are at most 2²⁴ columns.

    Examples
    --------
    >>> import numpy as np
    >>> runs, indptr = find_runs(np.array([2, 3, 4, 0]), np.array([0, 3, 4]))
    >>> X = RunRows(indptr, runs, 5)
    >>> X[:].toarray().round(3)
    array([[0.   , 0.   , 0.577, 0.577, 0.577],
           [1.   , 0.   , 0.   , 0.   , 0.   ]], dtype=float32)
    """

    def __init__(
        self, indptr, runs, n_columns: int, dtype=np.float32, nnz: int | None = None, *, check: bool = True
    ):
        if check:
            indptr, runs = np.asarray(indptr), np.asarray(runs)
            _check_bounds(indptr, runs, "runs")
            starts, lengths = decode(runs)
            if len(runs) and (lengths.min() < 1 or (starts % SEGMENT + lengths).max() > SEGMENT):
                raise ValueError(f"runs must not be empty or cross a multiple of {SEGMENT} columns; use find_runs")
            _check_ascending(indptr, starts, starts + lengths, n_columns)
        super().__init__(indptr, runs, n_columns, dtype, check=False)
        self._nnz = nnz

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

    def steps(self, rows: Any) -> tuple[NDArray, Iterator[sp.csr_matrix]]:
        """Return the value 1/√p of each row, and parts of S that add up to these rows of it.

        A part has entries in one tile of columns, whose rows of a dense factor stay in cache meanwhile.
        """
        runs, indptr = self._gather(rows)
        starts, lengths = decode(runs)
        values = _unit_values(_sums_of_rows(lengths, indptr), self.dtype)
        shape = (len(values), -(-self.shape[1] // TILE))
        tiles = sp.csr_matrix((runs.view(np.int32), starts // TILE, indptr), shape=shape).tocsc()
        return values, self._parts(tiles)

    def _parts(self, tiles: sp.csc_matrix) -> Iterator[sp.csr_matrix]:
        """Yield the part of S for each column of a matrix that has the runs of a tile in a column."""
        n, most = tiles.shape[0], int(np.diff(tiles.indptr).max(initial=0))
        signs = np.tile(np.array((-1, 1), dtype=self.dtype), most)
        for first, last in pairwise(tiles.indptr.tolist()):
            starts, lengths = decode(tiles.data[first:last].view(np.uint32))
            columns = np.empty((last - first, 2), dtype=np.int32)
            np.add(starts, starts // SEGMENT, out=columns[:, 0])
            np.add(columns[:, 0], lengths, out=columns[:, 1])
            bounds = 2 * np.searchsorted(tiles.indices[first:last], np.arange(n + 1)).astype(np.int32)
            arrays = signs[: columns.size], columns.ravel(), bounds
            yield sp.csr_matrix(arrays, shape=(n, n_sums(self.shape[1])))

    def _csr(self, stored: NDArray, indptr: NDArray) -> sp.csr_matrix:
        starts, lengths = decode(stored)
        ends = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        indices = np.arange(ends[-1], dtype=np.int32)
        indices += np.repeat((starts - ends[:-1]).astype(np.int32), lengths)
        return _unit_csr(indices, ends[indptr], self.shape[1], self.dtype)


def find_runs(indices: NDArray, indptr: NDArray) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the runs of rows and their bounds, for ascending column numbers below 2²⁴ and the bounds of rows."""
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
    """Return whether all runs lie within the columns and within their segment."""
    starts, lengths = decode(runs)
    within = (lengths > 0) & (starts % SEGMENT + lengths <= SEGMENT) & (starts + lengths <= n_columns)
    return bool(within.all())


def n_sums(n_columns: int) -> int:
    """Return the number of rows of U: for each segment, the last one filled up, one of zeros and its columns."""
    return -(-n_columns // SEGMENT) * (SEGMENT + 1)


def running_sums(B: NDArray) -> NDArray:
    """Return U B: for each segment of the rows of B a row of zeros, then the sums of its rows up to each."""
    n_columns, width = B.shape
    whole, rest = divmod(n_columns, SEGMENT)
    out = np.zeros((n_sums(n_columns), width), dtype=B.dtype)
    segments = out.reshape(-1, SEGMENT + 1, width)
    segments[:whole, 1:] = B[: whole * SEGMENT].reshape(whole, SEGMENT, width)
    segments[whole:, 1 : rest + 1] = B[whole * SEGMENT :]
    for row in range(2, SEGMENT + 1):
        segments[:, row] += segments[:, row - 1]
    return out


def running_sums_transposed(S: NDArray, n_columns: int) -> NDArray:
    """Return Uᵀ S, computed in place: sums from each row of a segment to its end."""
    segments = S.reshape(-1, SEGMENT + 1, S.shape[1])
    for row in range(SEGMENT - 1, 0, -1):
        segments[:, row] += segments[:, row + 1]
    for number, segment in enumerate(segments):
        S[number * SEGMENT : (number + 1) * SEGMENT] = segment[1:]  # overwrites only rows that were read
    return S[:n_columns]


def _sums_of_rows(values: NDArray, indptr: NDArray) -> NDArray:
    """Sum the values of each row."""
    return np.diff(np.concatenate(([0], np.cumsum(values, dtype=np.int64)))[indptr])


def _unit_values(counts: NDArray, dtype: Any) -> NDArray:
    """Return 1/√p for each row with p ones."""
    return (1 / np.sqrt(np.maximum(counts, 1))).astype(dtype)


def _unit_csr(indices: NDArray, indptr: NDArray, n_columns: int, dtype: Any) -> sp.csr_matrix:
    counts = np.diff(indptr)
    values = np.repeat(_unit_values(counts, dtype), counts)
    return sp.csr_matrix((values, indices, indptr), shape=(len(counts), n_columns))
