"""Damaged prepared data sets: refused by name before anything compiled reads them."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from flrml.datasets import load_meta, open_groups, open_split, prepare
from flrml.datasets.store import verify
from flrml.exceptions import DatasetError
from flrml.files import read_json, write_json

LAYOUTS = {
    "dense": ("digits", {"max_train": 200, "max_test": 50}),
    "csr": ("mine", {"train": "a.svm", "holdout": 0.3}),
    "binary": ("shapes10-16", {"models": [1, 1], "poses": 2}),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """One prepared data set per layout."""
    folder = tmp_path_factory.mktemp("sound")
    rng = np.random.default_rng(0)
    lines = [f"{i % 3} " + " ".join(f"{c}:{rng.random():.3f}" for c in range(1 + i % 4, 30, 3)) for i in range(40)]
    (folder / "a.svm").write_text("\n".join(lines))
    for layout, (name, options) in LAYOUTS.items():
        meta = prepare(name, folder / layout, options=options, raw_dir=folder)
        assert meta["splits"]["train"]["layout"] == layout
    return folder


@pytest.fixture
def copy(sound, tmp_path):
    """Function that copies a prepared data set."""

    def make(layout):
        return shutil.copytree(sound / layout, tmp_path / layout)

    return make


def alter(path, change):
    """Change the values of an array in its file, with the header as it is."""
    array = np.load(path, mmap_mode="r+")
    change(array)
    array.flush()


def put(index, value):
    def change(array):
        array.reshape(-1)[index] = value

    return change


DAMAGE = [
    ("csr", "indices.npy", put(3, 10**6)),
    ("csr", "indices.npy", put(-1, -1)),
    ("csr", "indptr.npy", put(2, 10**9)),
    ("csr", "indptr.npy", put(2, 0)),
    ("csr", "indptr.npy", put(0, 1)),
    ("csr", "indptr.npy", put(-1, 1)),
    ("csr", "values.npy", put(5, np.nan)),
    ("csr", "values.npy", put(5, -np.inf)),
    ("csr", "y.npy", put(0, 3)),
    ("binary", "indices.npy", put(0, 4096)),
    ("binary", "indptr.npy", put(1, -5)),
    ("binary", "groups.npy", put(0, -1)),
    ("dense", "X.npy", put(77, np.nan)),
    ("dense", "X.npy", put(-1, np.inf)),
    ("dense", "y.npy", put(4, -1)),
]


@pytest.mark.parametrize(("layout", "file", "change"), DAMAGE)
def test_values_out_of_bounds_are_refused_by_name(copy, layout, file, change):
    folder = copy(layout)
    verify(folder)
    alter(folder / "train" / file, change)
    with pytest.raises(DatasetError, match=r"train.*prepare the data set again") as caught:
        verify(folder)
    assert file in str(caught.value) or "meta.json" in str(caught.value)
    with pytest.raises(DatasetError):
        (open_groups if file == "groups.npy" else open_split)(folder / "train")


def test_an_index_out_of_range_does_not_crash_the_process(copy):
    folder = copy("csr")
    alter(folder / "train/indices.npy", put(slice(None), 2**31 - 1))
    script = f"""
import numpy as np
from flrml.datasets import open_split
X, y = open_split({str(folder / "train")!r})
X.T @ np.ones((X.shape[0], 100))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1  # a crash gives the negative number of its signal
    assert "DatasetError" in done.stderr
    assert "indices.npy" in done.stderr


@pytest.mark.parametrize("size", [0, 5, 100, -8])
@pytest.mark.parametrize(("layout", "file"), [("dense", "X.npy"), ("csr", "indices.npy"), ("binary", "y.npy")])
def test_truncated_arrays_are_refused_by_name(copy, layout, file, size):
    path = copy(layout) / "train" / file
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(DatasetError, match=rf"{file}.*prepare the data set again"):
        open_split(path.parent)


@pytest.mark.parametrize("array", [np.zeros(3, "U4"), np.zeros((2, 2), np.int64), np.zeros(3, ">i8"), np.zeros(3)])
def test_arrays_of_another_type_are_refused_by_name(copy, array):
    folder = copy("dense")
    np.save(folder / "train/y.npy", array)
    with pytest.raises(DatasetError, match=r"y\.npy: unexpected type"):
        open_split(folder / "train")


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "{}", "null", '{"format_version": 1}', "\x00\x00"])
def test_a_damaged_description_is_refused_by_name(copy, content):
    folder = copy("dense")
    (folder / "meta.json").write_text(content)
    for call in (verify, lambda path: open_split(path / "train"), lambda path: open_groups(path / "train")):
        with pytest.raises(DatasetError, match=r"prepare (it|the data set) again") as caught:
            call(folder)
        assert "meta.json" in str(caught.value) or "train" in str(caught.value)


def test_another_number_of_columns_is_refused(copy):
    folder = copy("csr")
    meta = read_json(folder / "meta.json")
    meta["splits"]["train"]["shape"][1] = 10**9
    write_json(folder / "meta.json", meta)
    with pytest.raises(DatasetError, match=r"train: the arrays do not match meta\.json"):
        open_split(folder / "train")


def test_a_missing_array_is_refused_by_name(copy):
    folder = copy("binary")
    (folder / "test/groups.npy").unlink()
    with pytest.raises(DatasetError, match=r"groups\.npy"):
        verify(folder)
    with pytest.raises(DatasetError, match="prepare it first"):
        load_meta(folder / "train")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_digests_are_those_of_the_values(sound, layout):
    for split, described in load_meta(sound / layout)["splits"].items():
        arrays = {path.stem: np.load(path) for path in (sound / layout / split).glob("*.npy")}
        found = {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in arrays.items()}
        assert described["sha256"] == found


def test_a_pipe_in_place_of_an_array_is_refused_at_once(copy):
    folder = copy("dense")
    for file in ("train/X.npy", "meta.json"):
        (folder / file).unlink()
        os.mkfifo(folder / file)
        with pytest.raises(DatasetError, match="named pipe"):
            open_split(folder / "train")


def settle(folder):
    """Make the files look older than the resolution of timestamps."""
    for path in folder.rglob("*.npy"):
        os.utime(path, ns=(0, path.stat().st_mtime_ns - 5 * 10**9))


def count_reads(monkeypatch):
    calls = []
    read = np.fromfile
    monkeypatch.setattr(np, "fromfile", lambda file, *rest: calls.append(Path(file.name).name) or read(file, *rest))
    return calls


def test_a_file_is_checked_once_per_process_and_version(copy, monkeypatch):
    folder = copy("dense")
    settle(folder)
    calls = count_reads(monkeypatch)
    for _ in range(3):
        open_split(folder / "train")
    assert sorted(calls) == ["X.npy", "X.npy", "y.npy", "y.npy"]  # the second block of each is empty
    alter(folder / "train/X.npy", put(0, np.nan))
    with pytest.raises(DatasetError, match=r"X\.npy"):
        open_split(folder / "train")
