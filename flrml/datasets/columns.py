"""Load tables: CSV and Parquet files with one row per example and the label in one column."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flrml.datasets.options import did_you_mean
from flrml.datasets.parts import Loaded, Part, Request, matrix_part
from flrml.datasets.reading import MAX_LINE_BYTES, check_unpacked, open_compressed, reading
from flrml.datasets.store import ArrayFile
from flrml.exceptions import DatasetError
from flrml.extras import require

if TYPE_CHECKING:
    import pandas as pd

ROWS_PER_BLOCK, VALUES_PER_BLOCK = 10_000, 2**24
MAX_COLUMNS = 100_000  # each costs a tenth of a millisecond and some kilobytes
NUMBER_BYTES = 8


def load_csv(request: Request) -> Loaded:
    """Load the user's CSV files, which have a header line."""
    return Loaded.of_user(request, partial(_read_csv, request))


def load_parquet(request: Request) -> Loaded:
    """Load the user's Parquet files."""
    return Loaded.of_user(request, partial(_read_parquet, request))


def _read_csv(request: Request, path: Path) -> Part:
    pd = _package("pandas")
    with reading(path, "a CSV file"):
        with open_compressed(path) as file:
            line = file.readline(MAX_LINE_BYTES + 1)
            n_columns = line.count(b",") + 1
            if len(line) > MAX_LINE_BYTES or n_columns > MAX_COLUMNS:
                raise DatasetError(
                    f"{path}: the header has more than {MAX_COLUMNS:,} columns; save wide data as .npz or svmlight"
                )
        with open_compressed(path) as file:
            header = pd.read_csv(file, header=None, nrows=1, dtype=str)
        _check_names(path, header.iloc[0].dropna().tolist())
        with (
            open_compressed(path) as file,
            pd.read_csv(
                file, chunksize=max(1, min(ROWS_PER_BLOCK, VALUES_PER_BLOCK // n_columns)), low_memory=False
            ) as chunks,
        ):
            # The header is line 1.
            return _spool(request, path, _checked_fields(path, chunks), first_row=2)


def _read_parquet(request: Request, path: Path) -> Part:
    parquet = _package("pyarrow.parquet")
    with reading(path, "a Parquet file"), parquet.ParquetFile(path) as file:
        _check_names(path, file.schema_arrow.names)
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        unpacked = sum(max(0, group.total_byte_size) for group in groups)
        numbers = file.metadata.num_rows * file.metadata.num_columns * NUMBER_BYTES
        check_unpacked(path, max(unpacked, numbers), path.stat().st_size)
        batches = (batch.to_pandas() for batch in file.iter_batches(ROWS_PER_BLOCK))
        return _spool(request, path, batches, first_row=1)


def _package(name: str) -> Any:
    return require(name, extra="data", needed_by="reading a table")


def _check_names(path: Path, names: list[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DatasetError(f"{path}: two columns are called {twice[0]!r}; rename or remove one of them")


def _checked_fields(path: Path, chunks: Iterable["pd.DataFrame"]) -> Iterator["pd.DataFrame"]:
    """Refuse rows with more fields than the header, as pandas takes the first ones for an index."""
    pd = _package("pandas")
    for chunk in chunks:
        if not isinstance(chunk.index, pd.RangeIndex):
            raise DatasetError(f"{path}: rows have more fields than the header; name every column")
        yield chunk


def _spool(request: Request, path: Path, chunks: Iterable["pd.DataFrame"], first_row: int) -> Part:
    """Build a part from chunks of a table, with the features in a memory map."""
    target = request.options["target"]
    spooled = request.scratch / f"table-{len(os.listdir(request.scratch))}.npy"
    labels: list[Any] = []
    file = None
    for chunk in chunks:
        chunk.columns = [str(column) for column in chunk.columns]
        _check_target(path, target, list(chunk.columns))
        row = first_row + len(labels)
        column = chunk.pop(str(target))
        if column.isna().any():
            raise _missing(path, row + int(np.argmax(column.isna())), str(target))
        _check_type(path, str(target), column)
        labels += column.tolist()
        file = file or ArrayFile(spooled, np.float64, chunk.shape[1])
        file.append(_as_numbers(chunk, path, row))
    if file is None or not labels:
        raise DatasetError(f"{path}: no rows; write a header line and one line per example")
    file.close()
    return matrix_part(np.load(spooled, mmap_mode="r", allow_pickle=False), _as_labels(labels), str(path))


def _check_target(path: Path, target: str | int | None, columns: list[str]) -> None:
    if str(target) in columns:
        return
    problem = "no label column is given" if target is None else f"no column {str(target)!r}"
    raise DatasetError(
        f"{path}: {problem}{did_you_mean(target, columns)}; name the label column with `target`: "
        f"{', '.join(columns[:20])}{', …' if len(columns) > 20 else ''}"
    )


def _missing(path: Path, row: int, column: str) -> DatasetError:
    return DatasetError(f"{path}: row {row}, column {column!r}: missing value; fill it in or remove the row")


def _as_numbers(table: "pd.DataFrame", path: Path, first_row: int) -> np.ndarray:
    if table.shape[1] == 0:
        raise DatasetError(f"{path}: no columns besides the labels; add the features")
    pd = _package("pandas")
    columns = []
    for name in table.columns:
        values = table[name]
        _check_type(path, name, values)
        numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        bad = ~np.isfinite(numbers)
        if bad.any():
            where = int(np.argmax(bad))
            if values.isna().iloc[where]:
                raise _missing(path, first_row + where, name)
            raise DatasetError(
                f"{path}: row {first_row + where}, column {name!r}: {str(values.iloc[where])[:40]!r} is not "
                "a finite number; encode the column as numbers, or remove it"
            )
        columns.append(numbers)
    return np.column_stack(columns)


def _check_type(path: Path, name: str, values: "pd.Series") -> None:
    """Refuse dates and bytes, which pandas would turn into numbers without a word."""
    kind = getattr(values.dtype, "kind", "O")
    is_bytes = kind == "O" and any(isinstance(value, bytes | bytearray) for value in values)
    if is_bytes or kind not in "biufOU":
        found = "bytes" if is_bytes else str(values.dtype)
        raise DatasetError(f"{path}: column {name!r} holds {found}; convert it to numbers, or remove it")


def _as_labels(labels: list[Any]) -> np.ndarray:
    """Return numbers if all labels are numbers, otherwise strings."""
    if all(isinstance(label, int | float) for label in labels):
        return np.array(labels)
    return np.array([str(label) for label in labels])
