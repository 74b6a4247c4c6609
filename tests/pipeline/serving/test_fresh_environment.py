"""Logged models of every kind in an environment of their own: the wheel of this working copy and MLflow."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
import venv
from pathlib import Path
from urllib.parse import urlparse

import pandas as pd
import pytest

from tests.pipeline.kinds import as_json, run_of, train_kinds
from tests.pipeline.server import free_port, serving

ROOT = Path(__file__).parents[3]
PREDICT = """
import json, sys, mlflow
answers = {}
for kind, inputs in json.load(sys.stdin).items():
    model = mlflow.pyfunc.load_model(kind)
    answers[kind] = [model.predict(inputs).tolist(), len(model.predict(model.input_example))]
print(json.dumps(answers))
"""


def copy_models(results, elsewhere):
    """Move the logged models of all kinds to another place; return the union of their requirements."""
    requirements = set()
    for run in (run for run in results.runs("*") if run.outputs.model_outputs):
        model = results.client.get_logged_model(run.outputs.model_outputs[0].model_id)
        place = elsewhere / run.data.tags["dataset"]
        shutil.move(urlparse(model.artifact_location).path, place)
        requirements |= set((place / "requirements.txt").read_text().split())
    return requirements


def make_environment(folder, requirements):
    """Install the wheel of this working copy and the other requirements; return the folder of the programs."""
    (wanted,) = (line for line in requirements if line.startswith("flrml=="))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    source = folder / "source"
    shutil.copytree(
        ROOT, source, ignore=shutil.ignore_patterns(".*", "results", "mlartifacts", "raw"), symlinks=True
    )
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(folder / "wheel"), str(source)], check=True)
    (wheel,) = (folder / "wheel").glob("flrml-*.whl")
    assert wheel.name.startswith(wanted.replace("==", "-"))
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / "bin"
    install = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*install, str(wheel), *(requirements - {wanted})], check=True)
    return programs


@pytest.mark.slow
def test_models_predict_and_are_served_where_nothing_but_their_requirements_is_installed(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    results, kinds = train_kinds(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    programs = make_environment(tmp_path, copy_models(results, elsewhere))
    inputs = {name: as_json(kind.raw)[:5] for name, kind in kinds.items()}
    expected = {
        name: pd.read_csv(results.results / run_of(name) / "predictions.csv", dtype=str)["predicted"][:5].tolist()
        for name in kinds
    }
    command = [str(programs / "python"), "-c", PREDICT]
    options = {"cwd": elsewhere, "capture_output": True, "text": True, "check": False}
    done = subprocess.run(command, input=json.dumps(inputs), **options)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {name: [rows, 1] for name, rows in expected.items()}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    for name in kinds:
        port = free_port()
        serve = [str(programs / "mlflow"), "models", "serve", "-m", name, "-p", port, "--env-manager", "local"]
        frame = pd.DataFrame({"body": inputs[name]} if name in ("text", "image") else inputs[name])
        forms = {"inputs": inputs[name], "dataframe_split": frame.to_dict("split")}
        with serving(serve, elsewhere, port, PATH=path) as address:
            for form, content in forms.items():
                request = urllib.request.Request(
                    f"{address}/invocations",
                    json.dumps({form: content, "params": {"output": "class"}}).encode(),
                    {"Content-Type": "application/json"},
                )
                with urllib.request.urlopen(request, timeout=60) as answer:
                    assert json.load(answer) == {"predictions": expected[name]}
