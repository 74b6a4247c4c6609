"""Walk over the rows of a data matrix in memory or in a memory map, dense or sparse.

Everything in flrml that walks over a large matrix does it through these few functions, so that only a block
of rows is ever in memory at once.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array
from sklearn.utils.extmath import row_norms

from flrml import csr
from flrml.binary import BinaryRows, RunRows, n_sums, running_sums, running_sums_transposed
from flrml.threads import has_one_blas_thread, in_threads, n_threads, share, slices

BLOCK_BYTES = 64 * 2**20
# Largest values of X that are sound: methods square them, and some cut singular values at an absolute size.
SMALLEST_SCALE, LARGEST_SCALE = 1e-6, 1e8
RUNS_PAY = 10  # ones per column from which products run by run are faster
MANY_OCCUR = 0.9  # share of columns with entries from which leaving out the others does not pay
WORTH_THREADS = 5e7  # multiplications below which one thread is faster than several


class RowOperator(ABC):
    """Rows that are known through their products alone, such as rows with their means subtracted.

    The functions of this module use the methods of an operator in place of their own.
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
    """Tell whether X is a dask array, without importing dask."""
    return type(X).__module__.startswith("dask.")


def check_rows(X: Any, name: str = "X") -> Any:
    """Return rows as they are, lists and data frames as an array; raise if they are empty or not finite."""
    if isinstance(X, BinaryRows | RowOperator) or is_dask(X):
        if X.shape[0] == 0:
            raise ValueError(f"{name} has no rows")
        return X
    checked = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name=name)
    return X if isinstance(X, np.ndarray) and X.dtype == checked.dtype else checked  # a memory map stays one


def check_scale(X: Any) -> None:
    """Raise ValueError if the values of X are so large or small that squares of them lose all accuracy."""
    check_largest(largest_value(X.X if isinstance(X, RowOperator) else X))


def largest_value(X: Any) -> float:
    """Return the largest absolute value of X; nan if one is nan."""
    if isinstance(X, BinaryRows):
        return 1.0
    values = X.data if sp.issparse(X) else X
    parts = [np.abs(values[block]).max(initial=0) for block in slices(len(values), 2**16)]
    return float(np.max(parts, initial=0))


def check_largest(largest: float) -> None:
    """Raise ValueError if the largest absolute value of X is out of bounds; see :func:`check_scale`."""
    if largest > 0 and not SMALLEST_SCALE <= largest <= LARGEST_SCALE:
        raise ValueError(
            f"the largest value of X is {largest:.0e}; scale the rows to unit length, for example with "
            "sklearn.preprocessing.normalize"
        )


def is_sparse(X: Any) -> bool:
    """Tell whether rows of X come as CSR matrices."""
    return sp.issparse(X) or isinstance(X, BinaryRows)


def take_rows(X: Any, rows: NDArray) -> Any:
    """Return some rows in memory, in the form in which X keeps them."""
    return X.take(rows) if isinstance(X, BinaryRows) else X[rows]


def row_blocks(X: Any, max_bytes: int = BLOCK_BYTES) -> Iterator[slice]:
    """Yield slices that walk over the rows of X, each block of about ``max_bytes`` at most."""
    n, n_columns = X.shape
    per_row = 12 * X.nnz / max(n, 1) if is_sparse(X) else n_columns * np.dtype(X.dtype).itemsize
    step = max(1, int(max_bytes / max(per_row, 1)))
    yield from slices(n, step)


def fingerprint(X: Any) -> str:
    """Return a digest of the content of X: shape, type and every value, read block by block."""
    if isinstance(X, RowOperator):
        return X.fingerprint()
    digest = hashlib.blake2b(digest_size=16)
    digest.update(f"{type(X).__name__ if is_sparse(X) else 'dense'} {X.shape} {np.dtype(X.dtype)}".encode())
    for block in row_blocks(X):
        rows = X[block]
        parts = (rows.indptr, rows.indices, rows.data) if sp.issparse(rows) else (rows,)
        for part in parts:
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def on_disk(X: Any) -> bool:
    """Tell whether the values of X lie in a memory map, so that reading them all is expensive."""
    array = X.stored if isinstance(X, BinaryRows) else getattr(X, "indices", None) if sp.issparse(X) else X
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return False


