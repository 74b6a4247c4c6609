"""Multiply rows with dense matrices and with each other."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from flrml.rows import csr
from flrml.rows.binary import RunRows, n_sums, running_sums, running_sums_transposed
from flrml.rows.layout import ROW_BLOCK_BYTES, RowOperator, is_sparse, occurring_columns, on_disk, row_blocks
from flrml.rows.threads import has_one_blas_thread, in_threads, n_threads, share, slices

ONES_FOR_RUNS = 10  # ones per column from which products run by run are faster
DENSE_THREADS_FROM = 5e7  # multiplications from which several threads are faster than one


def product(X: Any, B: NDArray, out: NDArray | None = None) -> NDArray:
    """Return X @ B, written to ``out`` if given; threads share blocks of rows, unless BLAS uses threads itself."""
    if isinstance(X, RowOperator):
        return X.product(B)
    if out is None:
        out = np.empty((X.shape[0], B.shape[1]), dtype=np.result_type(X.dtype, B.dtype))
    if not is_sparse(X):

        def multiply(block: slice) -> None:
            np.matmul(X[block], B, out=out[block])

        in_threads(multiply, slices(len(X), share(len(X)) if _worth_threads(X, B) else max(len(X), 1)))
    elif sp.issparse(X) and not on_disk(X):
        csr.fill_product(out, X, B)
    elif _by_runs(X):
        sums = running_sums(B.astype(out.dtype, copy=False))
        out[:] = 0

        def add(block: slice) -> None:
            values, parts = X.steps(block)
            for part in parts:
                csr.add_product(out[block], part, sums)
            out[block] *= values[:, None]

        in_threads(add, _run_blocks(X))
    else:
        B = np.ascontiguousarray(B)

        def fill(block: slice) -> None:
            out[block] = X[block] @ B

        in_threads(fill, row_blocks(X))
    return out


def product_transposed(X: Any, R: NDArray, out: NDArray | None = None) -> NDArray:
    """Return X.T @ R, added to ``out`` if given; threads share the columns, unless BLAS uses threads itself."""
    if isinstance(X, RowOperator):
        return X.product_transposed(R)
    if not is_sparse(X) and not _worth_threads(X, R):
        # BLAS takes a fifth less time for the transposed form, and a third more for narrow pieces.
        found = np.asarray((R.T @ X).T)
        return found if out is None else np.add(out, found, out=out)
    if _by_runs(X):
        found = _runs_transposed(X, R)
        return found if out is None else np.add(out, found, out=out)
    if out is None:
        out = np.zeros((X.shape[1], R.shape[1]), dtype=np.result_type(X.dtype, R.dtype))
    if not is_sparse(X):

        def fill(block: slice) -> None:
            out[block] += (R.T @ X[:, block]).T

        in_threads(fill, slices(len(out), -(-len(out) // n_threads())))
    elif sp.issparse(X) and not on_disk(X):
        csr.add_transposed(out, X, R)
    else:
        for block in row_blocks(X):
            csr.add_transposed(out, X[block], R[block])
    return out


def add_product_transposed(out: NDArray, X: Any, C: NDArray) -> None:
    """Add X.T @ C to ``out`` for a few rows X and many columns, a block of the columns that occur at a time."""
    occurring = occurring_columns(X)
    columns = X.T.tocsr() if sp.issparse(X) else X.T
    columns = columns if occurring is None else columns[occurring]
    n_columns = columns.shape[0]
    # The same blocks for any number of threads.
    step = max(1, ROW_BLOCK_BYTES // 32 // (C.shape[1] * out.itemsize))

    def add(block: slice) -> None:
        out[block if occurring is None else occurring[block]] += columns[block] @ C

    in_threads(add, slices(n_columns, step))


def gram(X: Any) -> NDArray[np.float64]:
    """Return X @ X.T in float64, from pairs of row blocks."""
    if isinstance(X, RowOperator):
        return X.cross_gram(X)
    n = X.shape[0]
    G = np.empty((n, n))
    if sp.issparse(X) and not on_disk(X):
        csr.fill_gram(G, X.astype(np.float64))
        return G
    blocks = list(row_blocks(X))
    if len(blocks) == 1 and not is_sparse(X) and (occurring := occurring_columns(X)) is not None:
        X = X[:, occurring]
    for a, left in enumerate(blocks):
        rows = X[left].astype(np.float64)
        for right in blocks[: a + 1]:
            columns = rows if right == left else X[right].astype(np.float64)
            part = rows @ columns.T
            G[left, right] = part.toarray() if sp.issparse(part) else part
            G[right, left] = G[left, right].T
    return G


def cross_gram(X: Any, other: Any) -> NDArray[np.float64]:
    """Return X @ other.T in float64, for two blocks of rows that fit in memory."""
    if isinstance(X, RowOperator):
        return X.cross_gram(other)
    part = X[:].astype(np.float64) @ other[:].astype(np.float64).T
    return part.toarray() if sp.issparse(part) else np.asarray(part)


def gram_of_columns(X: Any) -> NDArray[np.float64]:
    """Return X.T @ X in float64, summed over dense blocks of rows."""
    if isinstance(X, RowOperator):
        return X.gram_of_columns()
    G = np.zeros((X.shape[1], X.shape[1]))
    step = max(1, ROW_BLOCK_BYTES // max(8 * X.shape[1], 1))
    for block in slices(X.shape[0], step):
        rows = X[block].toarray() if is_sparse(X) else X[block]
        rows = rows.astype(np.float64)
        G += rows.T @ rows
    return G


def _runs_transposed(X: RunRows, R: NDArray) -> NDArray:
    """Return X.T @ R, run by run."""
    sums = np.zeros((n_sums(X.shape[1]), R.shape[1]), dtype=np.result_type(X.dtype, R.dtype))
    for block in _run_blocks(X):
        values, parts = X.steps(block)
        scaled = (R[block] * values[:, None]).astype(sums.dtype, copy=False)

        def add(part: sp.csr_matrix, scaled: NDArray = scaled) -> None:
            csr.add_transposed_product(sums, part, scaled)

        in_threads(add, parts)  # parts add to different rows
    return running_sums_transposed(sums, X.shape[1])


def _worth_threads(X: NDArray, B: NDArray) -> bool:
    """Return whether threads share a dense product: if it is large, and BLAS has one thread."""
    return has_one_blas_thread() and n_threads() > 1 and X.size * B.shape[1] >= DENSE_THREADS_FROM


def _by_runs(X: Any) -> bool:
    """Return whether products go run by run; for few rows, sums over all columns cost more than they save."""
    return isinstance(X, RunRows) and X.nnz > ONES_FOR_RUNS * X.shape[1]


def _run_blocks(X: RunRows) -> Iterator[slice]:
    """Yield slices of rows for products run by run, many more at once than if they were CSR matrices."""
    per_row = 32 * len(X.stored) / max(X.shape[0], 1)
    yield from slices(X.shape[0], max(1, int(2 * ROW_BLOCK_BYTES / max(per_row, 1))))
