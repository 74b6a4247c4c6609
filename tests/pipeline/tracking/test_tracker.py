"""Runs, their history and their models in a real SQLite store."""

import json
import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

import mlflow
import numpy as np
import pytest
from mlflow.exceptions import MlflowException

from flrml.datasets import open_split
from flrml.pipeline.stages.decompose import decompose_dataset
from flrml.pipeline.stages.draw_triplets import draw_for_dataset
from flrml.pipeline.stages.evaluate import evaluate
from flrml.pipeline.stages.train import train
from flrml.pipeline.tracking.database import COLUMNS, SHOWN, VIEW, runs_page
from flrml.pipeline.tracking.owners import this_process
from flrml.pipeline.tracking.records import of_run, of_sweep
from flrml.pipeline.tracking.tracker import FOLDER, KEY, NEWEST, OWNER, STARTED, RunRecord, Tracker
from tests.pipeline.results import files, point, run
from tests.pipeline.tracked import by_name, in_processes, log_trained


def test_a_run_is_logged_whole(tracker, tmp_path):
    (path,) = files(tmp_path, [run("digits", "flrml", 0.9, accuracy_cosine=0.9)])
    run_id = tracker.log(of_run(path, "test"))
    found = tracker.client.get_run(run_id)
    assert found.info.status == "FINISHED"
    assert found.info.end_time - found.info.start_time == 3000
    assert found.data.params == {"n_components": "20", "seed": "0"}
    assert found.data.metrics["accuracy"] == 0.9
    assert found.data.metrics["peak_mb"] == 140
    assert found.data.tags["mlflow.source.git.commit"] == "abc"
    assert found.data.tags["version.numpy"] == "2"
    assert found.data.tags["feeds"] == "tables, figure_front, figure_convergence"
    history = tracker.client.get_metric_history(run_id, "objective")
    assert [(metric.step, metric.value) for metric in history] == [(0, 8.0), (1, 4.0), (2, 2.0), (3, 1.0)]
    training, test = sorted(found.inputs.dataset_inputs, key=lambda used: used.dataset.name, reverse=True)
    assert (training.dataset.name, training.dataset.digest) == ("digits train", "0123456789abcdef")
    assert [tag.value for used in (training, test) for tag in used.tags] == ["training", "test"]
    assert json.loads(training.dataset.profile) == {"num_rows": 200, "num_features": 64}
    assert "[-1, 64]" in json.loads(training.dataset.schema)["mlflow_tensorspec"]["features"]
    assert len(found.data.tags["mlflow.note.content"].splitlines()) == 2
    assert "accuracy 90.0 %" in found.data.tags["mlflow.note.content"]


def test_a_long_history_is_logged_to_its_end(tracker):
    run_id = tracker.log(RunRecord("long", "long", series={"objective": dict(enumerate(range(2500)))}))
    assert len(tracker.client.get_metric_history(run_id, "objective")) == 2500


def test_a_new_result_is_added_and_marked_as_the_newest(tracker, tmp_path):
    first = tracker.log(RunRecord("a", "first", metrics={"accuracy": 0.1}))
    tracker.client.log_text(first, "content", "note.txt")
    tracker.log(RunRecord("b", "other"))
    tracker.log(RunRecord("a", "second", metrics={"accuracy": 0.2}))
    assert {name: found.data.metrics for name, found in by_name(tracker).items()} == {
        "second": {"accuracy": 0.2},
        "other": {},
    }
    assert len(tracker.runs(every=True)) == 3
    assert tracker.client.get_run(first).data.tags[NEWEST] == "false"
    assert list((tmp_path / "artifacts").rglob("note.txt"))


def test_the_same_result_keeps_its_run(tracker):
    record = RunRecord("a", "a", metrics={"accuracy": 0.1}, children=[RunRecord("a/1", "child")])
    assert tracker.log(record) == tracker.log(record)
    assert len(tracker.runs(every=True)) == 2


def test_a_result_that_comes_back_is_the_newest_again(tracker):
    first, second = (RunRecord("a", name) for name in ("first", "second"))
    run_id = tracker.log(first)
    tracker.log(second)
    assert tracker.log(first) == run_id
    assert list(by_name(tracker)) == ["first"]
    assert len(tracker.runs(every=True)) == 2


