"""Tables: CSV and Parquet files with one row per example and the label in one column."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from flrml.datasets.reading import reading
from flrml.datasets.store import ArrayFile
from flrml.exceptions import DatasetError

ROWS_PER_BLOCK = 10_000


def read_csv(path: Path, target: str | int | None, scratch: Path) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and labels of a CSV file with a header line; the numbers lie in a memory map."""
    # The header is line 1.
    with reading(path, "a CSV file"), pd.read_csv(path, chunksize=ROWS_PER_BLOCK, low_memory=False) as chunks:
        return _spool(path, chunks, target, scratch, first_line=2)


def read_parquet(path: Path, target: str | int | None, scratch: Path) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and labels of a Parquet file; the numbers lie in a memory map."""
    with reading(path, "a Parquet file"), pq.ParquetFile(path) as file:
        batches = (batch.to_pandas() for batch in file.iter_batches(ROWS_PER_BLOCK))
        return _spool(path, batches, target, scratch, first_line=1)


def _spool(
    path: Path, chunks: Iterable[pd.DataFrame], target: str | int | None, scratch: Path, first_line: int
) -> tuple[np.ndarray, np.ndarray]:
    spooled = scratch / f"table-{len(list(scratch.glob('table-*')))}.npy"
    labels: list[Any] = []
    file = None
    for chunk in chunks:
        columns = [str(column) for column in chunk.columns]
        chunk.columns = pd.Index(columns)
        if str(target) not in columns:
            raise DatasetError(
                f"{path}: name the column of the labels with `target`; the columns are {', '.join(columns[:20])}"
            )
        line = first_line + len(labels)
        if chunk[str(target)].isna().any():
            missing = line + int(np.argmax(chunk[str(target)].isna()))
            raise DatasetError(f"{path}: row {missing}: the label is missing; add it or remove the row")
        labels += chunk[str(target)].tolist()
        numbers = chunk.drop(columns=str(target))
        if file is None:
            file = ArrayFile(spooled, np.float64, numbers.shape[1])
        file.append(_as_numbers(numbers, path, line))
    if file is None or not labels:
        raise DatasetError(f"{path}: no rows in it; write a header line and one line per example")
    file.close()
    return np.load(spooled, mmap_mode="r", allow_pickle=False), _as_labels(labels)


def _as_numbers(table: pd.DataFrame, path: Path, line: int) -> np.ndarray:
    if table.shape[1] == 0:
        raise DatasetError(f"{path}: no columns beside the labels; add the features")
    for column in table.columns:
        numbers = pd.to_numeric(table[column], errors="coerce")
        bad = ~np.isfinite(numbers.to_numpy(dtype=np.float64, na_value=np.nan))
        if bad.any():
            where = int(np.argmax(bad))
            raise DatasetError(
                f"{path}: row {line + where}, column {column!r}: {str(table[column].iloc[where])[:40]!r} "
                "is no finite number; remove or replace it"
            )
        table[column] = numbers
    return table.to_numpy(dtype=np.float64)


def _as_labels(labels: list[Any]) -> np.ndarray:
    """Labels as numbers where all of them are numbers, otherwise as strings."""
    if all(isinstance(label, int | float) for label in labels):
        return np.array(labels)
    return np.array([str(label) for label in labels])
