"""The file by which a training tells how far it is."""

import json
import subprocess
import sys

import pytest

from flrml.datasets import prepare
from flrml.files import read_json
from flrml.pipeline.stages.decompose import decompose_dataset
from flrml.pipeline.stages.draw_triplets import draw_for_dataset
from flrml.pipeline.stages.evaluate import evaluate
from flrml.pipeline.stages.progress import FILE, Progress, Seen, read_progress
from flrml.pipeline.stages.sweep import sweep_point
from flrml.pipeline.stages.train import train
from tests.pipeline.tracked import in_processes

LIMITS = {"minutes": 1, "memory_mb": 3000}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    prepare("digits", folder / "digits", options={"max_train": 200, "max_test": 50})
    draw_for_dataset(folder / "digits", folder / "triplets.npy", n_triplets=5, seed=0)
    decompose_dataset(folder / "digits", folder / "svd.npz", folder / "svd.json", max_rank=30, kind="plain", seed=0)
    return folder


def lines(folder):
    return [json.loads(line) for line in (folder / FILE).read_text().splitlines()]


@pytest.mark.parametrize("method", ["flrml", "mflrml", "oasis", "frml"])
def test_a_training_reports_its_objective_as_its_history_has_it(tmp_path, inputs, method):
    run = {"dataset": "digits", "method": method, "seed": 0, "parameters": {"n_components": 10}}
    spectrum = None if method == "mflrml" else inputs / "svd.npz"
    given = {"data": inputs / "digits", "triplets": inputs / "triplets.npy", "spectrum": spectrum}
    result = train(tmp_path, **given, run=run, limits=LIMITS)
    first, *steps, last = lines(tmp_path)
    assert [first["run"][name] for name in ("dataset", "method", "started", "training")] == [
        *("digits", method, result["started"], result["training"])
    ]
    assert steps
    assert {line["step"]: line["metrics"]["objective"] for line in steps}.items() <= dict(
        enumerate(result["history"])
    ).items()
    assert last["state"] == "trained"
    evaluate(tmp_path, data=inputs / "digits")
    assert read_json(tmp_path / "metrics.json")["training"] == result["training"]
    seen = read_progress(tmp_path)
    assert (seen.alive, seen.state, len(seen.metrics)) == (False, "trained", len(steps))


@pytest.mark.parametrize(("sweep", "value"), [("margin", 0.5), ("batches", 10)])
def test_a_point_of_a_sweep_reports_each_seed(tmp_path, inputs, sweep, value):
    method = {"margin": "flrml", "batches": "mflrml"}[sweep]
    run = {"dataset": "digits", "method": method, "n_neighbors": 5, "parameters": {"n_components": 10}}
    out, spectrum = tmp_path / "point.json", inputs / "svd.npz" if method == "flrml" else None
    run |= {"sweep": sweep, "value": value, "repeats": 2}
    given = {"data": inputs / "digits", "spectrum": spectrum, "run": run, "limits": LIMITS}
    result = sweep_point(out, **given)
    first, *seeds, last = lines(tmp_path)
    assert first["run"]["training"] == result["training"]
    accuracies = {point["seed"]: point["accuracy"] for point in result["points"]}
    assert {line["step"]: line["metrics"]["accuracy_by_seed"] for line in seeds} == accuracies
    assert list(accuracies) == [0, 1]
    assert last["state"] == "trained"
    run["parameters"]["n_components"] = -1
    sweep_point(out, **given)
    assert lines(tmp_path)[-1]["state"] == "failed"
    assert "n_components" in lines(tmp_path)[-1]["reason"]


def test_a_failure_is_reported_with_its_reason(tmp_path, inputs):
    run = {"dataset": "digits", "method": "mflrml", "seed": 0, "parameters": {"n_components": -1}}
    given = {"data": inputs / "digits", "triplets": inputs / "triplets.npy", "spectrum": None}
    train(tmp_path, **given, run=run, limits=LIMITS)
    last = lines(tmp_path)[-1]
    assert last["state"] == "failed"
    assert "n_components" in last["reason"]


def test_a_new_training_starts_a_new_file_while_an_earlier_one_still_lives(tmp_path):
    with Progress(tmp_path, {"training": "first"}) as first:
        with Progress(tmp_path, {"training": "second"}):
            first.metrics(0, objective=1.0)
            assert read_progress(tmp_path) == Seen(True, {"training": "second"}, [])
        assert read_progress(tmp_path).alive is False
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_lines_of_processes_that_write_at_once_stay_whole(tmp_path):
    with Progress(tmp_path, {}) as progress:

        def write(number):
            for step in range(200):
                progress.metrics(step, **{f"metric{number}": 1.0})

        assert in_processes(4, write) == [0] * 4
        assert read_progress(tmp_path).alive
    assert len(lines(tmp_path)) == 801
    assert not read_progress(tmp_path).alive


def test_trainings_and_evaluations_do_not_import_mlflow():
    code = (
        "import sys, flrml.pipeline.stages.train, flrml.pipeline.stages.evaluate; sys.exit('mlflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