def test_a_child_that_did_not_change_moves_to_the_new_parent(tracker):
    child = RunRecord("a/1", "child")
    tracker.log(RunRecord("a", "a", children=[child]))
    parent = tracker.log(RunRecord("a", "a", children=[child, RunRecord("a/2", "new")]))
    children = [found for found in tracker.runs(every=True) if found.data.tags[KEY] != "a"]
    assert [found.data.tags["mlflow.parentRunId"] for found in children] == [parent, parent]


def test_pruning_deletes_earlier_runs_with_models_and_artifacts(tracker, tmp_path, trained):
    first = log_trained(tracker, trained)
    (model,) = tracker.models(first.info.run_id)
    tracker.client.log_text(first.info.run_id, "content", "note.txt")
    tracker.log(RunRecord(first.data.tags[KEY], "second"))
    kept = tracker.log(RunRecord("b", "other"))
    tracker.client.log_text(kept, "content", "kept.txt")
    assert list((tmp_path / "artifacts").rglob("classifier.npz"))
    assert tracker.prune() == 1
    assert sorted(by_name(tracker)) == ["other", "second"]
    assert len(tracker.runs(every=True)) == 2
    assert [path.name for path in (tmp_path / "artifacts").rglob("*") if path.is_file()] == ["kept.txt"]
    with pytest.raises(MlflowException):
        tracker.client.get_logged_model(model.model_id)
    assert tracker.prune() == 0


def dead_process():
    """Name of a process of this machine that has ended."""
    code = "from flrml.pipeline.tracking.owners import this_process; print(this_process())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_a_run_left_running_by_a_killed_job_is_ended_by_the_next_open(tracker, request, tmp_path):
    def live(key, owner):
        tags = {KEY: key, NEWEST: "pending", OWNER: owner, FOLDER: "/results"}
        return tracker.client.create_run(tracker.experiment_id, tags=tags).info.run_id

    def status(run_id):
        return tracker.client.get_run(run_id).info.status

    dead, alive, elsewhere = live("a", dead_process()), live("b", this_process()), live("c", "another-host:1:1")
    again = Tracker(tracker.uri, request.node.name, tmp_path / "artifacts")
    assert [status(run_id) for run_id in (dead, alive, elsewhere)] == ["KILLED", "RUNNING", "RUNNING"]
    assert tracker.client.get_run(dead).data.tags[NEWEST] == "false"
    again.settle(folder="/results")  # nothing else is at work in this folder
    assert [status(run_id) for run_id in (alive, elsewhere)] == ["RUNNING", "KILLED"]


def test_a_run_that_follows_a_training_gets_its_result(tracker):
    tags = {KEY: "a", NEWEST: "pending", STARTED: repr(12.5), OWNER: this_process()}
    live = tracker.client.create_run(tracker.experiment_id, tags=tags).info.run_id
    assert tracker.log(RunRecord("a", "whole", metrics={"accuracy": 0.5}, started=12.5)) == live
    (found,) = tracker.runs(every=True)
    assert (found.info.status, found.data.metrics) == ("FINISHED", {"accuracy": 0.5})


def test_runs_that_are_no_longer_asked_for_are_not_shown(tracker):
    for key in ("test/digits/a", "test/digits/b", "test/r8/a"):
        tracker.log(RunRecord(key, key))
    tracker.retire_all_but(["test/digits/a"], prefix="test/digits/")
    assert set(by_name(tracker)) == {"test/digits/a", "test/r8/a"}
    assert len(tracker.runs(every=True)) == 3


class KilledAfter:
    """A client that kills its process at the given call."""

    def __init__(self, client, calls):
        self.client, self.calls = client, calls

    def __getattr__(self, name):
        def call(*arguments, **named):
            if self.calls == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self.calls -= 1
            return getattr(self.client, name)(*arguments, **named)

        return call


