"""Encode rows of numbers: term weights, scaling, and the check of every value.

scikit-learn's TfidfTransformer needs the whole training part at once, and its normalize overflows for entries
beyond 1e154; this module works block by block.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from flrml.exceptions import DatasetError
from flrml.files import write_arrays

FILE = "encoder.npz"
# Layouts of zeros and ones, which have no values to check, weight or scale.
BINARY_LAYOUTS = ("binary", "runs")
Blocks = Callable[[], Iterator[Any]]


@dataclass(eq=False)
class RowsEncoder:
    """Encoder of plain rows: arrays, CSR matrices or data frames with the columns of the training part.

    The weighting ``counts`` leaves the numbers as they are, ``tfidf`` multiplies them by the smoothed inverse
    document frequency ln((1 + n) / (1 + df)) + 1, ``log-tfidf`` takes ln(1 + count) first. The scale ``unit`` gives
    every row unit length, ``standard`` every column mean 0 and variance 1 (sparse ones only variance 1), ``none``
    leaves the numbers as they are.
    """

    n_columns: int | None = None  # of the encoded rows; encoders of other raw input learn it
    layout: str = "dense"  # in which a prepared data set stores the rows: "dense", "csr", "binary" or "runs"
    weighting: str = "counts"
    scale: str = "unit"
    example: Any = None  # of the raw input, if it differs from rows
    idf: np.ndarray | None = None  # learned from the training part, like mean and deviation
    mean: np.ndarray | None = None
    deviation: np.ndarray | None = None

    kind: ClassVar[str] = "rows"

    def fit(self, blocks: Blocks, origin: str = "input") -> "RowsEncoder":
        """Learn from the training part: ``blocks`` iterates over its raw input, which errors call ``origin``."""
        self._learn(blocks, origin)
        assert self.n_columns is not None
        if self.weighting != "counts":
            self.idf = inverse_document_frequency(
                (self.numbers(block, origin) for block in blocks()), self.n_columns
            )
        if self.scale == "standard":
            from sklearn.preprocessing import StandardScaler  # slow to import

            scaler = StandardScaler(with_mean=self.layout == "dense")
            for block in blocks():
                scaler.partial_fit(self._as_stored(self._weigh(self.numbers(block, origin))))
            self.deviation = scaler.scale_
            self.mean = scaler.mean_ if self.layout == "dense" else None
        return self

    def transform(self, raw: Any) -> Any:
        """Turn raw input of the encoder's kind into rows of the type float32, as in the prepared data set."""
        return self.encode(raw, "input")

    def encode(self, raw: Any, origin: str, examples: np.ndarray | None = None) -> Any:
        """Turn raw input into rows; errors name its origin and the number of the example, counted from 0."""
        is_empty = raw.shape[0] == 0 if getattr(raw, "ndim", 0) else raw in ([], (), {})
        if is_empty:
            raise DatasetError(f"{origin}: no examples; give at least one")
        block = self.numbers(raw, origin)
        if self.layout in BINARY_LAYOUTS:
            return unit_rows(sp.csr_matrix(block != 0, dtype=np.float64))
        block = checked(block, origin, np.arange(block.shape[0]) if examples is None else examples)
        block = self._weigh(block)
        if self.scale == "unit":
            return self._as_stored(unit_rows(block))
        return self._scale(self._as_stored(block))

    def numbers(self, raw: Any, origin: str = "input") -> Any:
        """Return raw input as a matrix of numbers, neither checked nor weighted nor scaled."""
        try:
            block = raw if sp.issparse(raw) else np.asarray(raw)
            block = block.astype(
                np.result_type(block, np.float32) if block.dtype.kind in "biuf" else float, copy=False
            )
        except (TypeError, ValueError) as error:
            raise DatasetError(f"{origin}: not a matrix of numbers ({error}); give numbers only") from error
        if block.ndim != 2:
            raise DatasetError(f"{origin}: {block.ndim} dimensions; give a matrix, one row per example")
        if block.shape[1] != self.n_columns:
            raise DatasetError(
                f"{origin}: {block.shape[1]:,} columns, but the training rows have {self.n_columns:,}; "
                "give the same columns"
            )
        return block

    def save(self, path: str | os.PathLike) -> None:
        """Write the encoder to a file of arrays and JSON."""
        state = {field.name: getattr(self, field.name) for field in fields(self)}
        arrays = {name: state.pop(name) for name in list(state) if isinstance(state[name], np.ndarray)}
        write_arrays(path, {"kind": self.kind, **state}, **arrays)

    def _learn(self, blocks: Blocks, origin: str) -> None:
        """Learn what turns raw input into numbers, and the number of columns."""

    def _weigh(self, block: Any) -> Any:
        """Weight the terms of a block."""
        if self.idf is None:
            return block
        counts = sp.csr_matrix(block, copy=True)
        if (counts.data < 0).any():
            raise DatasetError(
                f"weighting {self.weighting!r} needs counts, but some values are negative; use `counts`"
            )
        if self.weighting == "log-tfidf":
            counts.data = np.log1p(counts.data)
        counts.data *= self.idf[counts.indices]
        return counts

    def _as_stored(self, block: Any) -> Any:
        """Return a block as an array for a dense layout, and as a CSR matrix otherwise."""
        if self.layout == "dense":
            return block.toarray() if sp.issparse(block) else block
        return sp.csr_matrix(block)

    def _scale(self, block: Any) -> Any:
        """Scale the columns of a block, and return it as float32."""
        if self.deviation is not None and sp.issparse(block):
            block = sp.csr_matrix(
                (block.data / self.deviation[block.indices], block.indices, block.indptr), block.shape
            )
        elif self.deviation is not None:
            block = (block - self.mean) / self.deviation
        with np.errstate(over="ignore"):
            rows = block.astype(np.float32)
        if not np.isfinite(rows.data if sp.issparse(rows) else rows).all():
            raise DatasetError("a value is too large for float32; set `scale: standard` or `scale: unit`")
        return rows


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


def inverse_document_frequency(blocks: Iterable[Any], n_columns: int) -> np.ndarray:
    """Return ln((1 + n) / (1 + df)) + 1 for every column of the blocks."""
    n_documents, frequency = 0, np.zeros(n_columns)
    for block in blocks:
        n_documents += block.shape[0]
        present = sp.csr_matrix(block)
        frequency += np.bincount(present.indices[present.data != 0], minlength=n_columns)
    return np.log((1 + n_documents) / (1 + frequency)) + 1
