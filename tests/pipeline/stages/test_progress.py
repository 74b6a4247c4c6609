"""The file by which a training tells how far it is."""

import json
import multiprocessing
import subprocess
import sys

import pytest

from flrml.datasets import prepare
from flrml.pipeline.stages.decompose import decompose_dataset
from flrml.pipeline.stages.draw_triplets import draw_for_dataset
from flrml.pipeline.stages.evaluate import evaluate
from flrml.pipeline.stages.progress import FILE, Progress
from flrml.pipeline.stages.sweep import sweep_point
from flrml.pipeline.stages.train import train
from flrml.pipeline.tracking.records import of_sweep

LIMITS = {"minutes": 1, "memory_mb": 3000}
FOLLOW = {"experiment": "test", "tracking_uri": "sqlite:///mlflow.db"}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    prepare("digits", folder / "digits", options={"max_train": 200, "max_test": 50})
    draw_for_dataset(folder / "digits", folder / "triplets.npy", n_triplets=5, seed=0)
    decompose_dataset(folder / "digits", folder / "svd.npz", folder / "svd.json", max_rank=30, kind="plain", seed=0)
    return folder


def lines(folder):
    return [json.loads(line) for line in (folder / FILE).read_text().splitlines()]


def start(folder, key):
    progress = Progress(folder)
    progress.start(key, key, {"dataset": "digits", "method": "flrml", "started": 1.0}, FOLLOW)
    return progress


@pytest.mark.parametrize("method", ["flrml", "mflrml", "oasis", "frml"])
def test_a_training_reports_its_objective_as_its_history_has_it(tmp_path, inputs, method):
    run = {"dataset": "digits", "method": method, "seed": 0, "parameters": {"n_components": 10}}
    spectrum = None if method == "mflrml" else inputs / "svd.npz"
    given = {"data": inputs / "digits", "triplets": inputs / "triplets.npy", "spectrum": spectrum}
    result = train(tmp_path, **given, run=run, limits=LIMITS, follow=FOLLOW)
    first, *steps, last = lines(tmp_path)
    assert first["run"]["key"] == f"test/digits/{method}/0"
    assert first["run"]["started"] == result["started"]
    assert steps
    assert {line["step"]: line["metrics"]["objective"] for line in steps}.items() <= dict(
        enumerate(result["history"])
    ).items()
    assert last["state"] == "trained"
    evaluate(tmp_path, data=inputs / "digits")
    *_, accuracy, state = lines(tmp_path)
    assert 0.3 < accuracy["metrics"]["accuracy"] <= 1
    assert state["state"] == "evaluated"


@pytest.mark.parametrize(("sweep", "value"), [("margin", 0.5), ("batches", 10)])
def test_a_point_of_a_sweep_reports_each_seed_under_the_key_of_its_result(tmp_path, inputs, sweep, value):
    method = {"margin": "flrml", "batches": "mflrml"}[sweep]
    run = {"dataset": "digits", "method": method, "n_neighbors": 5, "parameters": {"n_components": 10}}
    out, spectrum = tmp_path / "point.json", inputs / "svd.npz" if method == "flrml" else None
    run |= {"sweep": sweep, "value": value, "repeats": 2}
    given = {"data": inputs / "digits", "spectrum": spectrum, "limits": LIMITS, "follow": FOLLOW}
    result = sweep_point(out, run=run, **given)
    first, *seeds, last = lines(tmp_path)
    (child,) = of_sweep([out], "test").children
    assert (first["run"]["key"], first["run"]["name"]) == (child.key, child.name)
    assert first["run"]["started"] == result["started"] == child.started
    assert {line["step"]: line["metrics"]["accuracy_by_seed"] for line in seeds} == child.series["accuracy_by_seed"]
    assert list(child.series["accuracy_by_seed"]) == [0, 1]
    assert last["state"] == "evaluated"
    run["parameters"]["n_components"] = -1
    sweep_point(out, run=run, **given)
    assert lines(tmp_path)[-1]["state"] == "failed"
    assert "n_components" in lines(tmp_path)[-1]["reason"]


def test_a_failure_is_reported_with_its_reason(tmp_path, inputs):
    run = {"dataset": "digits", "method": "mflrml", "seed": 0, "parameters": {"n_components": -1}}
    given = {"data": inputs / "digits", "triplets": inputs / "triplets.npy", "spectrum": None}
    train(tmp_path, **given, run=run, limits=LIMITS, follow=FOLLOW)
    last = lines(tmp_path)[-1]
    assert last["state"] == "failed"
    assert "n_components" in last["reason"]


def test_a_new_training_starts_a_new_file_and_an_evaluation_alone_starts_none(tmp_path):
    start(tmp_path, "first").metrics(0, objective=1.0)
    start(tmp_path, "second")
    assert [line["run"]["key"] for line in lines(tmp_path)] == ["second"]
    (tmp_path / FILE).unlink()
    Progress(tmp_path).end("evaluated")
    assert not (tmp_path / FILE).exists()


def test_lines_of_processes_that_write_at_once_stay_whole(tmp_path):
    start(tmp_path, "a")

    def write(number):
        progress = Progress(tmp_path)
        for step in range(200):
            progress.metrics(step, **{f"metric{number}": 1.0})

    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=write, args=(number,)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert len(lines(tmp_path)) == 801


def test_trainings_and_evaluations_do_not_import_mlflow():
    code = (
        "import sys, flrml.pipeline.stages.train, flrml.pipeline.stages.evaluate; sys.exit('mlflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
