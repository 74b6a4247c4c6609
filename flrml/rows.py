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

from flrml.binary import BinaryRows, RunRows, running_sums
from flrml.threads import has_one_blas_thread, in_threads, n_threads

BLOCK_BYTES = 64 * 2**20
# Largest values of X that are sound: methods square them, and some cut singular values at an absolute size.
SMALLEST_SCALE, LARGEST_SCALE = 1e-6, 1e8
RUNS_PAY = 10  # ones per column from which products run by run are faster
MANY_OCCUR = 0.9  # share of columns with entries from which leaving out the others does not pay
CACHE_BYTES = 2**23  # of a dense factor that is read at random
WORTH_SORTING = 48  # columns of a dense factor from which a product repays sorting the entries by column
PIECES = 4  # of work per thread
GRAM_BLOCKS, WORTH_BLOCKS = 6, 200_000  # of sparse rows whose pairs give X @ X.T; entries from which that pays
WORTH_THREADS, WORTH_THREADS_SPARSE = 5e7, 1e7  # multiplications below which one thread is faster than several


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
    parts = [np.abs(values[block]).max(initial=0) for block in _slices(len(values), 2**16)]
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
    yield from _slices(n, step)


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


def product(X: Any, B: NDArray) -> NDArray:
    """Return X @ B, with blocks of rows shared out over threads, unless BLAS does that itself."""
    if isinstance(X, RowOperator):
        return X.product(B)
    out = np.empty((X.shape[0], B.shape[1]), dtype=np.result_type(X.dtype, B.dtype))
    if not is_sparse(X):
        if not _worth_threads(X, B):
            return np.asarray(X @ B)

        def multiply(block: slice) -> None:
            np.matmul(X[block], B, out=out[block])

        in_threads(multiply, _slices(len(X), _share(len(X))))
        return out
    if sp.issparse(X) and not on_disk(X):
        return _csr_product(X, B)
    read = X.__getitem__
    if _by_runs(X):
        read, B = X.steps, np.array(B, dtype=out.dtype, order="C")
        running_sums(B)
    B = np.ascontiguousarray(B)

    def fill(block: slice) -> None:
        out[block] = read(block) @ B

    in_threads(fill, list(_product_blocks(X)))
    return out


def _csr_product(X: Any, B: NDArray) -> NDArray:
    """Return X @ B for a CSR matrix in memory."""
    n, dtype = X.shape[0], np.result_type(X.dtype, B.dtype)
    if _by_column(X, B.shape[1], dtype.itemsize):
        return _product_by_column(X, B)
    if X.nnz * B.shape[1] < WORTH_THREADS_SPARSE or n_threads() == 1:
        return np.asarray(X @ B)
    out = np.empty((n, B.shape[1]), dtype=dtype)

    def fill(block: slice) -> None:
        out[block] = csr_rows(X, block) @ B

    in_threads(fill, _slices(n, _share(n)))
    return out


def csr_rows(X: Any, block: slice) -> Any:
    """Return a slice of the rows of a CSR matrix without a copy of its entries."""
    bounds = X.indptr[block.start : block.stop + 1]
    entries = slice(bounds[0], bounds[-1])
    return sp.csr_matrix((X.data[entries], X.indices[entries], bounds - bounds[0]), (len(bounds) - 1, X.shape[1]))


def _by_column(X: Any, width: int, itemsize: int) -> bool:
    """Tell whether a factor of that width stays in cache with a row per row of X, but not with one per column."""
    rows, columns = (length * width * itemsize for length in X.shape)
    return width >= WORTH_SORTING and rows <= CACHE_BYTES < columns


def _product_by_column(X: Any, B: NDArray) -> NDArray:
    """Return X @ B for a CSR matrix in memory, reading B once from its first row to its last."""
    by_column = X.tocsc()
    blocks = _slices(X.shape[1], -(-X.shape[1] // n_threads()))
    parts: list[Any] = [None] * len(blocks)

    def fill(number: int) -> None:
        parts[number] = by_column[:, blocks[number]] @ B[blocks[number]]

    in_threads(fill, range(len(blocks)))
    return np.asarray(sum(parts[1:], start=parts[0]))


def product_transposed(X: Any, R: NDArray) -> NDArray:
    """Return X.T @ R, with the columns of one of them shared out over threads, unless BLAS does that itself."""
    if isinstance(X, RowOperator):
        return X.product_transposed(R)
    out = np.zeros((X.shape[1], R.shape[1]), dtype=np.result_type(X.dtype, R.dtype))
    if not is_sparse(X):
        # BLAS takes a fifth less time for the transposed form, and a third more for narrow pieces.
        if not _worth_threads(X, R):
            return np.asarray((R.T @ X).T)
        blocks = _slices(len(out), -(-len(out) // n_threads()))

        def fill(block: slice) -> None:
            out[block] = (R.T @ X[:, block]).T

        in_threads(fill, blocks)
        return out
    if sp.issparse(X) and not on_disk(X) and _by_column(X, R.shape[1], out.itemsize):
        columns_first = X.T.tocsr()

        def multiply(block: slice) -> None:
            out[block] = columns_first[block] @ R

        in_threads(multiply, _slices(len(out), _share(len(out))))
        return out
    # Each block of rows adds to all of ``out``: few columns at a time bound the memory of the sum.
    step = min(-(-R.shape[1] // n_threads()), 2 * BLOCK_BYTES // max(1, len(out) * out.itemsize))
    columns = _slices(R.shape[1], max(1, step))
    read = X.steps if _by_runs(X) else X.__getitem__
    for block in [slice(None)] if sp.issparse(X) and not on_disk(X) else _product_blocks(X):
        rows, part = read(block) if block != slice(None) else X, R[block]

        def add(column: slice, rows: Any = rows, part: NDArray = part) -> None:
            out[:, column] += rows.T @ np.ascontiguousarray(part[:, column])

        in_threads(add, columns)
    if _by_runs(X):
        running_sums(out, backward=True)
    return out


def _worth_threads(X: NDArray, B: NDArray) -> bool:
    """Tell whether a dense product is shared out here: if it is large, and BLAS has one thread."""
    return has_one_blas_thread() and n_threads() > 1 and X.size * B.shape[1] >= WORTH_THREADS


def _share(n: int) -> int:
    """Return the length of pieces of n: several per thread, so that one on a busy core does not delay all."""
    return max(1, -(-n // (PIECES * n_threads())))


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

    in_threads(add, _slices(n_columns, step))


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
        _csr_gram(X.astype(np.float64), G)
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


def _csr_gram(X: Any, G: NDArray[np.float64]) -> None:
    """Write X @ X.T of a CSR matrix in memory to G: pairs of row blocks, each pair once."""
    n = X.shape[0]
    step = n if X.nnz < WORTH_BLOCKS else min(-(-n // GRAM_BLOCKS), int(np.sqrt(BLOCK_BYTES / 16)))
    blocks = _slices(n, max(1, step))
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
    for block in _slices(X.shape[0], step):
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


def _product_blocks(X: Any) -> Iterator[slice]:
    """Yield slices of rows for products, which read runs as they are and hence many more rows at once."""
    if _by_runs(X):
        per_row = 24 * len(X.runs) / max(X.shape[0], 1)
        yield from _slices(X.shape[0], max(1, int(2 * BLOCK_BYTES / max(per_row, 1))))
    else:
        yield from row_blocks(X)


def _slices(n: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
