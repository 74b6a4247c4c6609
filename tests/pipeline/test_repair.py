import os

import numpy as np
import pytest

from flrml import decompose
from flrml.datasets import prepare
from flrml.files import write_arrays, write_json
from flrml.pipeline.repair import set_aside_damaged

FILES = [
    "runs/digits/flrml/seed0/metrics.json",
    "runs/digits/flrml/seed0/training.json",
    "runs/digits/flrml/seed0/model.npz",
    "svd/digits/plain.npz",
    "triplets/digits/seed0.npy",
    "data/digits/meta.json",
]


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


def look(results):
    return set_aside_damaged(results, [results / name for name in FILES])


def content(folder):
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_whole_files_stay(results):
    before = content(results)
    assert look(results) == {}
    assert content(results) == before


@pytest.mark.parametrize("name", FILES[:-1])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_an_empty_or_truncated_file_is_named_and_only_it_is_set_aside(results, name, share):
    path = results / name
    os.truncate(path, int(share * path.stat().st_size))
    rest = path.read_bytes()
    damaged = look(results)
    assert list(damaged) == [str(path)]
    assert damaged[str(path)].startswith(f"{path} is damaged")
    assert not path.exists()
    assert path.with_name(f"{path.name}.damaged").read_bytes() == rest
    assert all((results / other).exists() for other in FILES if other != name)


@pytest.mark.parametrize("name", ["meta.json", "train/y.npy", "train/X.npy"])
def test_a_damaged_data_set_is_set_aside_as_a_whole(results, name):
    os.truncate(results / "data/digits" / name, 0)
    assert list(look(results)) == [str(results / "data/digits/meta.json")]
    assert not (results / "data/digits").exists()
    assert (results / "data/digits.damaged/train/y.npy").exists()


def test_damage_after_damage_loses_nothing(results):
    path = results / FILES[0]
    for text in ("first", "second"):
        path.write_text(text)
        look(results)
    assert path.with_name("metrics.json.damaged").read_text() == "first"
    assert path.with_name("metrics.json.1.damaged").read_text() == "second"


def test_files_of_others_are_not_touched(results):
    """Neither files that the configuration does not name, nor a folder that flrml did not write."""
    (results / "data/mine").mkdir()
    (results / "data/mine/meta.json").write_text('{"a": 1}')
    (results / "data/mine/precious.txt").write_text("precious")
    np.save(results / "runs/objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    (results / "runs/broken.json").write_text("{")
    before = content(results)
    assert set_aside_damaged(results, [*(results / name for name in FILES), results / "data/mine/meta.json"]) == {}
    assert content(results) == before


@pytest.mark.parametrize("linked", ["runs/digits/flrml/seed0/metrics.json", "runs/digits", "runs"])
def test_nothing_behind_a_link_is_touched(results, tmp_path_factory, linked):
    other = tmp_path_factory.mktemp("other") / "elsewhere"
    (results / linked).rename(other)
    (results / linked).symlink_to(other)
    (results / FILES[0]).write_text("{")
    assert look(results) == {}
    assert (results / FILES[0]).read_text() == "{"


def test_a_missing_folder_is_nothing_to_worry_about(tmp_path):
    assert look(tmp_path / "results") == {}
