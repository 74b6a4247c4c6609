import os

import numpy as np
import pytest

from flrml import decompose
from flrml.datasets import prepare
from flrml.files import write_arrays, write_json
from flrml.pipeline.repair import discard_damaged


@pytest.fixture
def results(tmp_path):
    """A results folder with one file of each kind."""
    run = tmp_path / "runs/digits/flrml/seed0"
    write_json(run / "metrics.json", {"accuracy": 0.9})
    write_json(run / "training.json", {"history": [1.0]})
    write_arrays(run / "model.npz", {"metric": "cosine"}, components=np.eye(30))
    decompose(np.random.RandomState(0).rand(20, 30)).save(tmp_path / "svd/digits/plain.npz")
    (tmp_path / "triplets/digits").mkdir(parents=True)
    np.save(tmp_path / "triplets/digits/seed0.npy", np.arange(30).reshape(10, 3))
    prepare("digits", tmp_path / "data/digits", options={"max_train": 50, "max_test": 20})
    return tmp_path


FILES = [
    "runs/digits/flrml/seed0/metrics.json",
    "runs/digits/flrml/seed0/training.json",
    "runs/digits/flrml/seed0/model.npz",
    "svd/digits/plain.npz",
    "triplets/digits/seed0.npy",
]


def test_whole_files_stay(results):
    before = sorted(results.rglob("*"))
    assert discard_damaged(results) == []
    assert sorted(results.rglob("*")) == before


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_an_empty_or_truncated_file_is_named_and_deleted_alone(results, name, share):
    path = results / name
    os.truncate(path, int(share * path.stat().st_size))
    (line,) = discard_damaged(results)
    assert str(path) in line
    assert not path.exists()
    assert all((results / other).exists() for other in FILES if other != name)


@pytest.mark.parametrize("name", ["meta.json", "train/y.npy", "train/X.npy"])
def test_a_damaged_data_set_is_named_and_made_again(results, name):
    os.truncate(results / "data/digits" / name, 0)
    (line,) = discard_damaged(results)
    assert "data/digits" in line
    assert not (results / "data/digits").exists()


def test_nothing_behind_a_link_is_touched(results, tmp_path_factory):
    other = tmp_path_factory.mktemp("other") / "metrics.json"
    other.touch()
    (results / "runs/linked.json").symlink_to(other)
    assert discard_damaged(results) == []
    assert other.exists()


def test_a_missing_folder_is_nothing_to_worry_about(tmp_path):
    assert discard_damaged(tmp_path / "results") == []
