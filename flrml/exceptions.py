"""Define the exceptions and warnings of flrml, and a hint that errors give."""

import difflib
from collections.abc import Iterable
from os import PathLike
from typing import Any


class FlrmlWarning(UserWarning):
    """The input is unusual; the message describes how it is handled."""


class OverfittingWarning(FlrmlWarning):
    """A method is used on data that it is known to overfit."""


class SpectrumError(ValueError):
    """A stored decomposition is damaged, or does not belong to the data it is used with."""


class TrackingError(RuntimeError):
    """An MLflow store cannot be used; the message gives the reason and a remedy."""


class DatasetError(ValueError):
    """A data set is missing, damaged or inconsistent; the message gives the place and a remedy."""


class DamagedFileError(ValueError):
    """A file that flrml wrote can no longer be read."""

    def __init__(self, path: str | PathLike, error: Exception):
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        super().__init__(f"{path} is damaged ({reason}): delete it and run again")


class NoSolutionError(ValueError):
    """A method found no finite, non-zero solution."""


def suggest(given: Any, choices: Iterable[Any]) -> str:
    """Return `` (did you mean 'x'?)`` for the choice that resembles a misspelt name, or nothing."""
    close = difflib.get_close_matches(str(given), [str(choice) for choice in choices], n=1, cutoff=0.65)
    return f" (did you mean {close[0]!r}?)" if close and given is not None else ""
