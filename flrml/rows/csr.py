"""Products with CSR matrices in memory.

Threads share large products. SciPy's internal routines add to an existing matrix; its operators allocate a new one
each time.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import _sparsetools

from flrml.rows.threads import in_threads, n_threads, share, slices

CACHE_BYTES = 2**23  # largest dense factor that is read at random
WORTH_SORTING = 48  # columns of a dense factor from which sorting the entries by column pays off
SPARSE_THREADS_FROM = 1e7  # multiplications from which several threads are faster than one
GRAM_BLOCKS, WORTH_BLOCKS = 6, 200_000  # blocks of rows whose pairs give X @ X.T; entries from which they pay off
PART_BYTES = 2**27  # largest part of a product that a thread works on
GRAM_VALUES = 2**22  # largest part of X @ X.T from one pair of blocks


def fill_product(out: NDArray, X: Any, B: NDArray) -> None:
    """Write X @ B to ``out``."""
    if _by_column(X, B.shape[1], out.itemsize):
        out[:] = _product_by_column(X, B)
        return
    B, X = np.ascontiguousarray(B, dtype=out.dtype), X.astype(out.dtype, copy=False)
    worth = n_threads() > 1 and X.nnz * B.shape[1] >= SPARSE_THREADS_FROM

    def fill(block: slice) -> None:
        part = out[block]
        part[:] = 0
        bounds = X.indptr[block.start : block.stop + 1].astype(X.indices.dtype)
        arrays = bounds - bounds[0], X.indices[bounds[0] : bounds[-1]], X.data[bounds[0] : bounds[-1]]
        _sparsetools.csr_matvecs(len(part), X.shape[1], B.shape[1], *arrays, B.ravel(), part.ravel())

    in_threads(fill, slices(len(out), share(len(out)) if worth else max(len(out), 1)))


def add_product(out: NDArray, X: Any, B: NDArray) -> None:
    """Add X @ B to ``out``, in this thread; all are contiguous and have the same type."""
    arrays = X.indptr, X.indices, X.data
    _sparsetools.csr_matvecs(*X.shape, B.shape[1], *arrays, B.ravel(), out.ravel())


def add_transposed_product(out: NDArray, X: Any, R: NDArray) -> None:
    """Add X.T @ R to ``out``, in this thread; all are contiguous and have the same type."""
    arrays = X.indptr, X.indices, X.data
    _sparsetools.csc_matvecs(*X.shape[::-1], R.shape[1], *arrays, R.ravel(), out.ravel())


def add_transposed(out: NDArray, X: Any, R: NDArray) -> None:
    """Add X.T @ R to ``out``."""
    if _by_column(X, R.shape[1], out.itemsize):
        columns_first = X.T.tocsr()

        def multiply(block: slice) -> None:
            out[block] += columns_first[block] @ R

        in_threads(multiply, slices(len(out), share(len(out))))
        return
    R = R.astype(out.dtype, copy=False)
    arrays = X.indptr.astype(X.indices.dtype, copy=False), X.indices, X.data.astype(out.dtype, copy=False)
    # Each row adds to all of ``out``, so each thread has separate columns, few at a time if those are long.
    most = PART_BYTES // max(1, len(out) * out.itemsize)
    step = R.shape[1] if n_threads() == 1 else min(-(-R.shape[1] // n_threads()), most)

    def add(column: slice) -> None:
        whole = column.stop - column.start == R.shape[1]
        part = out if whole else np.zeros((len(out), column.stop - column.start), dtype=out.dtype)
        values = np.ascontiguousarray(R[:, column]).ravel()
        _sparsetools.csc_matvecs(X.shape[1], X.shape[0], part.shape[1], *arrays, values, part.ravel())
        if not whole:
            out[:, column] += part

    in_threads(add, slices(R.shape[1], max(1, step)))


def fill_gram(G: NDArray[np.float64], X: Any) -> None:
    """Write X @ X.T to G: pairs of row blocks, each pair once."""
    n = X.shape[0]
    step = n if X.nnz < WORTH_BLOCKS else min(-(-n // GRAM_BLOCKS), int(np.sqrt(GRAM_VALUES)))
    blocks = slices(n, max(1, step))
    rows: list[Any] = [X[block] for block in blocks]
    columns: list[Any] = [None] * len(blocks)

    def transpose(number: int) -> None:
        columns[number] = rows[number].T.tocsr()

    in_threads(transpose, range(len(blocks)))
    pairs = [(a, b) for a in range(len(blocks)) for b in range(a, len(blocks))]

    def fill(pair: tuple[int, int]) -> None:
        a, b = pair
        part = (rows[a] @ columns[b]).toarray()
        G[blocks[a], blocks[b]] = part
        G[blocks[b], blocks[a]] = part.T

    in_threads(fill, pairs)


def _by_column(X: Any, width: int, itemsize: int) -> bool:
    """Return whether a factor of that width stays in cache with a row per row of X, but not with one per column."""
    rows, columns = (length * width * itemsize for length in X.shape)
    return width >= WORTH_SORTING and rows <= CACHE_BYTES < columns


def _product_by_column(X: Any, B: NDArray) -> NDArray:
    """Return X @ B, reading B once from its first row to its last."""
    by_column = X.tocsc()
    blocks = slices(X.shape[1], -(-X.shape[1] // n_threads()))
    parts: list[Any] = [None] * len(blocks)

    def fill(number: int) -> None:
        parts[number] = by_column[:, blocks[number]] @ B[blocks[number]]

    in_threads(fill, range(len(blocks)))
    return np.asarray(sum(parts[1:], start=parts[0]))
