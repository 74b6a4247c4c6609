"""The options of data sets: which values each of them takes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flrml.exceptions import DatasetError

WEIGHTINGS = ("counts", "tfidf", "log-tfidf")
FILLS = ("surface", "solid")
FORMATS = ("svmlight", "npz", "npy", "mat", "csv", "parquet", "folder")

Check = tuple[Callable[[Any], bool], str]


def _one_of(choices: tuple[str, ...]) -> Check:
    return (lambda value: isinstance(value, str) and value in choices), "one of " + ", ".join(choices)


def _is_int(value: Any, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= low


_FRACTION: Check = (
    (lambda value: isinstance(value, float) and 0 < value < 1),
    "a fraction between 0 and 1",
)
_COUNT: Check = ((lambda value: _is_int(value, 1)), "a whole number from 1")
_PATH: Check = ((lambda value: isinstance(value, str | Path) and bool(str(value))), "a path")
_NAME: Check = ((lambda value: isinstance(value, str | int) and not isinstance(value, bool)), "a name")
_YES_NO: Check = ((lambda value: isinstance(value, bool)), "true or false")
_PAIR: Check = (
    (lambda value: isinstance(value, list | tuple) and len(value) == 2 and all(_is_int(n, 1) for n in value)),
    "two whole numbers from 1, for the training and the test part",
)

CHECKS: dict[str, Check] = {
    "weighting": _one_of(WEIGHTINGS),
    "holdout": _FRACTION,
    "max_train": _COUNT,
    "max_test": _COUNT,
    "fill": _one_of(FILLS),
    "poses": _COUNT,
    "models": _PAIR,
    "format": _one_of(FORMATS),
    "train": _PATH,
    "test": _PATH,
    "labels": _PATH,
    "test_labels": _PATH,
    "features": _NAME,
    "target": _NAME,
    "zero_based": _YES_NO,
}


def resolve(name: str, defaults: Mapping[str, Any], given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Defaults of a data set overridden by what is given; None always means the option is not set."""
    options = dict(defaults)
    for key, value in (given or {}).items():
        if key not in options:
            raise DatasetError(f"{name}: unknown option {key!r}; it takes {', '.join(sorted(options))}")
        accepts, wanted = CHECKS[key]
        if value is not None and not accepts(value):
            raise DatasetError(f"{name}: option {key} is {value!r}, but must be {wanted}")
        options[key] = value
    return options
