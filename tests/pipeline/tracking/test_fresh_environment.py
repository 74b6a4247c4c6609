"""A logged model in an environment of its own: the wheel of this working copy and MLflow, nothing else."""

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from urllib.parse import urlparse

import numpy as np
import pytest

from flrml.datasets import open_split, prepare
from flrml.pipeline.stages.draw_triplets import draw_for_dataset
from flrml.pipeline.stages.evaluate import evaluate
from flrml.pipeline.stages.train import train
from flrml.pipeline.tracking.models import EXAMPLE_ROWS
from tests.pipeline.tracked import TRAINING, Folder

ROOT = Path(__file__).parents[3]
PREDICT = (
    "import json, sys, mlflow\n"
    "model = mlflow.pyfunc.load_model(sys.argv[1])\n"
    "print(json.dumps([int(label) for label in model.predict(model.input_example)]))\n"
)


def log_one_model(folder):
    """Train a method on digits and log it; return the folder of the model and the classes of its example."""
    data, place = folder / "results/data/digits", folder / "results" / TRAINING
    prepare("digits", data, options={"max_train": 200, "max_test": 50})
    draw_for_dataset(data, folder / "triplets.npy", n_triplets=5, seed=0)
    run = {"dataset": "digits", "method": "mflrml", "seed": 0, "parameters": {"n_components": 10}}
    limits = {"minutes": 1, "memory_mb": 3000}
    train(place, data=data, triplets=folder / "triplets.npy", spectrum=None, run=run, limits=limits)
    evaluate(place, data=data)
    results = Folder(folder / "results", f"sqlite:///{folder}/mlflow.db")
    results.config["n_neighbors"] = 1
    results.ask(TRAINING)
    results.sync()
    model = results.client.get_logged_model(results.runs()[0].outputs.model_outputs[0].model_id)
    _, y = open_split(data / "train")
    return Path(urlparse(model.artifact_location).path), np.array(y[:EXAMPLE_ROWS])


@pytest.mark.slow
def test_a_model_predicts_where_nothing_but_the_wheel_and_mlflow_is_installed(tmp_path):
    logged, expected = log_one_model(tmp_path)
    shutil.copytree(logged, tmp_path / "elsewhere" / "model")
    shutil.rmtree(logged)
    requirements = (tmp_path / "elsewhere" / "model" / "requirements.txt").read_text().split()
    (wanted,) = (line for line in requirements if line.startswith("flrml=="))
    others = [line for line in requirements if not line.startswith("flrml==")]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    source = tmp_path / "source"
    shutil.copytree(
        ROOT, source, ignore=shutil.ignore_patterns(".*", "results", "mlartifacts", "raw"), symlinks=True
    )
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(tmp_path / "wheel"), str(source)], check=True)
    (wheel,) = (tmp_path / "wheel").glob("flrml-*.whl")
    assert wheel.name.startswith(wanted.replace("==", "-"))
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    install = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", str(wheel), *others]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([*install, "mlflow>=3.17,<3.18"], check=True, env=environment)
    done = subprocess.run(
        [python, "-c", PREDICT, "model"],
        cwd=tmp_path / "elsewhere",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # With one neighbour, example rows, which are training rows, find themselves.
    assert json.loads(done.stdout) == expected.tolist()
