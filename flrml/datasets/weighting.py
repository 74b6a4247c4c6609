"""Turn the numbers of a source into the rows of a prepared data set: term weights, then unit length.

scikit-learn's TfidfTransformer needs the whole training part at once, and its normalize overflows for entries
beyond 1e154; these functions work block by block.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from flrml.exceptions import DatasetError

Transform = Callable[[Any], Any]


def checked(block: Any, origin: str, rows: np.ndarray) -> Any:
    """Return a block as float64 without stored zeros; refuse values that are not finite."""
    if sp.issparse(block):
        block = sp.csr_matrix(block, dtype=np.float64, copy=True)
        finite = np.isfinite(block.data)
        bad = np.searchsorted(block.indptr, np.argmin(finite), side="right") - 1 if finite.size else 0
        block.eliminate_zeros()
        block.sort_indices()
    else:
        block = np.asarray(block, dtype=np.float64)
        finite = np.isfinite(block).all(axis=1)
        bad = int(np.argmin(finite))
    if not finite.all():
        raise DatasetError(f"{origin}: example {rows[bad] + 1}: a value is NaN or infinite; remove or replace it")
    return block


def unit_rows(block: Any) -> Any:
    """Scale every row of a block to unit length, as float32; empty rows stay empty."""
    # The division by the largest entry keeps squares from overflowing.
    if sp.issparse(block):
        rows = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
        largest = abs(block).max(axis=1).toarray().ravel()
        values = block.data / largest[rows]
        norms = np.sqrt(np.bincount(rows, values**2, minlength=block.shape[0]))
        scaled = sp.csr_matrix((values / norms[rows], block.indices, block.indptr), shape=block.shape)
        scaled.data = scaled.data.astype(np.float32)
        # Entries that underflow in float32 become zero.
        scaled.eliminate_zeros()
        return scaled
    largest = np.abs(block).max(axis=1, keepdims=True, initial=0)
    values = block / np.where(largest > 0, largest, 1)
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    return (values / np.where(norms > 0, norms, 1)).astype(np.float32)


def fit_weighting(weighting: str, blocks: Iterable[Any], n_columns: int) -> Transform:
    """Return a function that weights the terms of a block, fitted on the blocks of the training part.

    ``counts`` leaves the numbers as they are, ``tfidf`` multiplies them by the smoothed inverse document frequency
    ln((1 + n) / (1 + df)) + 1, ``log-tfidf`` takes ln(1 + count) first.
    """
    if weighting == "counts":
        return lambda block: block
    n_documents, frequency = 0, np.zeros(n_columns)
    for block in blocks:
        n_documents += block.shape[0]
        present = sp.csr_matrix(block)
        frequency += np.bincount(present.indices[present.data != 0], minlength=n_columns)
    idf = np.log((1 + n_documents) / (1 + frequency)) + 1

    def weigh(block: Any) -> Any:
        counts = sp.csr_matrix(block, copy=True)
        if (counts.data < 0).any():
            raise DatasetError(f"weighting {weighting!r} needs counts, but some values are negative; use `counts`")
        if weighting == "log-tfidf":
            counts.data = np.log1p(counts.data)
        counts.data *= idf[counts.indices]
        return counts

    return weigh
