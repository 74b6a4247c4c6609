import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from flrml.datasets import load_meta, open_groups, open_split, store
from flrml.datasets.meta import describe
from flrml.exceptions import DatasetError
from flrml.files import write_json
from flrml.rows.binary import BinaryRows, RunRows


def write(out, X, y, layout, groups=None, step=3):
    with store.dataset_folder(out) as folder:
        with store.SplitWriter(folder / "train", layout, X.shape[1]) as writer:
            for start in range(0, X.shape[0], step):
                writer.append(X[start : start + step])
            split = writer.finish(y, groups)
        meta = describe("set", range(100), {"train": split}, kind="own", source="a test")
        write_json(folder / "meta.json", meta)
    return split


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(X=hnp.arrays(np.float32, st.tuples(st.integers(1, 9), st.integers(1, 6)), elements=st.integers(0, 2)))
def test_a_split_comes_back_as_it_was_written(tmp_path, X):
    y = np.arange(len(X))
    for layout in ("dense", "csr"):
        split = write(tmp_path / "set", X if layout == "dense" else sp.csr_matrix(X), y, layout)
        back, labels = open_split(tmp_path / "set" / "train")
        np.testing.assert_array_equal(back if layout == "dense" else back.toarray(), X)
        np.testing.assert_array_equal(labels, y)
        assert split["nnz"] == np.count_nonzero(X)
        assert split["empty_rows"] == np.sum(~X.any(axis=1))


def test_binary_rows_need_no_values(tmp_path):
    X = sp.csr_matrix(np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0]], dtype=bool))
    write(tmp_path / "set", X, np.zeros(3), "binary", groups=np.array([4, 4, 5]))
    back, _ = open_split(tmp_path / "set" / "train")
    assert isinstance(back, BinaryRows)
    assert not (tmp_path / "set/train/values.npy").exists()
    np.testing.assert_allclose(back[:].toarray(), X.toarray() / np.sqrt([[2], [1], [1]]), rtol=1e-6)
    np.testing.assert_array_equal(open_groups(tmp_path / "set/train"), [4, 4, 5])


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(ones=hnp.arrays(bool, st.tuples(st.integers(1, 7), st.integers(1, 450))), step=st.integers(1, 4))
def test_rows_come_back_from_runs_as_they_were_written(tmp_path, ones, step):
    X = sp.csr_matrix(ones)
    split = write(tmp_path / "set", X, np.arange(len(ones)), "runs", step=step)
    back, _ = open_split(tmp_path / "set" / "train")
    assert isinstance(back, RunRows)
    assert isinstance(back.stored, np.memmap)
    np.testing.assert_array_equal(back[:].toarray() > 0, ones)
    assert back.nnz == split["nnz"] == ones.sum()
    assert split["n_runs"] == len(back.stored)
    store.verify(tmp_path / "set")


def test_runs_are_refused_by_name_if_one_leaves_the_columns(tmp_path):
    X = sp.csr_matrix(np.ones((3, 500), dtype=bool))
    write(tmp_path / "set", X, np.zeros(3), "runs")
    file = tmp_path / "set/train/runs.npy"
    runs = np.load(file)
    runs[4] = 256 * 450 + 100
    np.save(file, runs)
    with pytest.raises(DatasetError, match=r"runs\.npy: damaged, a value is not a run .* prepare"):
        open_split(tmp_path / "set/train")


@pytest.mark.parametrize("change", [lambda runs: runs[:-1], lambda runs: runs.astype(np.int64)])
def test_runs_of_another_number_or_type_are_refused(tmp_path, change):
    write(tmp_path / "set", sp.csr_matrix(np.ones((3, 500), dtype=bool)), np.zeros(3), "runs")
    file = tmp_path / "set/train/runs.npy"
    np.save(file, change(np.load(file)))
    with pytest.raises(DatasetError, match="prepare the data set again"):
        open_split(tmp_path / "set/train")


def test_a_layout_of_another_version_is_refused_by_name(tmp_path):
    write(tmp_path / "set", np.eye(3, dtype=np.float32), np.zeros(3), "dense")
    meta = load_meta(tmp_path / "set")
    meta["splits"]["train"]["layout"] = "bits"
    write_json(tmp_path / "set/meta.json", meta)
    with pytest.raises(DatasetError, match="unknown layout 'bits'; prepare the data set again"):
        open_split(tmp_path / "set/train")


