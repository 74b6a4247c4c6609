"""Find the source files that a result depends on, by the imports of the module that makes it."""

import ast
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "flrml"
# A result depends on what a registry says of one method or data set, which is a parameter of its rule.
REGISTRIES = {"flrml", "flrml.methods", "flrml.datasets", "flrml.datasets.registry"}


def source_files(*modules: str, deferred: bool = False) -> list[str]:
    """Return the files of flrml that the given modules import, directly or not, relative to the working folder.

    Imports inside functions are of parts that only some configurations use: they are followed if ``deferred``.
    """
    found: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in found or name in REGISTRIES - set(modules):
            continue
        found[name] = _file(name)
        waiting += _imports(found[name], deferred)
    return sorted(os.path.relpath(path) for path in found.values())


@cache
def _imports(path: Path, deferred: bool) -> list[str]:
    """Return the modules of flrml that a module imports; asked for once per job, so kept."""
    tree, found = ast.parse(path.read_text(encoding="utf-8")), []
    for node in () if deferred else ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
            if node.module.split(".")[0] == PACKAGE and _file(node.module).name == "__init__.py":
                children = (f"{node.module}.{alias.name}" for alias in node.names)  # ``from package import module``
                found += [child for child in children if find_spec(child) is not None]
    return [name for name in found if name.split(".")[0] == PACKAGE]


@cache
def _file(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no module {name}")
    return Path(spec.origin)
