"""Real data sets, if their raw files are available."""

import numpy as np
import pytest
import scipy.sparse as sp

from flrml.datasets import REGISTRY, open_groups, open_split, paper_table, prepare
from flrml.datasets.fetch import RawFiles


def prepare_real(name, folder, out, **options):
    for argument in REGISTRY[name].arguments.values():
        files = argument if isinstance(argument, tuple) else [argument]
        if not any(hasattr(file, "name") and RawFiles(folder).find(file.name) for file in files):
            continue
        return prepare(name, out, options=options, raw_dir=folder)
    pytest.skip(f"no raw files of {name}")


def check_rows(out, split="train"):
    X, y = open_split(out / split)
    block = X[: min(200, X.shape[0])]
    block = block.toarray() if sp.issparse(block) else np.asarray(block)
    lengths = np.linalg.norm(block, axis=1)
    assert np.all((np.abs(lengths - 1) < 1e-5) | (lengths == 0))
    assert len(np.unique(y)) == y.max() + 1
    return X, y


@pytest.mark.real_data
def test_tdt2_is_the_papers(real_folder, tmp_path):
    meta = prepare_real("tdt2", real_folder, tmp_path / "out")
    assert meta["paper"]["differences"] == []
    check_rows(tmp_path / "out")


@pytest.mark.real_data
def test_mnist_is_the_papers(real_folder, tmp_path):
    meta = prepare_real("mnist", real_folder, tmp_path / "out")
    assert meta["paper"]["differences"] == []
    check_rows(tmp_path / "out", "test")


@pytest.mark.real_data
def test_ng20_with_a_hold_out_says_so(real_folder, tmp_path):
    meta = prepare_real("ng20", real_folder, tmp_path / "out", holdout=0.2)
    (row,) = paper_table([meta])
    assert (row["D"], row["n"], row["n_test"], row["classes"]) == (62_061, 12_748, 3_187, 20)
    assert "n_test: paper 3,993, here 3,187 (holdout: 0.2)" in row["differences"]
    check_rows(tmp_path / "out")


@pytest.mark.real_data
def test_m10_from_grids_keeps_the_poses_of_a_model_together(real_folder, tmp_path):
    if RawFiles(real_folder).find("modelnet10_32.npz") is None:
        pytest.skip("no grids of ModelNet10")
    options = {"max_train": 600, "max_test": 240}
    meta = prepare("m10-16", tmp_path / "out", options=options, raw_dir=real_folder)
    assert meta["splits"]["train"]["shape"] == [600, 4096]
    assert "n: paper 47,892, here 600 (max_train: 600, max_test: 240)" in meta["paper"]["differences"]
    groups = open_groups(tmp_path / "out/train")
    _, y = check_rows(tmp_path / "out")
    assert np.bincount(groups)[np.unique(groups)].tolist() == [12] * 50
    assert all(len(np.unique(y[groups == group])) == 1 for group in np.unique(groups))


@pytest.mark.parametrize(
    ("name", "shape", "n_test", "classes"),
    [
        ("r8", [5_485, 19_982], 2_189, 8),
        ("r52", [6_532, 22_274], 2_568, 52),
        ("newsgroups", [11_293, 73_712], 7_528, 20),
        ("mnist5k", [4_000, 784], 1_000, 10),
    ],
)
def test_data_in_wheels(wheel_folder, tmp_path, name, shape, n_test, classes):
    folder = wheel_folder(REGISTRY[name].arguments["wheel"])
    meta = prepare(name, tmp_path / "out", raw_dir=folder)
    assert meta["splits"]["train"]["shape"] == shape
    assert meta["splits"]["test"]["shape"] == [n_test, shape[1]]
    assert meta["n_classes"] == classes
    assert meta["empty_rows"] == 0
    check_rows(tmp_path / "out")