def test_more_columns_than_runs_can_number_are_kept_one_by_one(tmp_path):
    X = sp.csr_matrix((np.ones(2, dtype=bool), [5, 2**24 + 3], [0, 2]), shape=(1, 2**24 + 4))
    split = write(tmp_path / "set", X, np.zeros(1), "runs")
    assert split["layout"] == "binary"
    back, _ = open_split(tmp_path / "set/train")
    assert back[:].indices.tolist() == [5, 2**24 + 3]


def test_arrays_stay_on_disk(tmp_path):
    X = sp.random(50, 40, 0.2, format="csr", dtype=np.float32, rng=0)
    write(tmp_path / "set", X, np.zeros(50), "csr")
    back, y = open_split(tmp_path / "set/train")
    assert isinstance(back.data, np.memmap)
    assert isinstance(back.indices, np.memmap)
    assert isinstance(y, np.memmap)
    assert open_groups(tmp_path / "set/train") is None
    assert (back @ np.ones(40) == X @ np.ones(40)).all()


def test_the_fingerprint_follows_the_content(tmp_path):
    X = np.eye(4, dtype=np.float32)
    same = [write(tmp_path / "set", X, np.arange(4), "dense", step=step)["fingerprint"] for step in (1, 4)]
    assert same[0] == same[1]
    changed = X.copy()
    changed[0, 1] = 1e-6
    assert write(tmp_path / "set", changed, np.arange(4), "dense")["fingerprint"] != same[0]
    assert write(tmp_path / "set", X, np.arange(4)[::-1], "dense")["fingerprint"] != same[0]


def test_more_entries_than_int32_counts_get_wide_indices(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MAX_INT32", 10)
    X = sp.random(9, 7, 0.5, format="csr", dtype=np.float32, rng=0)
    write(tmp_path / "set", X, np.zeros(9), "csr")
    back, _ = open_split(tmp_path / "set/train")
    assert back.indices.dtype == back.indptr.dtype == np.int64
    assert isinstance(back.indices, np.memmap)
    np.testing.assert_array_equal(back.toarray(), X.toarray())


def test_a_failure_leaves_what_was_there(tmp_path):
    write(tmp_path / "set", np.eye(2, dtype=np.float32), np.arange(2), "dense")
    with pytest.raises(DatasetError), store.dataset_folder(tmp_path / "set") as folder:
        store.SplitWriter(folder / "train", "dense", 2).finish(np.arange(3))
    assert os.listdir(tmp_path) == ["set"]
    assert open_split(tmp_path / "set/train")[0].shape == (2, 2)


def run(script, folder):
    command = [sys.executable, "-c", textwrap.dedent(script)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)


def test_files_that_do_not_match_meta_json_are_refused(tmp_path):
    write(tmp_path / "set", np.eye(9, dtype=np.float32), np.arange(9), "dense")
    np.save(tmp_path / "set/train/y.npy", np.arange(8))
    with pytest.raises(DatasetError, match=r"meta\.json"):
        open_split(tmp_path / "set/train")
    with pytest.raises(DatasetError, match="valid"):
        open_split(tmp_path / "set/valid")
    write_json(tmp_path / "set/meta.json", {"format_version": 99})
    with pytest.raises(DatasetError, match="99"):
        load_meta(tmp_path / "set")
    with pytest.raises(DatasetError, match="prepare it first"):
        load_meta(tmp_path / "nothing")


def test_a_full_disk_is_one_clear_error(tmp_path):
    """The limit on file sizes stands for the full disk: the write fails in the same place."""
    script = """
        import os, resource, sys
        from flrml.datasets import prepare
        from flrml.exceptions import DatasetError
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))
        try:
            prepare("digits", "out/digits")
        except DatasetError as error:
            print(error, os.listdir("out"))
    """
    done = run(script, tmp_path)
    assert "cannot be written" in done.stdout
    assert done.stdout.rstrip().endswith("[]")


@pytest.mark.slow
def test_a_data_set_larger_than_memory_is_written_and_opened(tmp_path):
    """Two gigabytes of rows go through a process that may hold half as much memory of its own."""
    script = """
        import resource, numpy as np
        from flrml.datasets import open_split, prepare
        n, D = 500_000, 1_000
        X = np.lib.format.open_memmap("X.npy", "w+", np.float32, (n, D))
        for start in range(0, n, 10_000):
            X[start : start + 10_000] = start + 1
        np.save("y.npy", np.arange(n) % 2)
        del X
        resource.setrlimit(resource.RLIMIT_DATA, (2**30, 2**30))
        prepare("big", "big", options=dict(train="X.npy", labels="y.npy", holdout=0.1))
        X, y = open_split("big/train")
        assert X.shape == (450_000, D)
        print(X.shape)
    """
    done = run(script, tmp_path)
    assert "450000" in done.stdout
