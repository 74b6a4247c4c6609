"""Check the options of data sets."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flrml.exceptions import DatasetError, suggest

# Parameters of scikit-learn's TfidfVectorizer that turn a text into terms.
VECTORIZER = (
    *("analyzer", "binary", "lowercase", "max_df", "max_features", "min_df", "ngram_range", "stop_words"),
    *("strip_accents", "sublinear_tf", "token_pattern"),
)

Check = tuple[Callable[[Any], bool], str]


def _one_of(*choices: str) -> Check:
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
    **dict.fromkeys(("train", "test", "labels", "test_labels"), _PATH),
    **dict.fromkeys(("format", "features", "target", "groups", "names", "text"), _NAME),
    **dict.fromkeys(("drop", "categorical"), _NAMES),
    **dict.fromkeys(("max_train", "max_test", "poses"), _COUNT),
    **dict.fromkeys(("zero_based", "out_of_scope", "gray"), _BOOLEAN),
    "holdout": _FRACTION,
    "split": _SPLIT,
    "weighting": _one_of("counts", "tfidf", "log-tfidf"),
    "scale": _one_of("unit", "standard", "none"),
    "impute": _one_of("mean", "median"),
    "encoder": _one_of("wordllama"),
    "vectorizer": _SETTINGS,
    "fill": _one_of("surface", "solid"),
    "models": _PAIR,
    "size": _SIZE,
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
