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
from flrml.datasets.options import did_you_mean
from flrml.exceptions import DatasetError, FlrmlWarning
from flrml.extras import require

if TYPE_CHECKING:
    import pandas as pd

MAX_LEVELS = 1000
MIN_ROWS_OF_AN_ID = 20
AVERAGES: dict[str, Callable] = {"mean": np.mean, "median": np.median}
DATE, DECIMAL_COMMA = re.compile(r"\d{4}-\d\d-\d\d"), re.compile(r"[-+]?\d+,\d+$")


@dataclass(eq=False)
class TableEncoder(RowsEncoder):
    """Encoder of tables: data frames, mappings of columns, records, or arrays with the columns in order.

    A column of words becomes one column of zeros and ones per level; a level that does not occur in the training
    part becomes zeros.

    Parameters
    ----------
    categorical : list of str
        Columns whose values are names although they look like numbers.
    impute : {"mean", "median"}, optional
        What fills missing numbers; missing words become the most frequent level. None refuses missing values.
    ignored : list of str
        Columns that raw input may have besides the features, such as the labels.
    columns : list of str
        Columns of the features in order.
    levels : dict
        Levels of every column of words.
    fills : dict
        What fills the missing values of every column.
    """

    scale: str = "standard"
    categorical: list[str] = field(default_factory=list)
    impute: str | None = None
    ignored: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    levels: dict[str, list[str]] = field(default_factory=dict)
    fills: dict[str, Any] = field(default_factory=dict)

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
                codes = _pandas().Index(self.levels[column], dtype=object).get_indexer(texts)
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
        pd = _pandas()
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
            problems = [f"no column {column!r}{did_you_mean(column, unknown)}" for column in missing[:3]]
            problems += [f"unknown column {name!r}{did_you_mean(name, missing)}" for name in unknown[:3]]
            raise DatasetError(f"{origin}: {', '.join(problems)}; give the columns {listed(self.columns)}")
        return frame.set_axis(names, axis=1)[self.columns]

    def _learn(self, blocks: Blocks, origin: str) -> None:
        columns: dict[str, _Column] = {}
        for frame in blocks():
            features = frame[[name for name in frame.columns if name not in self.ignored]]
            if not columns:
                columns = {name: _Column(name, origin, name in self.categorical) for name in features.columns}
                self.example = json.loads(features[:1].to_json(orient="records", date_format="iso"))[0]
            for name, column in columns.items():
                column.add(features[name], keep=self.impute is not None)
        if not columns:
            raise DatasetError(f"{origin}: no columns besides the labels; add the features")
        self.columns = list(columns)
        self.levels = {name: column.levels() for name, column in columns.items() if column.is_words()}
        if self.impute is not None:
            self.fills = {name: column.fill(self.impute) for name, column in columns.items()}
        self.n_columns = sum(len(self.levels.get(name, "x")) for name in self.columns)


class _Column:
    """The values of a column in the training part: numbers or words."""

    def __init__(self, name: str, origin: str, is_categorical: bool):
        self.name, self.origin, self.is_categorical = name, origin, is_categorical
        self.n_rows = self.n_numbers = 0
        self.words: Counter = Counter()
        self.first_word: tuple[Any, Any] | None = None  # row and value
        self.integers: set | None = None if is_categorical else set()  # until one occurs twice
        self.kept: list[np.ndarray] = []

    def add(self, values: "pd.Series", keep: bool) -> None:
        """Take note of further values; keep the numbers if they are averaged later."""
        check_type(self.origin, self.name, values)
        self.n_rows += len(values)
        values = values[values.notna()]
        if self.is_categorical:
            self.words.update(as_levels(values))
            return
        numbers = as_numbers(values)
        is_word = np.isnan(numbers)
        if is_word.any():
            self.first_word = self.first_word or (values.index[is_word][0], values[is_word].iloc[0])
            self.words.update(as_levels(values[is_word]))
        numbers = numbers[~is_word]
        self.n_numbers += len(numbers)
        if keep:
            self.kept.append(numbers)
        if self.integers is not None:
            self.integers.update(numbers.tolist())
            if len(self.integers) < self.n_rows or (numbers != np.round(numbers)).any():
                self.integers = None

    def is_words(self) -> bool:
        """Return whether the column holds words; refuse one that holds words and numbers."""
        if self.words and self.n_numbers and self.first_word is not None:
            raise _not_a_number(self.origin, self.first_word[0], self.name, self.first_word[1])
        if self.integers is not None and self.n_rows >= MIN_ROWS_OF_AN_ID:
            warnings.warn(
                f"{self.origin}: column {self.name!r} has a different integer in every row; if it numbers the "
                f"rows, leave it out with `drop: [{self.name}]`",
                FlrmlWarning,
            )
        return bool(self.words)

    def levels(self) -> list[str]:
        """Return the words of the column in order; refuse those that are no names of categories."""
        first, n_levels = next(iter(self.words)), len(self.words)
        problem = None
        if all(map(DATE.match, self.words)):
            problem = f"holds dates such as {first!r}; convert them to numbers"
        elif all(map(DECIMAL_COMMA.match, self.words)):
            problem = f"holds numbers with a comma such as {first!r}; write a point"
        elif n_levels > 1 and n_levels == self.n_rows:
            problem = (
                f"has a different value in every row, such as {first[:40]!r}; if it is text, name it with `text`"
            )
        elif n_levels > MAX_LEVELS:
            problem = f"has more than {MAX_LEVELS:,} different values, such as {first[:40]!r}; group them"
        if problem:
            raise DatasetError(f"{self.origin}: column {self.name!r} {problem}, or leave it out with `drop`")
        return sorted(self.words)

    def fill(self, impute: str) -> Any:
        """Return what fills the missing values."""
        if self.words:
            return min(self.words, key=lambda word: (-self.words[word], word))
        if not self.n_numbers:
            raise DatasetError(
                f"{self.origin}: column {self.name!r} has no value in the training part; leave it out with `drop`"
            )
        return float(AVERAGES[impute](np.concatenate(self.kept)))


def as_numbers(values: "pd.Series") -> np.ndarray:
    """Return the numbers of a column, and NaN for anything else."""
    numbers = _pandas().to_numeric(values, errors="coerce")
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)


def as_levels(values: "pd.Series") -> np.ndarray:
    """Return the values of a column as texts: equal numbers give equal texts, however they are written."""
    codes, distinct = _pandas().factorize(values)
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
    others = {type(value).__name__ for value in values} & {"bytes", "bytearray", "list", "dict", "ndarray"}
    if (kind == "O" and others) or kind not in "biufOU":
        found = min(others) if kind == "O" else str(values.dtype)
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


def _pandas() -> Any:
    return require("pandas", extra="data", needed_by="reading a table")
