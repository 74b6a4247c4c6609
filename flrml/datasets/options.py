"""Check the options of data sets."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flrml.exceptions import DatasetError, suggest

WEIGHTINGS = ("counts", "tfidf", "log-tfidf")
SCALES = ("unit", "standard", "none")
IMPUTE = ("mean", "median")
FILLS = ("surface", "solid")
ENCODERS = ("wordllama",)
# Parameters of scikit-learn's TfidfVectorizer that turn a text into terms.
VECTORIZER = (
    *("analyzer", "binary", "lowercase", "max_df", "max_features", "min_df", "ngram_range", "stop_words"),
    *("strip_accents", "sublinear_tf", "token_pattern"),
)

Check = tuple[Callable[[Any], bool], str]


def _one_of(choices: tuple[str, ...]) -> Check:
    return (lambda value: isinstance(value, str) and value in choices), "one of " + ", ".join(choices)


def _is_int(value: Any, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= low


_FRACTION: Check = ((lambda value: isinstance(value, float) and 0 < value < 1), "a fraction between 0 and 1")
_COUNT: Check = ((lambda value: _is_int(value, 1)), "a positive integer")
_SPLIT: Check = (
    (lambda value: _is_int(value, 0) or bool(re.fullmatch(r"classes(-\d+)?", str(value)))),
    "an integer from 0 on, or classes, classes-1, and so on",
)
_PATH: Check = ((lambda value: isinstance(value, str | Path) and bool(str(value))), "a path")
_NAME: Check = ((lambda value: isinstance(value, str | int) and not isinstance(value, bool)), "a name")
_BOOLEAN: Check = ((lambda value: isinstance(value, bool)), "true or false")
_PAIR: Check = (
    (lambda value: isinstance(value, list | tuple) and len(value) == 2 and all(_is_int(n, 1) for n in value)),
    "two positive integers, for the training and the test part",
)

_SIZE: Check = (
    (lambda value: _is_int(value, 1) or _PAIR[0](value)),
    "a positive integer, or two for height and width",
)
_NAMES: Check = (
    (lambda value: isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)),
    "a list of column names",
)
_SETTINGS: Check = (
    (lambda value: isinstance(value, Mapping) and set(value) <= set(VECTORIZER)),
    "a mapping of " + ", ".join(VECTORIZER),
)

CHECKS: dict[str, Check] = {
    "weighting": _one_of(WEIGHTINGS),
    "holdout": _FRACTION,
    "max_train": _COUNT,
    "max_test": _COUNT,
    "split": _SPLIT,
    "fill": _one_of(FILLS),
    "poses": _COUNT,
    "models": _PAIR,
    "format": _NAME,
    "train": _PATH,
    "test": _PATH,
    "labels": _PATH,
    "test_labels": _PATH,
    "features": _NAME,
    "target": _NAME,
    "zero_based": _BOOLEAN,
    "scale": _one_of(SCALES),
    "groups": _NAME,
    "names": _NAME,
    "drop": _NAMES,
    "categorical": _NAMES,
    "impute": _one_of(IMPUTE),
    "text": _NAME,
    "encoder": _one_of(ENCODERS),
    "out_of_scope": _BOOLEAN,
    "size": _SIZE,
    "gray": _BOOLEAN,
    "vectorizer": _SETTINGS,
}


def resolve(name: str, defaults: Mapping[str, Any], given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Override the defaults of a data set by the given options; None always means that an option is not set."""
    options = dict(defaults)
    for key, value in (given or {}).items():
        if key not in options:
            raise DatasetError(
                f"{name}: unknown option {key!r}{suggest(key, options)}; choose from {', '.join(sorted(options))}"
            )
        accepts, wanted = CHECKS[key]
        if value is not None and not accepts(value):
            raise DatasetError(f"{name}: option {key} is {value!r}, but must be {wanted}")
        options[key] = value
    return options
