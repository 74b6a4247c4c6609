"""Import packages of the optional extras, which the core installation leaves out."""

from importlib import import_module
from types import ModuleType


def require(module: str, *, extra: str, needed_by: str) -> ModuleType:
    """Import a module of an extra of flrml, or name the extra to install and what needs it.

    Examples
    --------
    >>> require("json", extra="data", needed_by="prepare").dumps([1])
    '[1]'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # A package that is installed but lacks a dependency raises its own error.
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        package = module.partition(".")[0]
        raise ImportError(f"{needed_by} needs {package}: pip install 'flrml[{extra}]'", name=package) from error
