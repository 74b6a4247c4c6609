"""Find damaged result files before a run starts, so that it makes them again."""

import shutil
import zipfile
from pathlib import Path

import numpy as np

from flrml.datasets.store import verify
from flrml.exceptions import DamagedFileError, DatasetError
from flrml.files import PathLike, read_json

FOLDERS = ("runs", "svd", "sweeps", "growth", "triplets")


def discard_damaged(results: PathLike) -> list[str]:
    """Delete result files that cannot be read; return a line about each.

    JSON files are parsed, and arrays are compared with the size that they announce, in milliseconds: that finds
    what a full disk or a power cut leaves. A changed byte inside an array is found by its digest when it is used.

    Parameters
    ----------
    results : path
        Folder of the results of a configuration. Nothing outside of it is touched, nor anything behind a link.
    """
    found = []
    for folder in sorted(Path(results, "data").glob("[!.]*")):
        if (folder / "meta.json").exists():
            try:
                verify(folder)
            except DatasetError as error:
                shutil.rmtree(folder)
                found.append(f"{error} (deleted; it is made again)")
    for name in FOLDERS:
        for path in sorted(Path(results, name).rglob("*")):
            if path.suffix in CHECKS and path.is_file() and not path.is_symlink():
                try:
                    CHECKS[path.suffix](path)
                except DamagedFileError:
                    path.unlink()
                    found.append(f"{path} is damaged (deleted; it is made again)")
    return found


def _check_npz(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                with archive.open(entry) as file:
                    file.read(1)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
        raise DamagedFileError(path, error) from error


def _check_npy(path: Path) -> None:
    try:
        np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DamagedFileError(path, error) from error


CHECKS = {".json": read_json, ".npz": _check_npz, ".npy": _check_npy}
