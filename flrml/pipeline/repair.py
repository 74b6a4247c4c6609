"""Set damaged results aside before a run starts, so that it regenerates them."""

import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from flrml.datasets.store import is_own_folder, verify
from flrml.exceptions import DamagedFileError, DatasetError
from flrml.files import PathLike, leads_through_link, read_json, set_aside


def set_aside_damaged(results: PathLike, outputs: Iterable[PathLike]) -> dict[str, str]:
    """Rename those of the given results that cannot be read; return their paths, each with a line about it.

    JSON files are parsed, and arrays are compared with the size that they announce, in milliseconds: that finds
    what a full disk or a power cut leaves.
    Nothing behind a link below the folder is looked at, and the folder of a data set is left alone if it holds a
    file that flrml did not write.
    """
    damaged = {}
    for path in map(Path, outputs):
        if not path.is_file() or leads_through_link(path, Path(results)):
            continue
        is_dataset = path.name == "meta.json"
        try:
            verify(path.parent) if is_dataset else CHECKS[path.suffix](path)
        except (DamagedFileError, DatasetError):
            whole = path.parent if is_dataset else path
            if not is_dataset or is_own_folder(whole):
                damaged[str(path)] = (
                    f"{whole} is damaged: renamed to {set_aside(whole).name}; it will be regenerated"
                )
    return damaged


def _check_arrays(path: Path) -> None:
    """Open every array of an .npy or .npz file; a damaged one raises DamagedFileError."""
    try:
        if path.suffix == ".npy":
            np.load(path, mmap_mode="r", allow_pickle=False)
            return
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                with archive.open(entry) as file:
                    file.read(1)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
        raise DamagedFileError(path, error) from error


CHECKS = {".json": read_json, ".npz": _check_arrays, ".npy": _check_arrays}