def product(X: Any, B: NDArray, out: NDArray | None = None) -> NDArray:
    """Return X @ B, with blocks of rows shared out over threads, unless BLAS does that itself.

    Parameters
    ----------
    X : rows of shape (n, D)
        The data.
    B : ndarray of shape (D, p)
        A matrix.
    out : ndarray of shape (n, p), optional
        Where to write the product; not for operators.
    """
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
    """Return X.T @ R, with the columns of one of them shared out over threads, unless BLAS does that itself.

    Parameters
    ----------
    X : rows of shape (n, D)
        The data.
    R : ndarray of shape (n, p)
        A matrix.
    out : ndarray of shape (D, p), optional
        What to add the product to; not for operators.
    """
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


def _runs_transposed(X: RunRows, R: NDArray) -> NDArray:
    """Return X.T @ R, run by run."""
    sums = np.zeros((n_sums(X.shape[1]), R.shape[1]), dtype=np.result_type(X.dtype, R.dtype))
    for block in _run_blocks(X):
        values, parts = X.steps(block)
        scaled = (R[block] * values[:, None]).astype(sums.dtype, copy=False)

        def add(part: sp.csr_matrix, scaled: NDArray = scaled) -> None:
            csr.add_transposed_product(sums, part, scaled)

        in_threads(add, parts)  # each part adds to rows of its own
    return running_sums_transposed(sums, X.shape[1])


def _worth_threads(X: NDArray, B: NDArray) -> bool:
    """Tell whether a dense product is shared out here: if it is large, and BLAS has one thread."""
    return has_one_blas_thread() and n_threads() > 1 and X.size * B.shape[1] >= WORTH_THREADS


def add_product_transposed(out: NDArray, X: Any, C: NDArray) -> None:
    """Add X.T @ C to ``out`` for a few rows X and many columns, a block of the columns that occur at a time."""
    occurring = occurring_columns(X)
    columns = X.T.tocsr() if sp.issparse(X) else X.T
    columns = columns if occurring is None else columns[occurring]
    n_columns = columns.shape[0]
    # The same blocks for any number of threads.
    step = max(1, BLOCK_BYTES // 32 // (C.shape[1] * out.itemsize))

    def add(block: slice) -> None:
        out[block if occurring is None else occurring[block]] += columns[block] @ C

    in_threads(add, slices(n_columns, step))


def occurring_columns(X: Any) -> NDArray | None:
    """Return the columns of rows in memory that are not empty, or None if almost all have entries."""
    if sp.issparse(X):
        occurs = np.zeros(X.shape[1], dtype=bool)
        occurs[X.indices] = True
    else:
        occurs = X.any(axis=0)
    occurring = np.flatnonzero(occurs)
    return occurring if len(occurring) < MANY_OCCUR * X.shape[1] else None


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
    step = max(1, BLOCK_BYTES // max(8 * X.shape[1], 1))
    for block in slices(X.shape[0], step):
        rows = X[block].toarray() if is_sparse(X) else X[block]
        rows = rows.astype(np.float64)
        G += rows.T @ rows
    return G


def in_float64(X: Any) -> Any:
    """Return sparse rows with float64 values, so that products with float64 need not convert them each time."""
    if isinstance(X, RowOperator):
        converted = copy(X)
        converted.X = in_float64(X.X)
        return converted
    return X.astype(np.float64) if sp.issparse(X) else X


def normalize(rows: Any) -> Any:
    """Return rows in memory, dense or CSR, at unit length; rows of zeros stay so.

    As scikit-learn's function of that name, whose module takes a fifth of a second to import.
    """
    lengths = row_norms(rows)
    lengths[lengths == 0] = 1
    if not sp.issparse(rows):
        return rows / lengths[:, None]
    each = np.repeat(lengths, np.diff(rows.indptr))
    return sp.csr_matrix((rows.data / each, rows.indices, rows.indptr), shape=rows.shape)


def row_means(X: Any) -> NDArray[np.float64]:
    """Return the mean of each row over the columns."""
    if isinstance(X, BinaryRows):  # p values of 1/√p
        return np.sqrt(X.counts()) / X.shape[1]
    ones = np.ones((X.shape[1], 1))
    return np.concatenate([np.asarray(X[block] @ ones).ravel() for block in row_blocks(X)]) / X.shape[1]


def _by_runs(X: Any) -> bool:
    """Tell whether products go run by run: for few rows, running sums over all columns cost more than they save."""
    return isinstance(X, RunRows) and X.nnz > RUNS_PAY * X.shape[1]


def _run_blocks(X: RunRows) -> Iterator[slice]:
    """Yield slices of rows for products run by run, many more at once than if they were CSR matrices."""
    per_row = 32 * len(X.runs) / max(X.shape[0], 1)
    yield from slices(X.shape[0], max(1, int(2 * BLOCK_BYTES / max(per_row, 1))))