def test_a_kill_between_any_two_steps_leaves_one_newest_and_none_running(tmp_path):
    """Each attempt logs another result and is killed one call later than the one before, until one succeeds."""
    uri = f"sqlite:///{tmp_path}/mlflow.db"

    def attempt(number):
        tracker = Tracker(uri, "test")
        tracker.client = KilledAfter(tracker.client, number)
        tracker.log(RunRecord("a", str(number), {"n": number}, {"accuracy": 1.0}, children=[RunRecord("a/1", "c")]))

    def check(_):
        tracker = Tracker(uri, "test")
        newest = [found.data.tags[KEY] for found in tracker.runs()]
        assert len(newest) == len(set(newest))
        assert "a" in newest
        assert {found.info.status for found in tracker.runs()} == {"FINISHED"}
        assert "RUNNING" not in {found.info.status for found in tracker.runs(every=True)}

    assert in_processes(1, lambda _: Tracker(uri, "test").log(RunRecord("a", "first"))) == [0]
    for number in range(100):
        (code,) = in_processes(1, lambda _, number=number: attempt(number))
        assert in_processes(1, check) == [0], number
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert 10 < number < 99


def test_a_failure_shows_as_failed_with_its_reason(tracker, tmp_path):
    (path,) = files(tmp_path, [run("digits", "rmml")])
    found = tracker.client.get_run(tracker.log(of_run(path, "test")))
    assert found.info.status == "FAILED"
    assert found.data.tags["failure"] == "E: no solution"
    assert "E: no solution" in found.data.tags["mlflow.note.content"]


def curve(tracker, run_id, name):
    return {metric.step: metric.value for metric in tracker.client.get_metric_history(run_id, name)}


def test_a_sweep_is_a_parent_with_the_curve_and_its_points_as_children(tracker, tmp_path):
    contents = [point("digits", "margin_ratio", r, a) for r, a in ((0.5, [0.7, 0.9]), (1.0, [0.9]), (2.0, [-1]))]
    contents[0]["parameters"] |= {"margin_ratio": 1.0}
    for _ in range(2):
        parent = tracker.log(of_sweep(files(tmp_path, contents), "test"))
    found = by_name(tracker)
    assert len(found) == len(tracker.runs(every=True)) == 4
    assert found["digits flrml margin"].data.metrics["accuracy"] == 0.9
    assert found["digits flrml margin"].data.metrics["best_margin_ratio"] == 1.0
    assert found["digits flrml margin"].data.params == {
        "n_components": "20",
        "swept": "margin_ratio",
        "values": "0.5, 1, 2",
    }
    assert curve(tracker, parent, "accuracy_by_margin_ratio_percent") == {50: 0.8, 100: 0.9}
    children = [each for each in found.values() if each.data.tags.get("mlflow.parentRunId") == parent]
    assert len(children) == 3
    assert found["digits flrml margin 0.5"].data.metrics["accuracy_std"] == pytest.approx(0.1)
    assert found["digits flrml margin 0.5"].data.params["margin_ratio"] == "0.5"
    assert found["digits flrml margin 2"].info.status == "FAILED"
    assert found["digits flrml margin 2"].data.tags["failure"] == "T: too slow"


def test_a_sweep_over_batches_keeps_the_accuracy_by_batch(tracker, tmp_path):
    contents = [point("digits", "batch_triplets", size, [0.6, 0.8], batches=3) for size in (20, 40)]
    parent = tracker.log(of_sweep(files(tmp_path, contents), "test"))
    child = by_name(tracker)["digits mflrml batches 20"].info.run_id
    expected = pytest.approx({1: 0.35, 2: 0.35, 3: 0.7})
    assert curve(tracker, child, "accuracy_by_batch") == expected
    assert curve(tracker, parent, "accuracy_by_batch/20") == expected
    assert curve(tracker, parent, "accuracy_by_batch/40") == expected


def test_the_parameters_of_a_run_are_those_that_were_used(tmp_path, data):
    decompose_dataset(data, tmp_path / "plain.npz", tmp_path / "plain.json", max_rank=30, kind="plain", seed=0)
    draw_for_dataset(data, tmp_path / "triplets.npy", n_triplets=4, seed=0)

    def parameters(method, spectrum=None, **given):
        run = {"dataset": "digits", "method": method, "seed": 0, "parameters": given}
        limits, triplets = {"minutes": 1, "memory_mb": 3000}, tmp_path / "triplets.npy"
        train(tmp_path, data=data, triplets=triplets, spectrum=spectrum, run=run, limits=limits)
        evaluate(tmp_path, data=data)
        return of_run(tmp_path / "metrics.json", "test").parameters

    used = parameters("flrml", tmp_path / "plain.npz", n_components=10)
    assert (used["max_rank"], used["rank"], used["n_triplets"]) == (30, 30, 4)
    used = parameters("flrml-ridge", n_components=10, within=0.5)
    assert isinstance(used["ridge"], float)
    assert used["ridge.chosen"] is used["rounds.chosen"] is used["local.chosen"] is True
    assert used["within"] == 0.5
    assert "within.chosen" not in used
    assert "auto" not in map(str, used.values())
    used = parameters("lda-tuned", tmp_path / "plain.npz", n_components=100)
    assert used["n_components"] == 9
    assert used["shrinkage.chosen"] is True


