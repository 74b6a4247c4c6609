"""The command that predicts raw files."""

import gzip
import shutil

import mlflow
import numpy as np
import pandas as pd
import pytest

from flrml.datasets import open_names
from flrml.files import read_json, write_json
from flrml.pipeline.__main__ import main
from tests.pipeline.kinds import KINDS, run_of
from tests.workflow.project import ROOT

FILES = [kind for kind in KINDS if kind not in ("digits", "shapes")]


def predict(*arguments):
    return main("predict", *arguments)


def predictions(results, kind):
    return pd.read_csv(results.results / run_of(kind) / "predictions.csv", dtype=str)["predicted"].tolist()


@pytest.mark.parametrize("kind", FILES)
def test_files_of_every_kind_give_the_evaluated_classes(trained_kinds, kind, tmp_path, capsys):
    results, kinds = trained_kinds
    new = results.results.parent / kind / kinds[kind].file
    assert predict(str(results.results / run_of(kind)), str(new), str(tmp_path / "out.csv")) == 0
    assert f"{tmp_path / 'out.csv'}: classes of" in capsys.readouterr().out
    found = pd.read_csv(tmp_path / "out.csv", dtype={"class": str})
    expected = predictions(results, kind)
    assert found["class"].tolist() == expected
    assert found["share"].between(1 / 3, 1).all()
    assert {"row", "neighbor_3", "class_3", "similarity_3"} <= set(found.columns)
    first = {"table": 2, "text": 2, "image": "digit 0/011.png"}.get(kind, 0)
    assert found["row"][0] == first if kind != "image" else found["row"].is_monotonic_increasing


@pytest.mark.parametrize("kind", ["table", "text", "svmlight"])
def test_compressed_files_give_the_same(trained_kinds, kind, tmp_path):
    results, kinds = trained_kinds
    new = tmp_path / f"{kinds[kind].file}.gz"
    new.write_bytes(gzip.compress((results.results.parent / kind / kinds[kind].file).read_bytes()))
    assert predict(str(results.results / run_of(kind)), str(new), str(tmp_path / "out.csv")) == 0
    found = pd.read_csv(tmp_path / "out.csv", dtype={"class": str})
    assert found["class"].tolist() == predictions(results, kind)


def test_a_logged_model_predicts_as_the_run_does(trained_kinds, tmp_path, monkeypatch):
    results, kinds = trained_kinds
    monkeypatch.setenv("MLFLOW_TRACKING_URI", results.config["tracking_uri"])
    (run,) = results.runs("table/*")
    new = str(results.results.parent / "table" / kinds["table"].file)
    address = f"models:/{run.outputs.model_outputs[0].model_id}"
    places = {"run": str(results.results / run_of("table")), "address": address}
    places["folder"] = mlflow.artifacts.download_artifacts(address, dst_path=str(tmp_path / "model"))
    for name, place in places.items():
        assert predict(place, new, str(tmp_path / f"{name}.csv")) == 0
    assert len({(tmp_path / f"{name}.csv").read_bytes() for name in places}) == 1


def test_neighbours_are_named_and_near(trained_kinds, tmp_path):
    results, _ = trained_kinds
    train = results.results.parent / "table" / "train.csv"
    assert predict(str(results.results / run_of("table")), str(train), str(tmp_path / "out.csv")) == 0
    found, given = pd.read_csv(tmp_path / "out.csv"), pd.read_csv(train)
    names = open_names(results.results / "data/table/train")
    np.testing.assert_array_equal(names, given["plant"])
    same = found["neighbor_1"].to_numpy() == names
    assert same.mean() > 0.95  # training rows find themselves, or a copy
    assert found["similarity_1"].abs().max() < 1e-2


@pytest.mark.parametrize(("kind", "name"), [("text", "lines.txt"), ("text", "folder")])
def test_texts_come_from_lines_or_files(trained_kinds, tmp_path, kind, name):
    results, kinds = trained_kinds
    texts = kinds[kind].raw
    if name == "folder":
        for number, text in enumerate(texts):
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / f"{number:03}.txt").write_text(text)
    else:
        (tmp_path / name).write_text("\n\n".join(texts))
    assert predict(str(results.results / run_of(kind)), str(tmp_path / name), str(tmp_path / "out.csv")) == 0
    found = pd.read_csv(tmp_path / "out.csv")
    assert found["class"].tolist() == predictions(results, kind)
    assert found["row"][1] == ("001.txt" if name == "folder" else 3)


