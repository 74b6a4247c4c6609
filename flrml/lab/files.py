"""Result files: written beside their place and renamed into it, each saying what made it."""

import json
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flrml import __version__

PACKAGES = ("numpy", "scipy", "scikit-learn")


@contextmanager
def in_place(path: str | os.PathLike) -> Iterator[Path]:
    """A path beside ``path`` to write to; it takes the place of ``path`` when the block ends well.

    What a killed process leaves there is overwritten by the next one.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    try:
        yield beside
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_json(path: str | os.PathLike, content: Any) -> None:
    """Write JSON with sorted keys."""
    with in_place(path) as beside:
        beside.write_text(json.dumps(content, indent=1, sort_keys=True, default=_plain) + "\n")


def read_json(path: str | os.PathLike) -> Any:
    """Read a JSON file."""
    return json.loads(Path(path).read_text())


def write_arrays(path: str | os.PathLike, meta: dict, **arrays: NDArray) -> None:
    """Write arrays and a description of them to one .npz file, without pickles."""
    with in_place(path) as beside, beside.open("wb") as file:
        np.savez(file, meta=np.array(json.dumps(meta, sort_keys=True, default=_plain)), **arrays)  # type: ignore[arg-type]


def read_arrays(path: str | os.PathLike) -> tuple[dict, dict[str, NDArray]]:
    """Read what :func:`write_arrays` wrote."""
    with np.load(path, allow_pickle=False) as file:
        return json.loads(str(file["meta"])), {name: file[name] for name in file.files if name != "meta"}


@cache
def provenance() -> dict[str, str]:
    """Versions and git commit that a result comes from."""
    found = {"python": platform.python_version(), "flrml": __version__}
    found |= {package: version(package) for package in PACKAGES}
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        commit = subprocess.run(
            [*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD"], check=False).returncode != 0
        found["git_commit"] = commit + ("+changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        found["git_commit"] = "unknown"
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} does not go into a JSON file")
