"""Check arrays of a prepared data set before they reach compiled code.

scipy trusts the column numbers of a sparse matrix: one out of range reads or writes foreign memory. Therefore every
array is checked against its bounds when it is opened, once per process and version of the file. The check reads
the file once, which takes about 0.1 s per GB from the page cache. A split of more than 2 GB gets a note next to its
arrays, ``.checked.json``, that spares later processes the reading. A file counts as unchanged if its size and its
modification time are.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from flrml.datasets.reading import reading, require_regular
from flrml.exceptions import DamagedFileError, DatasetError
from flrml.files import read_json, write_json

REMEDY = "prepare the data set again"
NOTE = ".checked.json"
NOTE_FROM_BYTES = 2 * 2**30
BLOCK_BYTES = 2**22
# Timestamps are too coarse to tell two writes within this time apart.
SETTLED_NS = 10**9

_checked: set[tuple] = set()


def open_array(path: Path, dtypes: tuple = (), n_dimensions: int = 1) -> np.ndarray:
    """Open an array of a prepared data set as a memory map; refuse another type than the given ones."""
    require_regular(path)
    with reading(path, "an array of a prepared data set", REMEDY):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    if dtypes and (array.dtype not in dtypes or array.ndim != n_dimensions):
        raise DatasetError(f"{path}: unexpected type {array.dtype} or shape {array.shape}; {REMEDY}")
    return array


def check_bounds(path: Path, array: np.ndarray, low: float, high: float, ascending: bool = False) -> None:
    """Refuse an array with a value below ``low`` or above ``high``, with NaN or, if asked, out of order.

    Parameters
    ----------
    path : Path
        File of the array.
    array : memory map
        The array, from `open_array`.
    low, high : number
        Smallest and largest value allowed.
    ascending : bool, default False
        Whether the values must not decrease.
    """
    with _once_per_version(path, [float(low), float(high), ascending]) as is_due:
        previous = low
        for block in read_blocks(path, array) if is_due else ():
            # Written so that NaN, which compares as false, is refused too.
            if not (low <= block.min() and block.max() <= high):
                raise DatasetError(f"{path}: damaged, a value is not between {low} and {high}; {REMEDY}")
            if ascending and (block[0] < previous or (np.diff(block) < 0).any()):
                raise DatasetError(f"{path}: damaged, the values are not in ascending order; {REMEDY}")
            previous = block[-1]


def check_values(path: Path, array: np.ndarray, accepts: Callable[[np.ndarray], bool], wanted: str) -> None:
    """Refuse an array with a value that is not accepted.

    Parameters
    ----------
    path : Path
        File of the array.
    array : memory map
        The array, from `open_array`.
    accepts : callable
        Returns whether all values of a block are sound.
    wanted : str
        Description of a sound value, for the message.
    """
    with _once_per_version(path, [wanted]) as is_due:
        for block in read_blocks(path, array) if is_due else ():
            if not accepts(block):
                raise DatasetError(f"{path}: damaged, a value is not {wanted}; {REMEDY}")


@contextmanager
def _once_per_version(path: Path, settings: list) -> Iterator[bool]:
    """Yield whether a check of this version of a file is due; if so, record it when the block succeeds."""
    status = path.stat()
    version = [status.st_size, status.st_mtime_ns, *settings]
    key = (str(path.absolute()), status.st_ino, *version)
    is_due = key not in _checked and not _is_noted(path, version)
    yield is_due
    if is_due and time.time_ns() - status.st_mtime_ns > SETTLED_NS:
        _checked.add(key)
        if _folder_bytes(path.parent) > NOTE_FROM_BYTES:
            _write_note(path, version)


def read_blocks(path: Path, array: np.ndarray) -> Iterator[np.ndarray]:
    """Iterate over the values in a file by plain reads, as pages of a memory map count as used memory."""
    with open(path, "rb") as file:
        file.seek(array.offset)  # type: ignore[attr-defined]
        while (block := np.fromfile(file, array.dtype, max(1, BLOCK_BYTES // array.itemsize))).size:
            yield block


def check_digest(path: Path, array: np.ndarray, sha256: str) -> None:
    """Refuse an array whose values do not have the given sha256."""
    digest = hashlib.sha256()
    for block in read_blocks(path, array):
        digest.update(block.data)
    if digest.hexdigest() != sha256:
        raise DatasetError(f"{path}: damaged, its sha256 is not the one in meta.json; {REMEDY}")


def _folder_bytes(folder: Path) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file())


def _read_note(folder: Path) -> dict[str, Any]:
    try:
        note = read_json(folder / NOTE)
    except (OSError, DamagedFileError):
        return {}
    return note if isinstance(note, dict) else {}


def _is_noted(path: Path, version: list) -> bool:
    return _read_note(path.parent).get(path.name) == version


def _write_note(path: Path, version: list) -> None:
    # In a read-only folder, the next process checks again.
    with suppress(OSError):
        write_json(path.parent / NOTE, {**_read_note(path.parent), path.name: version})
