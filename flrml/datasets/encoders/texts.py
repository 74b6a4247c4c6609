"""Encode texts as counts of the words that occur in the training part."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from flrml.datasets.encoders.rows import Blocks, RowsEncoder
from flrml.exceptions import DatasetError

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer

LIMITS = ("min_df", "max_df", "max_features")  # have chosen the vocabulary, and do not go with a given one


@dataclass(eq=False)
class TextEncoder(RowsEncoder):
    """Encoder of lists of texts; words that do not occur in the training part are left out."""

    layout: str = "csr"
    settings: Mapping[str, Any] = field(default_factory=dict)  # of scikit-learn's TfidfVectorizer
    column: str | None = None  # of the texts, if raw input is a table
    vocabulary: list[str] = field(default_factory=list)  # terms of the columns in order

    kind: ClassVar[str] = "text"

    def numbers(self, raw: Any, origin: str = "input") -> Any:
        """Return the counts of the terms of texts: a list, an array, or a table with their column."""
        return self._counter.transform(as_texts(raw, origin, self.column))

    def _learn(self, blocks: Blocks, origin: str) -> None:
        texts = [text for block in blocks() for text in block]
        counter = _vectorizer(self.settings)
        try:
            counter.fit(texts)
        except ValueError as error:
            if "empty vocabulary" in str(error):
                raise DatasetError(f"{origin}: the documents contain no words; check the files") from error
            raise DatasetError(f"{origin}: option vectorizer: {error}; correct it") from error
        self.vocabulary = counter.get_feature_names_out().tolist()
        self.n_columns, self.example = len(self.vocabulary), texts[0]

    @cached_property
    def _counter(self) -> "TfidfVectorizer":
        settings = {name: value for name, value in self.settings.items() if name not in LIMITS}
        counter = _vectorizer(settings)
        counter.vocabulary = self.vocabulary
        return counter.fit([""])


def _vectorizer(settings: Mapping[str, Any]) -> "TfidfVectorizer":
    """Return a counter of words: inverse document frequencies and scaling are left to the rows."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # slow to import

    # A pair that comes from YAML or JSON is a list.
    pairs = {name: tuple(value) for name, value in settings.items() if isinstance(value, list)}
    return TfidfVectorizer(use_idf=False, norm=None, **{**settings, **pairs})


def as_texts(raw: Any, origin: str, column: str | None = None) -> list[str]:
    """Return raw input, or a column of it if it is a table, as a list of texts; refuse anything else."""
    if column is not None and column in getattr(raw, "columns", raw if isinstance(raw, dict) else ()):
        raw = raw[column]
    if isinstance(raw, list) and column is not None:  # records, as a request has them
        raw = [item.get(column) if isinstance(item, dict) else item for item in raw]
    if isinstance(raw, str):
        raise DatasetError(f"{origin}: a single string; give a list of texts")
    if getattr(raw, "ndim", 1) == 2 and raw.shape[1] != 1:
        raise DatasetError(f"{origin}: {raw.shape[1]} columns; give the column of the texts only")
    texts = raw if isinstance(raw, list) else np.asarray(raw, dtype=object).ravel().tolist()
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise DatasetError(f"{origin}: example {number + 1}: {str(text)[:40]!r} is not a text; give strings")
    return texts
