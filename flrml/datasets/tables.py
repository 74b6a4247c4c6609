"""Load tables: CSV, Parquet and JSON-lines files with one row per example, and texts in one of their columns."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flrml.datasets.encoders.rows import RowsEncoder
from flrml.datasets.encoders.tables import TableEncoder, check_names, check_type, listed, missing_value
from flrml.datasets.options import did_you_mean
from flrml.datasets.parts import Loaded, Part, Request, list_part, selected
from flrml.datasets.reading import MAX_LINE_BYTES, check_unpacked, open_compressed, reading
from flrml.datasets.text import text_encoder
from flrml.exceptions import DatasetError
from flrml.extras import require

if TYPE_CHECKING:
    import pandas as pd

ROWS_PER_BLOCK, VALUES_PER_BLOCK = 10_000, 2**24
MAX_COLUMNS = 100_000  # each costs a tenth of a millisecond and some kilobytes
NUMBER_BYTES = 8
SEPARATORS = (b",", b";", b"\t")
# Options that name a column, and what the column holds.
ROLES = {"target": "labels", "groups": "groups", "names": "names of the rows", "text": "texts"}


def load_table(request: Request) -> Loaded:
    """Load the user's tables, or the texts in the column that the option ``text`` names."""
    options = request.options
    roles = {role: str(options[role]) for role in ROLES if options[role] is not None}
    if "text" in roles:
        encoder: RowsEncoder = text_encoder(options, column=roles["text"])
    else:
        encoder = TableEncoder(
            categorical=options["categorical"] or [],
            impute=options["impute"],
            ignored=[*roles.values(), *(options["drop"] or [])],
        )
    return Loaded.of_user(request, lambda path: _read(path, roles, options), encoder)


def _read(path: Path, roles: dict[str, str], options: dict[str, Any]) -> Part:
    """Read the columns that have a role; features are read block by block when they are encoded."""
    chunks = partial(CHUNKS[options["format"]], path)
    needed = [*roles.items(), *((key, name) for key in ("drop", "categorical") for name in options[key] or [])]
    values: dict[str, list[Any]] = {role: [] for role in roles}
    for chunk in chunks():
        for option, name in needed if "target" in roles else [("target", None)]:
            if name not in chunk:
                raise _no_column(path, option, name, list(chunk.columns))
        for role, name in roles.items():
            check_type(str(path), name, chunk[name])
            if chunk[name].isna().any():
                raise missing_value(str(path), chunk.index[chunk[name].isna()][0], name)
            values[role] += chunk[name].tolist()
    if not values.get("target"):
        raise DatasetError(f"{path}: no rows; write a header line and one line per example")
    labels, groups, names = _as_labels(values["target"]), values.get("groups"), values.get("names")
    if "text" in roles:
        part = list_part(values["text"], labels, str(path))
    else:
        part = Part(labels, lambda rows: selected(chunks(), rows), str(path))
    return part.described(groups, names)


def _no_column(path: Path, option: str, name: str | None, columns: list[str]) -> DatasetError:
    if option == "target" and name is None:
        return DatasetError(
            f"{path}: no label column is given; name the label column with `target`: {listed(columns)}"
        )
    return DatasetError(
        f"{path}: no column {name!r}{did_you_mean(name, columns)}; "
        f"correct `{option}`, the columns are {listed(columns)}"
    )


def _as_labels(labels: list[Any]) -> np.ndarray:
    """Return numbers if all labels are numbers, otherwise strings."""
    if all(isinstance(label, int | float) and not isinstance(label, bool) for label in labels):
        return np.array(labels)
    return np.array([str(label) for label in labels])


def csv_chunks(path: Path) -> Iterator["pd.DataFrame"]:
    """Iterate over the rows of a CSV file, which has a header line; the index is the line in the file."""
    pd = _package("pandas")
    with reading(path, "a CSV file", "save it as CSV in UTF-8"):
        with open_compressed(path) as file:
            line = re.sub(rb'"[^"]*"', b"", file.readline(MAX_LINE_BYTES + 1))
            separator = max(SEPARATORS, key=line.count)
            n_columns = line.count(separator) + 1
            if len(line) > MAX_LINE_BYTES or n_columns > MAX_COLUMNS:
                raise DatasetError(
                    f"{path}: the header has more than {MAX_COLUMNS:,} columns; save wide data as .npz or svmlight"
                )
        with open_compressed(path) as file:
            header = pd.read_csv(file, header=None, nrows=1, dtype=str, sep=separator.decode())
        check_names(str(path), header.iloc[0].dropna().tolist())
        size = max(1, min(ROWS_PER_BLOCK, VALUES_PER_BLOCK // n_columns))
        with (
            open_compressed(path) as file,
            pd.read_csv(file, chunksize=size, low_memory=False, sep=separator.decode()) as chunks,
        ):
            for chunk in chunks:
                # pandas takes the first fields of such rows for an index.
                if not isinstance(chunk.index, pd.RangeIndex):
                    raise DatasetError(f"{path}: rows have more fields than the header; name every column")
                yield _numbered(chunk, chunk.index.start + 2)


def parquet_chunks(path: Path) -> Iterator["pd.DataFrame"]:
    """Iterate over the rows of a Parquet file; the index is the row in the file."""
    parquet = _package("pyarrow.parquet")
    with reading(path, "a Parquet file"), parquet.ParquetFile(path) as file:
        check_names(str(path), file.schema_arrow.names)
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        unpacked = sum(max(0, group.total_byte_size) for group in groups)
        numbers = file.metadata.num_rows * file.metadata.num_columns * NUMBER_BYTES
        check_unpacked(path, max(unpacked, numbers), path.stat().st_size)
        n_rows = 0
        for batch in file.iter_batches(ROWS_PER_BLOCK):
            yield _numbered(batch.to_pandas(), 1 + n_rows)
            n_rows += batch.num_rows


def json_chunks(path: Path) -> Iterator["pd.DataFrame"]:
    """Iterate over the objects in the lines of a file; the index is the line in the file."""
    pd = _package("pandas")
    with (
        reading(path, "a file of JSON lines", "write one JSON object per line"),
        open_compressed(path) as file,
        pd.read_json(file, lines=True, chunksize=ROWS_PER_BLOCK, dtype=False) as chunks,
    ):
        n_rows = 0
        for chunk in chunks:
            yield _numbered(chunk, 1 + n_rows)
            n_rows += len(chunk)


CHUNKS: dict[str, Callable[[Path], Iterator["pd.DataFrame"]]] = {
    "csv": csv_chunks,
    "parquet": parquet_chunks,
    "jsonl": json_chunks,
}


def _numbered(chunk: "pd.DataFrame", first_row: int) -> "pd.DataFrame":
    chunk.columns = [str(column) for column in chunk.columns]
    return chunk.set_axis(range(first_row, first_row + len(chunk)))


def _package(name: str) -> Any:
    return require(name, extra="data", needed_by="reading a table")
