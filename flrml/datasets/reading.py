"""Opening raw files, and turning whatever goes wrong inside them into one clear error."""

import bz2
import errno
import gzip
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from flrml.exceptions import DatasetError

# A full disk is no fault of the file that is being read.
_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_OPENERS: dict[str, Callable[[Path, str], Any]] = {".gz": gzip.open, ".bz2": bz2.open}


@contextmanager
def reading(path: str | Path, what: str, remedy: str = "fetch or write the file again") -> Iterator[None]:
    """Any failure inside the block means that ``path`` is not readable as ``what``."""
    try:
        yield
    except DatasetError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _WRITING:
            raise
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DatasetError(f"{path}: not readable as {what} ({reason}); {remedy}") from error


def open_compressed(path: Path) -> IO[bytes]:
    """Open a file for reading, through gzip or bzip2 where its name says so."""
    return _OPENERS.get(path.suffix, open)(path, "rb")


def numbered_lines(path: Path, what: str) -> Iterator[tuple[int, bytes]]:
    """Lines of a plain or compressed file with their numbers, counted from 1."""
    with reading(path, what), open_compressed(path) as file:
        yield from enumerate(file, start=1)


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive; one with an entry that climbs out of its folder is refused."""
    with reading(path, "a zip archive"):
        archive = zipfile.ZipFile(path)
    with archive:
        for name in archive.namelist():
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name.replace("\\", "/")).parts:
                raise DatasetError(f"{path}: entry {name!r} climbs out of its folder; do not use this archive")
        yield archive


def read_entry(archive: zipfile.ZipFile, name: str) -> bytes:
    """Content of one entry of a zip archive."""
    with reading(f"{archive.filename}: {name}", "an entry of a zip archive"):
        return archive.read(name)
