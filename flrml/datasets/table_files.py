"""Load tables: CSV, Parquet and JSON-lines files with one row per example, and texts in one of their columns."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flrml.datasets.encoders.rows import RowsEncoder
from flrml.datasets.encoders.tables import TableEncoder, check_names, check_type, listed, missing_value
from flrml.datasets.parts import Loaded, Part, Request, list_part
from flrml.datasets.reading import MAX_LINE_BYTES, check_unpacked, open_compressed, reading
from flrml.datasets.text import text_encoder
from flrml.exceptions import DatasetError, suggest
from flrml.extras import require

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = require("pandas", extra="data", needed_by="reading a table")

MAX_COLUMNS = 100_000  # each costs a tenth of a millisecond and some kilobytes
NUMBER_BYTES = 8
SEPARATORS = (b",", b";", b"\t")
ROLES = ("target", "groups", "names", "text")  # options that name a column


def load_table(request: Request) -> Loaded:
    """Load the user's tables, or the texts in the column that the option ``text`` names."""
    options = request.options
    roles = {role: str(options[role]) for role in ROLES if options[role] is not None}
    astray = [name for name in ("vectorizer", "encoder") if options[name] is not None and "text" not in roles]
    if astray:
        raise DatasetError(f"option {astray[0]} is for texts; name their column with `text`")
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
    """Read a table into memory, and take the columns that have a role."""
    frame = read_table(path, options["format"])
    columns = list(frame.columns)
    if "target" not in roles:
        raise DatasetError(
            f"{path}: no label column is given; name the label column with `target`: {listed(columns)}"
        )
    needed = [*roles.items(), *((key, name) for key in ("drop", "categorical") for name in options[key] or [])]
    for option, name in needed:
        if name not in columns:
            hint = f"{suggest(name, columns)}; correct `{option}`, the columns are {listed(columns)}"
            raise DatasetError(f"{path}: no column {name!r}{hint}")
    for name in roles.values():
        check_type(str(path), name, frame[name])
        if frame[name].isna().any():
            raise missing_value(str(path), frame.index[frame[name].isna()][0], name)
    values = {role: frame[name].tolist() for role, name in roles.items()}
    part = list_part(values.get("text", frame), _as_labels(values["target"]), str(path))
    return part.described(values.get("groups"), values.get("names"))


def read_table(path: Path, format_: str) -> "pd.DataFrame":
    """Read a table of one of the formats; the index is the row or line in the file."""
    frame = READERS[format_](path)
    if frame.empty:
        raise DatasetError(f"{path}: no rows; write a header line and one line per example")
    return frame.rename(columns=str)


def _as_labels(labels: list[Any]) -> np.ndarray:
    """Return numbers if all labels are numbers, otherwise strings."""
    if all(isinstance(label, int | float) and not isinstance(label, bool) for label in labels):
        return np.array(labels)
    return np.array([str(label) for label in labels])


def read_csv(path: Path) -> "pd.DataFrame":
    """Read a CSV file, which has a header line; the index is the line in the file."""
    with reading(path, "a CSV file", "save it as CSV in UTF-8"):
        with open_compressed(path) as file:
            line = re.sub(rb'"[^"]*"', b"", file.readline(MAX_LINE_BYTES + 1))
            separator = max(SEPARATORS, key=line.count)
            if len(line) > MAX_LINE_BYTES or line.count(separator) >= MAX_COLUMNS:
                raise DatasetError(
                    f"{path}: the header has more than {MAX_COLUMNS:,} columns; save wide data as .npz or svmlight"
                )
        with open_compressed(path) as file:
            header = pd.read_csv(file, header=None, nrows=1, dtype=str, sep=separator.decode())
        check_names(str(path), header.iloc[0].dropna().tolist())
        with open_compressed(path) as file:
            frame = pd.read_csv(file, low_memory=False, sep=separator.decode())
        # pandas takes the first fields of such rows for an index.
        if not isinstance(frame.index, pd.RangeIndex):
            raise DatasetError(f"{path}: rows have more fields than the header; name every column")
        return frame.set_axis(range(2, len(frame) + 2))


def read_parquet(path: Path) -> "pd.DataFrame":
    """Read a Parquet file; the index is the row in the file."""
    parquet = require("pyarrow.parquet", extra="data", needed_by="reading a table")
    with reading(path, "a Parquet file"), parquet.ParquetFile(path) as file:
        check_names(str(path), file.schema_arrow.names)
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        unpacked = sum(max(0, group.total_byte_size) for group in groups)
        numbers = file.metadata.num_rows * file.metadata.num_columns * NUMBER_BYTES
        check_unpacked(path, max(unpacked, numbers), path.stat().st_size)
        frame = file.read().to_pandas()
        return frame.set_axis(range(1, len(frame) + 1))


def read_json_lines(path: Path) -> "pd.DataFrame":
    """Read a file with one JSON object per line; the index is the line in the file."""
    with reading(path, "a file of JSON lines", "write one JSON object per line"), open_compressed(path) as file:
        frame = pd.read_json(file, lines=True, dtype=False)
        return frame.set_axis(range(1, len(frame) + 1))


READERS: dict[str, Callable[[Path], "pd.DataFrame"]] = {
    "csv": read_csv,
    "parquet": read_parquet,
    "jsonl": read_json_lines,
}