def write(path, text):
    path.write_text(text)
    return path


BAD = {
    "nothing": ("table", lambda folder: folder / "absent.csv", "absent.csv: no such file or folder"),
    "a text for a table": ("table", lambda folder: write(folder / "a.txt", "x"), "takes a table; give a file that"),
    "a column is missing": (
        "table",
        lambda folder: write(folder / "a.csv", "height,garden\n50,north\n"),
        "a.csv: no column 'sepal_length'",
    ),
    "no number": (
        "table",
        lambda folder: write(
            folder / "a.csv",
            "height,garden,sepal_length,sepal_width,petal_length,petal_width\n50,north,1,2,3,4\n50,north,x,2,3,4\n",
        ),
        "a.csv: row 3, column 'sepal_length': 'x' is not a finite number",
    ),
    "no rows": ("table", lambda folder: write(folder / "a.csv", "height,garden\n"), "a.csv: no rows"),
    "no text column": ("text", lambda folder: write(folder / "a.csv", "title\nhello\n"), "no column 'body'"),
    "an empty folder": ("image", lambda folder: (folder / "new").mkdir() or folder / "new", "the folder is empty"),
    "no image": ("image", lambda folder: write(folder / "a.png", "no image"), "a.png: not readable as an image"),
    "a table for rows": ("embeddings", lambda folder: write(folder / "a.csv", "a\n1\n"), "takes rows of numbers"),
    "no array": (
        "embeddings",
        lambda folder: write(folder / "a.npy", "no array"),
        "a.npy: not readable as an array",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(trained_kinds, tmp_path, capsys, case):
    results, _ = trained_kinds
    kind, make, words = BAD[case]
    assert predict(str(results.results / run_of(kind)), str(make(tmp_path)), str(tmp_path / "out.csv")) == 1
    line = capsys.readouterr().err
    assert words in line
    assert line.count("\n") == 1
    assert not (tmp_path / "out.csv").exists()


def test_bad_models_are_one_line(trained_kinds, tmp_path, capsys, monkeypatch):
    results, kinds = trained_kinds
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", results.config["tracking_uri"])
    new = str(results.results.parent / "table" / kinds["table"].file)
    results.results.parent.joinpath("copy").mkdir()
    run = results.results.parent / "copy" / run_of("table")
    shutil.copytree(results.results / run_of("table"), run)
    shutil.copytree(results.results / "data/table", results.results.parent / "copy/data/table")
    metrics = read_json(run / "metrics.json")
    lines = {}
    for name, place in {
        "a folder": tmp_path,
        "absent": "runs/x",
        "MLflow": "models:/m-none",
        "nothing": "",
    }.items():
        assert predict(str(place), new, "out.csv") == 1
        lines[name] = capsys.readouterr().err
    changed = {"data": {"train": {"digest": "other"}}}
    for name, change in {"other data": changed, "failed": {"outcome": "T", "reason": "too slow"}}.items():
        write_json(run / "metrics.json", metrics | change)
        assert predict(str(run), new, "out.csv") == 1
        lines[name] = capsys.readouterr().err
    expected = {
        "a folder": "neither a run",
        "absent": "runs/x: neither a run",
        "MLflow": "m-none",
        "nothing": "give all three: make predict MODEL=",
        "other data": "prepared anew",
        "failed": "ended with T: too slow",
    }
    for name, words in expected.items():
        assert words in lines[name]
        assert lines[name].count("\n") == 1
    assert not (tmp_path / "out.csv").exists()


def test_the_target_of_the_makefile_calls_the_command():
    recipe = (ROOT / "Makefile").read_text().split("predict: ")[1].splitlines()[1]
    assert recipe.endswith('-m flrml.pipeline predict "$(MODEL)" "$(INPUT)" "$(OUTPUT)"')