def test_a_logged_model_predicts_raw_rows(tracker, data, trained):
    found = log_trained(tracker, trained)
    (model,) = tracker.models(found.info.run_id)
    assert (model.name, model.status) == ("digits-mflrml", "READY")
    assert {metric.key: metric.dataset_name for metric in model.metrics}["accuracy"] == "digits test"
    assert model.params["n_components"] == "10"
    mlflow.set_tracking_uri(tracker.uri)
    back = mlflow.pyfunc.load_model(f"models:/{model.model_id}")
    X, y = (np.array(part) for part in open_split(data / "test"))
    assert np.mean(back.predict(100 * X) == y) == found.data.metrics["accuracy"]
    assert back.metadata.signature.inputs.inputs[0].shape == (-1, 64)
    assert back.predict(back.input_example).shape == (1,)
    folder = Path(url2pathname(urlparse(model.artifact_location).path))
    assert f"flrml=={version('flrml')}" in (folder / "requirements.txt").read_text()
    assert not list(folder.rglob("*.pkl"))
    assert found.outputs.model_outputs[0].model_id == model.model_id


def test_a_model_of_very_many_features_has_no_example(tracker, trained, monkeypatch):
    monkeypatch.setattr("flrml.pipeline.tracking.logged_models.EXAMPLE_FEATURES", 10)
    (model,) = tracker.models(log_trained(tracker, trained).info.run_id)
    assert mlflow.pyfunc.load_model(model.artifact_location).input_example is None


def test_logging_a_model_again_stores_nothing_twice(tracker, tmp_path, trained):
    first = log_trained(tracker, trained)
    before = sorted((tmp_path / "artifacts").rglob("*"))
    assert log_trained(tracker, trained).info.run_id == first.info.run_id
    assert sorted((tmp_path / "artifacts").rglob("*")) == before


@pytest.mark.parametrize("limit", ["MAX_MODEL_BYTES", "MAX_MAP_BYTES"])
def test_a_model_too_large_is_named_instead(tracker, trained, limit, monkeypatch):
    monkeypatch.setattr(f"flrml.pipeline.tracking.logged_models.{limit}", 10)
    found = log_trained(tracker, trained)
    assert str(trained / "model.npz") in found.data.tags["model"]
    assert tracker.models(found.info.run_id) == []


def test_a_deleted_experiment_comes_back(tracker, tmp_path, request):
    tracker.log(RunRecord("a", "a"))
    tracker.client.delete_experiment(tracker.experiment_id)
    again = Tracker(tracker.uri, request.node.name, tmp_path / "artifacts")
    assert again.experiment_id == tracker.experiment_id
    again.log(RunRecord("a", "a"))
    assert len(again.runs()) == 1


def test_the_experiment_carries_the_view_that_its_address_names(tracker):
    tags = tracker.client.get_experiment(tracker.experiment_id).tags
    view = json.loads(tags[f"mlflow.sharedViewState.{VIEW}"])
    assert view["selectedColumns"] == COLUMNS
    assert view["searchFilter"] == SHOWN
    page = "http://127.0.0.1:5000/#/experiments/7/runs?workflowType=machine_learning"
    assert runs_page("http://127.0.0.1:5000/", "7") == f"{page}&viewStateShareKey=flrml"
    assert runs_page("http://127.0.0.1:5000", "7", every=True) == page


def test_the_view_leaves_out_earlier_runs_and_shows_those_under_way(tracker):
    tracker.log(RunRecord("a", "first"))
    tracker.log(RunRecord("a", "second"))
    tracker.client.create_run(tracker.experiment_id, tags={KEY: "a", NEWEST: "pending"}, run_name="live")
    shown = tracker.client.search_runs([tracker.experiment_id], SHOWN)
    assert {found.info.run_name for found in shown} == {"second", "live"}
