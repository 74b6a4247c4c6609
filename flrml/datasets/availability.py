"""Tell which data sets lack raw files, before any of them is prepared."""

import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import cache
from typing import Any

from flrml.datasets.fetch import RawFiles, RemoteFile
from flrml.datasets.options import resolve
from flrml.datasets.registry import find_dataset

SECONDS = 5  # that an address has to answer


def missing_files(name: str, raw_dir: Any = None, options: Mapping[str, Any] | None = None) -> list[str]:
    """Return the raw files that a data set lacks: those that can neither be found nor fetched.

    Of several alternatives the one that lacks least is reported; nothing is missing if one is complete. The user's
    own data and those in wheels are not checked.

    Parameters
    ----------
    name : str
        Name of the data set.
    raw_dir : path, optional
        Folder that is searched for raw files.
    options : mapping, optional
        Its options; with ``holdout``, files of the test part are not needed.
    """
    dataset, raw = find_dataset(name, options), RawFiles(raw_dir)
    held_out = resolve(name, dataset.options, options)["holdout"] is not None
    lacking: list[list[str]] = []
    for files in dataset.raw:
        needed = [file for file in files if not (held_out and isinstance(file, RemoteFile) and file.test_part)]
        absent = [file for file in needed if raw.find(file if isinstance(file, str) else file.name) is None]
        if not absent:
            return []
        lacking.append([file if isinstance(file, str) else file.name for file in absent if not _can_fetch(file)])
    return min(lacking, key=len, default=[])


def _can_fetch(file: RemoteFile | str) -> bool:
    return isinstance(file, RemoteFile) and answers(file.url)


@cache
def answers(url: str) -> bool:
    """Return whether an address answers within a few seconds that it has the file."""
    request = urllib.request.Request(url, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=SECONDS):
            return True
    except urllib.error.HTTPError as error:
        return error.code == 405  # no answer to HEAD, though perhaps to GET
    except OSError:
        return False
