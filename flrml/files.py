"""Write files atomically: to a temporary name next to their place, flushed to disk, then renamed."""

import json
import os
import shutil
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flrml.exceptions import DamagedFileError

PathLike = str | os.PathLike


@contextmanager
def atomic_write(path: PathLike) -> Iterator[Path]:
    """Yield a temporary path to write to, which replaces ``path`` when the block succeeds.

    The temporary file of a killed process is overwritten by the next writer.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    try:
        yield temporary
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: PathLike, owned: Collection[str]) -> Iterator[Path]:
    """Yield a temporary folder to fill, which replaces the folder ``path`` when the block succeeds.

    An existing folder may hold the names in ``owned``; any other one raises FileExistsError.
    """
    path = Path(os.path.abspath(path))
    temporary, replaced = path.with_name(f".{path.name}.partial"), path.with_name(f".{path.name}.old")
    path.parent.mkdir(parents=True, exist_ok=True)
    foreign = sorted(set(os.listdir(path)) - set(owned)) if path.exists() else []
    if foreign:
        raise FileExistsError(f"it holds {foreign[0]}, which this program did not write")
    for leftover in (temporary, replaced):
        shutil.rmtree(leftover, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        for part in (*temporary.rglob("*"), temporary):
            _sync(part)
        if path.exists():
            path.rename(replaced)
        temporary.rename(path)
        _sync(path.parent)
        shutil.rmtree(replaced, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def set_aside(path: PathLike) -> Path:
    """Rename a damaged file or folder to ``name.damaged``, or ``name.1.damaged`` and so on; return the new path."""
    path = Path(path)
    names = (f"{path.name}{number}.damaged" for number in ("", *(f".{n}" for n in range(1, 1000))))
    moved = next(path.with_name(name) for name in names if not path.with_name(name).exists())
    path.rename(moved)
    return moved


def leads_through_link(path: Path, root: Path) -> bool:
    """Return whether a path leads through a symbolic link, from the root on."""
    return any(part.is_symlink() for part in (path, *path.parents) if part == root or root in part.parents)


def write_json(path: PathLike, content: Any) -> None:
    """Write JSON with sorted keys."""
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False, default=_plain)
    with atomic_write(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def read_json(path: PathLike) -> Any:
    """Read a JSON file; a damaged one raises DamagedFileError."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(path, error) from error


def write_arrays(path: PathLike, meta: dict, **arrays: NDArray) -> None:
    """Write arrays and a description of them to one .npz file, without pickles."""
    text = json.dumps(meta, sort_keys=True, default=_plain)
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez(file, meta=np.array(text), **arrays)  # type: ignore[arg-type]


def read_arrays(path: PathLike) -> tuple[dict, dict[str, NDArray]]:
    """Read what :func:`write_arrays` wrote; a damaged file raises DamagedFileError."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return json.loads(str(file["meta"])), {name: file[name] for name in file.files if name != "meta"}
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
        raise DamagedFileError(path, error) from error


def _sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} does not go into a JSON file")
