"""Check arrays of a prepared data set before they reach compiled code.

scipy trusts the column numbers of a sparse matrix: one out of range reads or writes foreign memory. Therefore every
array is checked against its bounds when it is opened, once per process and version of the file. The check reads
the file once, which takes about 0.1 s per GB from the page cache. A file counts as unchanged if its size and its
modification time are.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from flrml.datasets.reading import reading, require_regular
from flrml.exceptions import DatasetError

REMEDY = "prepare the data set again"
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
    """Refuse an array with a value below ``low`` or above ``high``, with NaN or, if asked, out of order."""
    previous = low
    for block in _unchecked_blocks(path, array, float(low), float(high), ascending):
        # Written so that NaN, which compares as false, is refused too.
        if not (low <= block.min() and block.max() <= high):
            raise DatasetError(f"{path}: damaged, a value is not between {low} and {high}; {REMEDY}")
        if ascending and (block[0] < previous or (np.diff(block) < 0).any()):
            raise DatasetError(f"{path}: damaged, the values are not in ascending order; {REMEDY}")
        previous = block[-1]


def check_values(path: Path, array: np.ndarray, accepts: Callable[[np.ndarray], bool], wanted: str) -> None:
    """Refuse an array with a block that is not accepted; ``wanted`` describes a sound value."""
    for block in _unchecked_blocks(path, array, wanted):
        if not accepts(block):
            raise DatasetError(f"{path}: damaged, a value is not {wanted}; {REMEDY}")


def _unchecked_blocks(path: Path, array: np.ndarray, *check: object) -> Iterator[np.ndarray]:
    """Iterate over the values in a file, unless this version of it has passed the same check before."""
    status = path.stat()
    key = (path.absolute(), status.st_ino, status.st_size, status.st_mtime_ns, *check)
    if key in _checked:
        return
    yield from read_blocks(path, array)
    # Reached only if the check accepts every block.
    if time.time_ns() - status.st_mtime_ns > SETTLED_NS:
        _checked.add(key)


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
