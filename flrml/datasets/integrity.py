"""Check arrays of a prepared data set before they reach compiled code.

scipy trusts the column numbers of a sparse matrix: one out of range reads or writes foreign memory. Therefore every
array is checked against its bounds when it is opened, once per process and version of the file. The check reads
the file once, which takes about 0.1 s per GB from the page cache. A file counts as unchanged if its size and its
modification time are.
"""

import time
from collections.abc import Callable
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

    def accepts(block: np.ndarray) -> bool:
        nonlocal previous
        before, previous = previous, block[-1]
        in_order = not ascending or (before <= block[0] and (np.diff(block) >= 0).all())
        # Written so that NaN, which compares as false, is refused too.
        return bool(in_order and low <= block.min() and block.max() <= high)

    check_values(path, array, accepts, f"between {low} and {high}" + ascending * ", or not in ascending order")


def check_values(path: Path, array: np.ndarray, accepts: Callable[[np.ndarray], bool], wanted: str) -> None:
    """Refuse an array with a block that is not accepted; ``wanted`` describes a sound value."""
    status = path.stat()
    key = (path.absolute(), status.st_ino, status.st_size, status.st_mtime_ns, wanted)
    if key in _checked:
        return
    with open(path, "rb") as file:  # by plain reads, as pages of a memory map count as used memory
        file.seek(array.offset)  # type: ignore[attr-defined]
        while (block := np.fromfile(file, array.dtype, max(1, BLOCK_BYTES // array.itemsize))).size:
            if not accepts(block):
                raise DatasetError(f"{path}: damaged, a value is not {wanted}; {REMEDY}")
    if time.time_ns() - status.st_mtime_ns > SETTLED_NS:
        _checked.add(key)
