"""Import scikit-learn without pandas and ``scipy.stats``, which take more than half of a job's start.

Import this before anything that imports scikit-learn. Jobs give it no data frames; ``scipy.stats`` is imported when
something of it is used, and pandas can still be imported afterwards.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

import scipy


class Deferred(ModuleType):
    """A module that is imported when an attribute of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


if not {"pandas", "sklearn", "scipy.stats"} & set(sys.modules):
    sys.modules["scipy.stats"] = scipy.stats = Deferred("scipy.stats")
    sys.modules["pandas"] = None  # type: ignore[assignment]
    import sklearn.utils.fixes  # noqa: F401

    del sys.modules["pandas"]
