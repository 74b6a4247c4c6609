"""Open raw files safely: regular files only, bounded unpacking, one clear error for a damaged file.

Compressed data may unpack to at most 500 times its packed size, and to 64 MB in any case. Text and images
unpack to 4–10 times their packed size, the solid grids of ModelNet10 to 236 times; an archive made to fill the
memory or the disk reaches 1,000 times and more. The environment variable ``FLRML_MAX_UNPACK_RATIO`` sets another
factor.
"""

import bz2
import errno
import gzip
import io
import lzma
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from flrml.exceptions import DatasetError

RATIO_VARIABLE = "FLRML_MAX_UNPACK_RATIO"
DEFAULT_RATIO = 500.0
UNLIMITED_BYTES = 64 * 2**20
MAX_LINE_BYTES = 64 * 2**20
# Errors of writing, such as a full disk, are not the fault of the file that is read.
_WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_OPENERS: dict[str, Callable[[Path, str], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_SPECIAL_FILES = {"p": "a named pipe", "s": "a socket", "c": "a device", "b": "a device", "d": "a folder"}


@contextmanager
def reading(path: str | Path, what: str, remedy: str = "fetch or write the file again") -> Iterator[None]:
    """Turn any failure inside the block into a DatasetError: ``path`` is not readable as ``what``."""
    try:
        yield
    except DatasetError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _WRITE_ERRORS:
            raise
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DatasetError(f"{path}: not readable as {what} ({reason}); {remedy}") from error


@contextmanager
def writing(problem: str, folder: str) -> Iterator[None]:
    """Turn an OSError inside the block into a DatasetError with the problem and a remedy."""
    try:
        yield
    except OSError as error:
        raise DatasetError(
            f"{problem} ({error.strerror or error}); free some space there or choose another {folder} folder"
        ) from error


def require_regular(path: str | os.PathLike) -> None:
    """Refuse a named pipe, a socket or a device, which could block for ever or never end."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise DatasetError(
            f"{path}: cannot be read ({error.strerror or error}); check the path and its permissions"
        ) from error
    kind = _SPECIAL_FILES.get(stat.filemode(mode)[0])
    if kind is not None:
        raise DatasetError(f"{path}: is {kind}, not a regular file; save the data to a file and give that")


def files_below(folder: Path) -> list[Path]:
    """List the files below a folder in order, without hidden ones; a symbolic link out of it is refused."""
    root = os.path.realpath(folder)
    found = []
    for top, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = [Path(top, name) for name in files if not name.startswith(".")]
        for path in (*(Path(top, name) for name in folders), *paths):
            if path.is_symlink() and os.path.commonpath((root, os.path.realpath(path))) != root:
                raise DatasetError(f"{path}: symbolic link out of {folder}; copy its target into the folder")
        found += paths
    for path in found:
        require_regular(path)
    return sorted(found)


def unpack_limit(packed: int) -> int:
    """Return the number of bytes that ``packed`` bytes of compressed data may unpack to."""
    text = os.environ.get(RATIO_VARIABLE) or str(DEFAULT_RATIO)
    try:
        return max(UNLIMITED_BYTES, int(float(text) * packed))
    except (ValueError, OverflowError) as error:
        raise DatasetError(f"{RATIO_VARIABLE} must be a number, got {text!r}; correct or unset it") from error


def check_unpacked(origin: str | Path, unpacked: int, packed: int) -> None:
    """Refuse data that unpacks to more than `unpack_limit`."""
    limit = unpack_limit(packed)
    if unpacked > limit:
        raise DatasetError(
            f"{origin}: {packed:,} packed bytes unpack to more than {limit / 1e6:,.0f} MB; "
            f"if you trust the file, set {RATIO_VARIABLE} to more than {unpacked / max(packed, 1):,.0f}"
        )


class _LimitedReader(io.RawIOBase):
    """Stream of unpacked bytes that ends with an error beyond the limit."""

    def __init__(self, path: Path, stream: Any):
        self._path, self._stream = path, stream
        self._packed, self._unpacked = os.path.getsize(path), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n_read = self._stream.readinto(buffer)
        self._unpacked += n_read
        check_unpacked(self._path, self._unpacked, self._packed)
        return n_read

    def close(self) -> None:
        self._stream.close()
        super().close()


def open_compressed(path: Path) -> IO[bytes]:
    """Open a file for reading, through gzip, bzip2 or xz if its name says so."""
    require_regular(path)
    if path.suffix not in _OPENERS:
        return open(path, "rb")
    return io.BufferedReader(_LimitedReader(path, _OPENERS[path.suffix](path, "rb")), 2**17)


def numbered_lines(path: Path, what: str) -> Iterator[tuple[int, bytes]]:
    """Iterate over the lines of a plain or compressed file with their numbers, counted from 1."""
    with reading(path, what), open_compressed(path) as file:
        for number, line in enumerate(iter(partial(file.readline, MAX_LINE_BYTES + 1), b""), start=1):
            if len(line) > MAX_LINE_BYTES:
                raise ValueError(f"line {number} is longer than {MAX_LINE_BYTES / 1e6:,.0f} MB")
            yield number, line


def open_zip(path: Path) -> zipfile.ZipFile:
    """Open a zip archive; refuse one with unsafe paths or with entries that unpack beyond the limit."""
    require_regular(path)
    with reading(path, "a zip archive"):
        archive = zipfile.ZipFile(path)
    try:
        packed = unpacked = 0
        for entry in archive.infolist():
            if entry.filename.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", entry.filename):
                raise DatasetError(f"{path}: unsafe path in archive: {entry.filename!r}; do not use this archive")
            check_unpacked(f"{path}: {entry.filename}", entry.file_size, entry.compress_size)
            packed, unpacked = packed + entry.compress_size, unpacked + entry.file_size
        if packed > os.path.getsize(path):
            raise DatasetError(f"{path}: entries overlap or are cut off; fetch or write the file again")
        check_unpacked(path, unpacked, packed)
    except BaseException:
        archive.close()
        raise
    return archive


def read_entry(archive: zipfile.ZipFile, name: str) -> bytes:
    """Read one entry of a zip archive."""
    with reading(f"{archive.filename}: {name}", "an entry of a zip archive"):
        return archive.read(name)


def read_npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Read shape, column order and type from the header of a .npy file."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(file)
    if version not in readers:
        raise ValueError(f"format version {version}")
    return readers[version](file)
