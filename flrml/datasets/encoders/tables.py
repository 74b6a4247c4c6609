"""Encode tables: numbers as they are, words as one column per level, missing values filled if asked for."""

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from flrml.datasets.encoders.rows import Blocks, RowsEncoder
from flrml.exceptions import DatasetError, FlrmlWarning, suggest
from flrml.extras import require

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = require("pandas", extra="data", needed_by="reading a table")

MAX_LEVELS = 1000
MIN_ROWS_OF_AN_ID = 20
AVERAGES: dict[str, Callable] = {"mean": np.mean, "median": np.median}
DATE, DECIMAL_COMMA = re.compile(r"\d{4}-\d\d-\d\d"), re.compile(r"[-+]?\d+,\d+$")


@dataclass(eq=False)
class TableEncoder(RowsEncoder):
    """Encoder of tables: data frames, mappings of columns, records, or arrays with the columns in order.

    A column of words becomes one column of zeros and ones per level; a level that does not occur in the training
    part becomes zeros. The "mean" or "median" imputes missing numbers, the most frequent level missing words.
    """

    scale: str = "standard"
    categorical: list[str] = field(default_factory=list)  # columns whose values are names, even if they are numbers
    impute: str | None = None  # None refuses missing values
    ignored: list[str] = field(default_factory=list)  # columns besides the features, such as the labels
    columns: list[str] = field(default_factory=list)  # of the features in order
    levels: dict[str, list[str]] = field(default_factory=dict)  # of every column of words
    fills: dict[str, Any] = field(default_factory=dict)  # values in place of missing ones, by column

    kind: ClassVar[str] = "table"

    def fit(self, blocks: Blocks, origin: str = "input") -> "TableEncoder":
        """Learn from the data frames of the training part; errors name the row by the index of its frame."""
        super().fit(blocks, origin)
        if self.mean is not None and self.deviation is not None:
            is_level = np.concatenate(
                [[column in self.levels] * len(self.levels.get(column, "x")) for column in self.columns]
            )
            # Levels stay zeros and ones.
            self.mean[is_level], self.deviation[is_level] = 0, 1
        return self

    def numbers(self, raw: Any, origin: str = "input") -> np.ndarray:
        """Return a table as numbers."""
        frame = self._select(raw, origin)
        encoded: list[np.ndarray] = []
        for column in self.columns:
            values, is_missing = frame[column], frame[column].isna().to_numpy()
            check_type(origin, column, values)
            if is_missing.any() and column not in self.fills:
                raise missing_value(origin, frame.index[is_missing][0], column)
            if column in self.levels:
                texts = as_levels(values)
                texts[is_missing] = self.fills.get(column)
                codes = pd.Index(self.levels[column], dtype=object).get_indexer(texts)
                encoded.append(codes[:, None] == np.arange(len(self.levels[column])))
            else:
                numbers = as_numbers(values)
                numbers[is_missing] = self.fills.get(column, 0)
                bad = ~np.isfinite(numbers)
                if bad.any():
                    raise _not_a_number(origin, frame.index[bad][0], column, values[bad].iloc[0])
                encoded.append(numbers[:, None])
        return np.column_stack(encoded).astype(np.float64)

    def _select(self, raw: Any, origin: str) -> "pd.DataFrame":
        """Return the columns of the features in order; name those that are missing or unknown."""
        if isinstance(raw, dict) and not any(np.ndim(values) for values in raw.values()):
            raw = [raw]
        if isinstance(raw, pd.DataFrame | dict) or (isinstance(raw, list) and isinstance(raw[0], dict)):
            frame = pd.DataFrame(raw)
        elif np.ndim(raw) == 2 and np.shape(raw)[1] == len(self.columns):
            frame = pd.DataFrame(np.asarray(raw), columns=self.columns)
        else:
            raise DatasetError(
                f"{origin}: shape {np.shape(raw)} is not that of a table with the columns {listed(self.columns)}"
            )
        names = [str(column) for column in frame.columns]
        check_names(origin, names)
        unknown = [name for name in names if name not in {*self.columns, *self.ignored}]
        missing = [column for column in self.columns if column not in names]
        if missing or unknown:
            problems = [f"no column {column!r}{suggest(column, unknown)}" for column in missing[:3]]
            problems += [f"unknown column {name!r}{suggest(name, missing)}" for name in unknown[:3]]
            raise DatasetError(f"{origin}: {', '.join(problems)}; give the columns {listed(self.columns)}")
        return frame.set_axis(names, axis=1)[self.columns]

    def _learn(self, blocks: Blocks, origin: str) -> None:
        frame = pd.concat(list(blocks()))
        self.columns = [name for name in frame.columns if name not in self.ignored]
        if not self.columns:
            raise DatasetError(f"{origin}: no columns besides the labels; add the features")
        self.example = json.loads(frame[self.columns][:1].to_json(orient="records", date_format="iso"))[0]
        for name in self.columns:
            check_type(origin, name, frame[name])
            values = frame[name].dropna()
            numbers = np.full(len(values), np.nan) if name in self.categorical else as_numbers(values)
            is_word = np.isnan(numbers)
            if is_word.any() and not is_word.all():
                raise _not_a_number(origin, values.index[is_word][0], name, values[is_word].iloc[0])
            if is_word.any():
                words = Counter(as_levels(values))
                _check_words(origin, name, words, len(frame))
                self.levels[name] = sorted(words)
                average: Any = max(self.levels[name], key=words.__getitem__)
            else:
                _notice_id(origin, name, numbers, len(frame))
                average = None if self.impute is None or not len(values) else float(AVERAGES[self.impute](numbers))
            if self.impute is not None and average is None:
                raise DatasetError(
                    f"{origin}: column {name!r} has no value in the training part; leave it out with `drop`"
                )
            if self.impute is not None:
                self.fills[name] = average
        self.n_columns = sum(len(self.levels.get(name, "x")) for name in self.columns)


