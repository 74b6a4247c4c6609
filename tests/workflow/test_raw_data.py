"""The page on raw data: every configuration prepares and trains as written, and new input becomes the same rows."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image
from sklearn.datasets import dump_svmlight_file

from flrml import RidgeFLRML
from flrml.datasets import load_meta, open_groups, open_split, prepare
from flrml.pipeline.__main__ import main
from flrml.pipeline.config.resolve import resolve
from flrml.pipeline.serving.classifier import RawInputModel
from flrml.pipeline.stages.draw_triplets import draw_for_dataset
from flrml.pipeline.stages.evaluate import evaluate
from flrml.pipeline.stages.train import train
from tests.pipeline.server import free_port, serving
from tests.workflow.project import ROOT

PAGE = (ROOT / "docs/raw-data.md").read_text()
SCHEMA = ROOT / "workflow/schemas/config.schema.yaml"
CONFIGURATIONS = {
    next(iter(config["datasets"])): config
    for config in map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
}
N = 60
RNG = np.random.default_rng(0)
Y = np.arange(N) % 2


def wine():
    table = pd.DataFrame(RNG.normal(size=(N, 3)) * [1, 10, 1000], columns=["acid", "sugar", "price"])
    table["acid"] += 4 * Y
    table.assign(bottle=range(N), grape=np.array(["merlot", "pinot"])[Y]).to_csv("wine.csv", index=False, sep=";")
    return table[["price", "acid", "sugar"]]


def visits():
    table = pd.DataFrame({"age": RNG.normal(50, 9, N).round(), "sex": np.array(["f", "m"])[np.arange(N) // 3 % 2]})
    table["ward"] = 10 + 5 * Y
    table.loc[3, "age"] = None
    labelled = table.assign(patient=[f"p{number // 4}" for number in range(N)], diagnosis=Y)
    labelled.to_csv("visits.csv", index=False)
    return table


def questions():
    words = np.array([["where", "my", "card"], ["what", "a", "loan"]])
    texts = [" ".join(RNG.choice(words[label], 5)) for label in Y]
    pd.DataFrame({"question": texts, "topic": np.array(["card", "loan"])[Y]}).to_csv("questions.csv", index=False)
    return texts


def shapes(folder):
    images = []
    for number, label in enumerate(Y):
        pixels = RNG.integers(0, 60, (20 + number % 3, 20, 3)).astype(np.uint8)
        pixels[:, 10 * label : 10 + 10 * label] += 180
        path = folder / "shapes" / f"class{label}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
        images.append(path)
    return images


def sounds():
    X = (RNG.normal(size=(N, 8)) + 8 * Y[:, None] - 4).astype(np.float16)
    np.savez("sounds.npz", X=X, y=Y, speaker=np.arange(N) // 3, clip=[f"{number}.wav" for number in range(N)])
    return X


def letters():
    X = RNG.poisson(0.5, (N, 6)) + np.outer(Y, [20, 0, 0, 0, 0, 0])
    with gzip.open("letters.svm.gz", "wb") as file:
        dump_svmlight_file(X.astype(float), Y, file, zero_based=False)
    return X


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_kind_of_raw_input_becomes_rows_that_methods_learn_from(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make = globals()[name]
    raw = make(tmp_path) if name == "shapes" else make()
    config = resolve(CONFIGURATIONS[name], SCHEMA)
    assert config["results"] == f"results/{name}"
    folder = tmp_path / "results" / name / "data" / name
    prepare(name, folder, options=config["datasets"][name]["options"])
    X, y = open_split(folder / "train")
    X_test, y_test = open_split(folder / "test")
    model = RidgeFLRML(2, random_state=0).fit(X, y, groups=open_groups(folder / "train"))
    nearest = np.argmax(model.transform(X_test) @ np.asarray(model.transform(X)).T, axis=1)
    assert np.mean(y[nearest] == y_test) > 0.8

    found: dict = {"new": raw}
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(code.replace("wine", name), found)
    rows = found["rows"]
    prepared = [np.asarray(part.toarray() if hasattr(part, "toarray") else part) for part in (X, X_test)]
    rows = rows.toarray() if hasattr(rows, "toarray") else rows
    assert sorted(row.tobytes() for row in rows) == sorted(row.tobytes() for row in np.concatenate(prepared))


def test_examples_are_short():
    assert len(CONFIGURATIONS) == 6
    for block in re.findall(r"```\w+\n(.*?)```", PAGE, re.DOTALL):
        assert len(block.splitlines()) <= 15


def save_new(raw, name):
    """Write new raw input to a file or folder of the kind that the page names; return its path."""
    if name == "shapes":
        return "shapes"
    if isinstance(raw, list):
        raw = pd.DataFrame({"question": raw})
    if isinstance(raw, pd.DataFrame):
        raw.to_csv("new.csv", index=False)
        return "new.csv"
    if name == "sounds":
        np.save("new.npy", raw)
        return "new.npy"
    dump_svmlight_file(raw.astype(float), np.zeros(len(raw)), "new.svm", zero_based=False)
    return "new.svm"


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_trained_model_predicts_new_files(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    raw = globals()[name](tmp_path) if name == "shapes" else globals()[name]()
    config = resolve(CONFIGURATIONS[name], SCHEMA)
    folder, data = Path(f"results/{name}/runs/{name}/flrml-ridge/seed0"), Path(f"results/{name}/data/{name}")
    prepare(name, data, options=config["datasets"][name]["options"])
    draw_for_dataset(data, "triplets.npy", n_triplets=config["n_triplets"], seed=0)
    run = {"dataset": name, "method": "flrml-ridge", "seed": 0, "parameters": config["common"]}
    train(
        folder, data=data, triplets="triplets.npy", spectrum=None, run=run, limits={"minutes": 1, "memory_mb": 3000}
    )
    assert evaluate(folder, data=data, n_neighbors=config["n_neighbors"])["accuracy"] > 0.9

    (command,) = re.findall(r"make predict (MODEL=.*)", PAGE)
    words = [word.partition("=")[2] for word in command.replace("wine", name).split()]
    assert main("predict", *(save_new(raw, name) if word == "new.csv" else word for word in words)) == 0
    found = pd.read_csv("classes.csv", dtype={"class": str})
    classes = np.array(load_meta(data)["classes"])
    labels = classes[Y] if name != "shapes" else [row.split("/")[0] for row in found["row"]]
    assert np.mean(found["class"] == labels) > 0.9
    served = RawInputModel.of_results(folder / "model.npz", data, config["n_neighbors"])
    order = np.argsort([str(path) for path in raw]) if name == "shapes" else np.arange(N)
    inputs = [raw[number] for number in order] if isinstance(raw, list) else raw
    assert served.predict(inputs).tolist() == found["class"].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_commands_of_the_page_lead_from_raw_files_to_a_served_prediction(name, fresh, monkeypatch):
    monkeypatch.chdir(fresh.code)
    shutil.copy(ROOT / "Makefile", fresh.code)
    programs = Path(sys.executable).parent
    fresh.variables["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    raw = globals()[name](fresh.code) if name == "shapes" else globals()[name]()
    (text,) = re.findall(rf"```yaml\n(results: results/{name}\n.*?)```", PAGE, re.DOTALL)
    Path("mine.yaml").write_text(text)
    (trains,), (predicts,) = re.findall(r"`(snakemake .*?)`", PAGE), re.findall(r"make (predict MODEL=.*)", PAGE)
    run(trains, fresh)
    predicts = predicts.replace("wine", name).replace("new.csv", save_new(raw, name))
    run(f"make VENV={programs.parent} -o {programs.parent}/.ready {predicts}", fresh)
    found = pd.read_csv("classes.csv", dtype={"class": str})
    classes = np.array(load_meta(f"results/{name}/data/{name}")["classes"])
    labels = classes[Y] if name != "shapes" else [row.split("/")[0] for row in found["row"]]
    assert np.mean(found["class"] == labels) > 0.9
    if name != "wine":
        return
    (block,) = (block for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) if "curl" in block)
    model, port = next(Path("mlartifacts").rglob("classifier.npz")).parents[3].name, free_port()
    block = block.replace("m-…", model).replace("5001", port)
    serves, _, asks = block.partition("curl ")
    with serving(
        ["bash", "-c", serves], fresh.code, port, PATH=fresh.variables["PATH"], PYTHONPATH=str(fresh.code)
    ):
        assert json.loads(run(f"curl --silent {asks}", fresh)) == {"predictions": ["pinot"]}


def run(command, project):
    """Run a command of the page in the folder of a project; return its output."""
    options = {"cwd": project.code, "env": project.environment, "capture_output": True, "text": True}
    done = subprocess.run(["bash", "-c", command], check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_request_on_the_page_has_the_columns_of_the_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (request,) = re.findall(r"-d '(.*)'", PAGE)
    (record,) = json.loads(request)["inputs"]
    assert set(record) == set(wine().columns)
