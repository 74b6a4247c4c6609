"""Measure rows: lengths, means, largest value, digest of the content."""

import hashlib
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import row_norms

from flrml.rows.binary import BinaryRows
from flrml.rows.layout import RowOperator, is_sparse, row_blocks
from flrml.rows.threads import slices


def normalize(rows: Any) -> Any:
    """Return rows in memory, dense or CSR, at unit length; rows of zeros stay so.

    As scikit-learn's function of that name, whose module takes a fifth of a second to import.
    """
    lengths = row_norms(rows)
    limits = np.finfo(lengths.dtype)
    extreme = ~((lengths > np.sqrt(limits.tiny) / limits.eps) & np.isfinite(lengths))
    if extreme.any():  # squares would overflow or lose digits
        rows = _by_largest(rows, extreme)
        lengths = row_norms(rows)
    lengths[lengths == 0] = 1
    return _divide(rows, lengths)


def _by_largest(rows: Any, chosen: NDArray) -> Any:
    """Divide the chosen rows by their largest absolute value; rows of zeros stay so."""
    largest = abs(rows).max(axis=1)
    largest = np.where(chosen, largest.toarray().ravel() if sp.issparse(largest) else np.asarray(largest), 1)
    largest[largest == 0] = 1
    return _divide(rows, largest.astype(rows.dtype))


def _divide(rows: Any, divisors: NDArray) -> Any:
    """Divide each row by a number."""
    if not sp.issparse(rows):
        return rows / divisors[:, None]
    each = np.repeat(divisors, np.diff(rows.indptr))
    return sp.csr_matrix((rows.data / each, rows.indices, rows.indptr), shape=rows.shape)


def row_products(first: Any, second: Any) -> NDArray:
    """Return the inner product of each row in memory, dense or CSR, with the same row of another matrix."""
    if sp.issparse(first) or sp.issparse(second):
        return np.asarray(sp.csr_matrix(first).multiply(second).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", first, second)


def row_means(X: Any) -> NDArray[np.float64]:
    """Return the mean of each row over the columns."""
    if isinstance(X, BinaryRows):  # p values of 1/√p
        return np.sqrt(X.counts()) / X.shape[1]
    ones = np.ones((X.shape[1], 1))
    return np.concatenate([np.asarray(X[block] @ ones).ravel() for block in row_blocks(X)]) / X.shape[1]


def largest_value(X: Any) -> float:
    """Return the largest absolute value of X; nan if one is nan."""
    if isinstance(X, BinaryRows):
        return 1.0
    values = X.data if sp.issparse(X) else X
    parts = [np.abs(values[block]).max(initial=0) for block in slices(len(values), 2**16)]
    return float(np.max(parts, initial=0))


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