def _check_words(origin: str, name: str, words: Counter, n_rows: int) -> None:
    """Refuse a column whose words are no names of categories."""
    first = repr(next(iter(words))[:40])
    if all(map(DATE.match, words)):
        problem = f"holds dates such as {first}; convert them to numbers"
    elif all(map(DECIMAL_COMMA.match, words)):
        problem = f"holds numbers with a comma such as {first}; write a point"
    elif n_rows == len(words) > 1:
        problem = f"has a different value in every row, such as {first}; if it is text, name it with `text`, "
        problem += "if it names the rows, with `names`"
    elif len(words) > MAX_LEVELS:
        problem = f"has more than {MAX_LEVELS:,} different values, such as {first}; group them"
    else:
        return
    raise DatasetError(f"{origin}: column {name!r} {problem}, or leave it out with `drop`")


def _notice_id(origin: str, name: str, numbers: np.ndarray, n_rows: int) -> None:
    """Warn about a column that seems to number the rows."""
    is_distinct = n_rows >= MIN_ROWS_OF_AN_ID and len(np.unique(numbers)) == n_rows
    if is_distinct and (numbers == np.round(numbers)).all():
        warnings.warn(
            f"{origin}: column {name!r} has a different integer in every row; if it numbers the rows, leave it out "
            f"with `drop: [{name}]`",
            FlrmlWarning,
        )


def as_numbers(values: "pd.Series") -> np.ndarray:
    """Return the numbers of a column, and NaN for anything else."""
    numbers = pd.to_numeric(values, errors="coerce")
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)


def as_levels(values: "pd.Series") -> np.ndarray:
    """Return the values of a column as texts: equal numbers give equal texts, however they are written."""
    codes, distinct = pd.factorize(values)
    return np.array([*map(_as_level, distinct), None], dtype=object)[codes]


def _as_level(value: Any) -> str:
    text = str(value)
    try:
        number = float(text.replace("_", "x"))  # Python takes 1_000 for a number
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() else repr(number)


def check_type(origin: str, name: str, values: "pd.Series") -> None:
    """Refuse dates, bytes and lists, which pandas would turn into numbers or words without a word."""
    kind = getattr(values.dtype, "kind", "O")
    types = {type(value).__name__ for value in values} if kind == "O" else set()
    others = types & {"bytes", "bytearray", "list", "dict", "ndarray"}
    if others or kind not in "biufOU":
        found = min(others, default=str(values.dtype))
        raise DatasetError(
            f"{origin}: column {name!r} holds {found}; convert it to numbers, or leave it out with `drop`"
        )


def check_names(origin: str, names: Iterable[str]) -> None:
    """Refuse two columns of one name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DatasetError(f"{origin}: two columns are called {twice[0]!r}; rename or remove one of them")


def listed(names: list[str]) -> str:
    """Return the first names of a list."""
    return ", ".join(names[:20]) + (", …" if len(names) > 20 else "")


def missing_value(origin: str, row: Any, column: str) -> DatasetError:
    """Return the error of a missing value."""
    return DatasetError(
        f"{origin}: row {row}, column {column!r}: missing value; fill it in, remove the row, or set `impute`"
    )


def _not_a_number(origin: str, row: Any, column: str, value: Any) -> DatasetError:
    return DatasetError(
        f"{origin}: row {row}, column {column!r}: {str(value)[:40]!r} is not a finite number; correct it, or name "
        "the column in `categorical` or `drop`"
    )
