"""Runs of MLflow follow the files of a results folder, in a real SQLite store."""

import json
import os
import shutil
import signal
import time
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlparse

import mlflow
import numpy as np
import pytest

from flrml.datasets import open_split
from flrml.neighbors import knn_predict
from flrml.pipeline.stages import progress
from flrml.pipeline.stages.inputs import load_rows
from flrml.pipeline.stages.learned_map import LearnedMap
from flrml.pipeline.tracking.mlflow_store import COLUMNS, SHOWN, VIEW, Store
from flrml.pipeline.tracking.sync import DIGEST, NEWEST, PARENT, Sync
from tests.pipeline.results import point, run
from tests.pipeline.tracked import TRAINING, Folder, by_name, in_processes

MARGIN = "sweeps/margin/digits/flrml"


def result(training, accuracy=0.9, **more):
    return run("digits", "flrml", accuracy, training=training, **more)


def curve(folder, run_id, name):
    return {metric.step: metric.value for metric in folder.client.get_metric_history(run_id, name)}


def test_a_run_is_logged_whole(folder):
    folder.write(result("a", accuracy_cosine=0.9))
    folder.sync()
    (found,) = folder.runs()
    assert (found.info.status, found.info.run_name) == ("FINISHED", "digits flrml")
    assert found.info.end_time - found.info.start_time == 3000
    assert found.data.params == {"n_components": "20", "seed": "0"}
    assert (found.data.metrics["accuracy"], found.data.metrics["peak_mb"]) == (0.9, 140)
    assert found.data.tags["mlflow.source.git.commit"] == "abc"
    assert found.data.tags["version.numpy"] == "2"
    assert curve(folder, found.info.run_id, "objective") == {0: 8.0, 1: 4.0, 2: 2.0, 3: 1.0}
    training, test = sorted(found.inputs.dataset_inputs, key=lambda used: used.dataset.name, reverse=True)
    assert (training.dataset.name, training.dataset.digest) == ("digits train", "0123456789abcdef")
    assert [tag.value for used in (training, test) for tag in used.tags] == ["training", "test"]
    assert json.loads(training.dataset.profile) == {"num_rows": 200, "num_features": 64}
    assert found.data.tags["mlflow.note.content"].endswith(": accuracy 90.0 % by nearest neighbours (cosine)")


def test_a_failure_is_failed_with_its_reason(folder):
    folder.write(run("digits", "flrml", training="a"))
    folder.sync()
    (found,) = folder.runs()
    assert (found.info.status, found.data.tags["failure"]) == ("FAILED", "E: no solution")
    assert "E: no solution" in found.data.tags["mlflow.note.content"]


class ReadOnly:
    """A client that writes nothing."""

    def __init__(self, client):
        self.client = client

    def __getattr__(self, name):
        assert name.startswith(("get_", "search_")), f"{name} was called"
        return getattr(self.client, name)


def test_a_second_sync_writes_nothing(folder):
    folder.ask(TRAINING, f"{MARGIN}/0.5")
    folder.write(result("a"))
    folder.write(point("digits", "margin_ratio", 0.5, [0.7]), f"{MARGIN}/0.5")
    sync = Sync(folder.results)
    sync()
    sync.store.client = ReadOnly(sync.store.client)
    sync()
    assert len(folder.runs("*")) == 4


def test_a_new_result_is_the_newest_and_one_that_comes_back_too(folder):
    for training in ("a", "b", "a"):
        folder.write(result(training))
        folder.sync()
        states = folder.states()
        assert states.pop(training) == ("FINISHED", "true")
        assert set(states.values()) <= {("FINISHED", "false")}
    assert len(folder.runs()) == 2


def test_a_training_is_a_run_while_it_goes_on_and_gets_its_result(folder):
    sync = Sync(folder.results)
    live = folder.train("a")
    sync(final=False)
    live.metrics(0, objective=8.0)
    live.metrics(1, objective=4.0)
    sync(final=False)
    (found,) = folder.runs()
    assert (found.info.status, found.data.tags[NEWEST]) == ("RUNNING", "true")
    assert (found.data.tags["method"], found.info.run_name) == ("flrml", "digits flrml")
    assert curve(folder, found.info.run_id, "objective") == {0: 8.0, 1: 4.0}
    live.metrics(2, objective=2.0)
    folder.sync(final=False)  # another process
    live.end("trained")
    live.__exit__(None, None, None)
    sync(final=False)
    assert folder.states() == {"a": ("FINISHED", "true")}
    folder.write(result("a"))
    sync(final=False)
    assert folder.states() == {"a": ("FINISHED", "true")}
    history = folder.client.get_metric_history(found.info.run_id, "objective")
    assert sorted(metric.step for metric in history) == [0, 1, 2, 3]
    assert folder.runs()[0].info.end_time - folder.runs()[0].info.start_time == 3000


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_training_ends_as_killed_even_if_it_is_a_zombie(folder, end):
    if not (pid := os.fork()):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        folder.train("a").metrics(0, objective=8.0)
        if os.fork():  # as limits.py does: the child has the file open too
            signal.pause()
        from flrml.pipeline.stages.limits import _die_with_parent

        _die_with_parent()
        signal.pause()
    while progress.read_progress(folder.results / TRAINING) is None:
        time.sleep(0.01)
    time.sleep(0.2)
    folder.sync(final=False)
    assert folder.states() == {"a": ("RUNNING", "true")}
    os.kill(pid, end)
    deadline = time.monotonic() + 10
    while progress.read_progress(folder.results / TRAINING).alive and time.monotonic() < deadline:
        time.sleep(0.01)
    assert Path(f"/proc/{pid}/stat").exists()  # not waited for yet
    folder.sync(final=False)
    assert folder.states() == {"a": ("KILLED", "false")}
    os.waitpid(pid, 0)


def test_a_training_that_is_repeated_leaves_no_ghost(folder):
    with folder.train("a") as live:
        live.end("trained")
    folder.sync(final=False)
    assert folder.states() == {"a": ("FINISHED", "true")}
    again = folder.train("b")
    folder.sync(final=False)
    assert folder.states() == {"a": ("KILLED", "false"), "b": ("RUNNING", "true")}
    again.end("failed", "T: too slow")
    again.__exit__(None, None, None)
    folder.sync(final=False)
    assert folder.states()["b"] == ("FAILED", "true")
    with folder.train("c") as last:
        last.end("trained")
    folder.write(result("c"))
    folder.sync()
    assert folder.states() == {"a": ("KILLED", "false"), "b": ("FAILED", "false"), "c": ("FINISHED", "true")}
    assert "failure" not in folder.runs(every=False)[0].data.tags


def test_a_training_goes_on_while_the_result_before_is_the_newest(folder):
    folder.write(result("a"))
    folder.train("b")
    folder.sync(final=False)
    assert folder.states() == {"a": ("FINISHED", "true"), "b": ("RUNNING", "true")}


def test_a_job_that_raises_is_failed_with_the_error(folder):
    with pytest.raises(ValueError, match="no column"), folder.train("a"):
        raise ValueError("no column")
    folder.sync()
    assert folder.states() == {"a": ("FAILED", "true")}
    assert folder.runs()[0].data.tags["failure"] == "ValueError: no column"


def test_a_result_makes_up_for_a_wrong_verdict(folder, monkeypatch):
    folder.train("a").metrics(0, objective=8.0)
    folder.sync(final=False)
    with monkeypatch.context() as patched:
        patched.setattr(progress, "is_alive", lambda folder: False)  # as over some network file systems
        folder.sync(final=False)
    assert folder.states() == {"a": ("KILLED", "false")}
    folder.sync(final=False)
    assert folder.states() == {"a": ("RUNNING", "true")}
    folder.write(result("a"))
    folder.sync()
    assert folder.states() == {"a": ("FINISHED", "true")}
    assert "failure" not in folder.runs()[0].data.tags


def test_without_locks_a_training_lives_until_the_end_of_the_run(folder, monkeypatch):
    monkeypatch.setattr(progress, "is_alive", lambda folder: None)
    folder.train("a")
    folder.sync(final=False)
    assert folder.states() == {"a": ("RUNNING", "true")}
    folder.sync()
    assert folder.states() == {"a": ("KILLED", "false")}


def test_runs_that_are_no_longer_asked_for_are_not_shown(folder):
    folder.write(result("a"))
    folder.sync()
    folder.ask("runs/digits/cosine/seed0")
    folder.sync()
    assert folder.states() == {"a": ("FINISHED", "false")}


def test_another_results_folder_of_the_same_experiment_is_left_alone(folder, tmp_path):
    other = Folder(tmp_path / "other", folder.config["tracking_uri"], folder.config["experiment"])
    for each in (folder, other):
        each.write(result(each.results.name))
        each.sync()
    folder.sync()
    assert folder.states() == {"results": ("FINISHED", "true"), "other": ("FINISHED", "true")}
    assert [run.data.tags[NEWEST] for run in folder.runs("")] == ["true", "true"]


def test_a_results_folder_that_was_deleted_is_replaced_and_a_moved_one_keeps_its_runs(folder, tmp_path):
    folder.write(result("a"))
    folder.sync()
    shutil.rmtree(folder.results)
    folder.ask(TRAINING)
    folder.write(result("b"))
    folder.sync()
    assert folder.states() == {"a": ("FINISHED", "false"), "b": ("FINISHED", "true")}
    folder.results = folder.results.rename(tmp_path / "moved")
    folder.ask(TRAINING)
    folder.sync()
    assert len(folder.runs()) == 2
    assert [run.data.tags[NEWEST] for run in folder.runs("")] == ["true"]


def test_damaged_and_half_written_files_wait(folder):
    live = folder.train("a")
    with live.path.open("a") as file:
        file.write('{"metrics": {"objective": 2.0}, "st')
        file.flush()
        (folder.results / TRAINING / "metrics.json").write_text('{"acc')
        folder.sync(final=False)
        assert folder.runs()[0].data.metrics == {}
        file.write('ep": 1, "time": 1.0}\n')
    folder.sync(final=False)
    assert folder.runs()[0].data.metrics == {"objective": 2.0}


def test_a_sweep_is_a_parent_with_the_curve_once_all_its_points_are_there(folder):
    folders = [f"{MARGIN}/{ratio}" for ratio in (0.5, 1.0, 2.0)]
    folder.ask(*folders)
    for place, ratio, accuracies in zip(folders, (0.5, 1.0, 2.0), ([0.7, 0.9], [0.9], [-1]), strict=True):
        folder.sync()
        assert folder.runs("digits/margin/flrml") == []
        content = point("digits", "margin_ratio", ratio, accuracies)
        content["parameters"] |= {"margin_ratio": 1.0}
        folder.write(content, place)
    folder.sync()
    found = by_name(folder.runs("*"))
    parent = found["digits flrml margin"]
    assert parent.data.metrics["best_margin_ratio"] == 1.0
    assert parent.data.params == {
        "n_components": "20",
        "repeats": "2",
        "swept": "margin_ratio",
        "values": "0.5, 1, 2",
    }
    assert curve(folder, parent.info.run_id, "accuracy_by_margin_ratio_percent") == {50: 0.8, 100: 0.9}
    points = [run for name, run in found.items() if name.startswith("digits flrml margin ")]
    assert {run.data.tags[PARENT] for run in points} == {parent.info.run_id}
    assert found["digits flrml margin 0.5"].data.params["margin_ratio"] == "0.5"
    assert found["digits flrml margin 0.5"].data.metrics["accuracy_std"] == pytest.approx(0.1)
    assert found["digits flrml margin 2"].data.tags["failure"] == "T: too slow"
    folder.ask(*folders[:2])
    folder.sync()
    assert [run.data.tags[NEWEST] for run in folder.runs("digits/margin/flrml/2.0")] == ["false"]
    (parent,) = folder.runs("digits/margin/flrml", every=False)
    assert parent.data.params["values"] == "0.5, 1"
    assert {run.data.tags[PARENT] for run in folder.runs("digits/margin/flrml/*", every=False)} == {
        parent.info.run_id
    }


def test_a_sweep_over_batches_keeps_the_accuracy_by_batch(folder):
    folders = [f"sweeps/batches/digits/mflrml/{size}" for size in (20, 40)]
    folder.ask(*folders)
    for place, size in zip(folders, (20, 40), strict=True):
        folder.write(point("digits", "batch_triplets", size, [0.6, 0.8], batches=3), place)
    folder.sync()
    found = by_name(folder.runs("*"))
    expected = pytest.approx({1: 0.35, 2: 0.35, 3: 0.7})
    assert curve(folder, found["digits mflrml batches 20"].info.run_id, "accuracy_by_batch") == expected
    for size in (20, 40):
        assert curve(folder, found["digits mflrml batches"].info.run_id, f"accuracy_by_batch/{size}") == expected


def test_the_run_of_an_experiment_carries_its_files_and_a_changed_one_makes_a_new_run(folder):
    drawn = ["figures/margin.pdf", "tables/summary.md"]
    folder.ask(TRAINING, "runs/digits/kissme/seed0", drawn=drawn)
    folder.write(result("a"))
    folder.write(run("digits", "kissme"), "runs/digits/kissme/seed0")
    folder.sync()
    assert folder.runs("") == []
    for name in ("figures/margin.png", "figures/margin.pdf", "figures/margin.csv", *drawn, "tables/summary.csv"):
        (folder.results / name).parent.mkdir(exist_ok=True)
        (folder.results / name).write_text(f"content of {name}")
    folder.sync(final=False)
    assert folder.runs("") == []  # jobs are at work, and more files may change
    folder.sync()
    (found,) = folder.runs("")
    top = folder.client.list_artifacts(found.info.run_id)
    below = [
        file for each in top if each.is_dir for file in folder.client.list_artifacts(found.info.run_id, each.path)
    ]
    assert {file.path for file in (*top, *below)} == {
        *("config.yaml", "environment.txt", "figures", "tables", "tables/summary.md", "tables/summary.csv"),
        *("figures/margin.png", "figures/margin.pdf", "figures/margin.csv"),
    }
    assert found.data.params["max_rank"] == "60"
    assert found.data.metrics == {"runs": 2, "failed": 1, "best_accuracy/digits": 0.9}
    assert "| digits | FLRML | 90.0 % |" in found.data.tags["mlflow.note.content"]
    assert folder.runs()[0].data.tags[PARENT] == found.info.run_id
    (folder.results / "figures/margin.png").write_text("drawn again")
    folder.sync()
    before, after = sorted(folder.runs(""), key=lambda run: run.data.tags[NEWEST])
    assert [run.data.tags[NEWEST] for run in (before, after)] == ["false", "true"]
    assert folder.runs()[0].data.tags[PARENT] == after.info.run_id
    (folder.results / "figures/margin.pdf").unlink()
    folder.sync()  # incomplete: the last complete one stays
    assert folder.client.get_run(after.info.run_id).data.tags[NEWEST] == "true"


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


def test_a_kill_between_any_two_calls_is_put_right_by_the_next_sync(trained):
    """Each attempt logs another result and is killed one call later than the one before, until one succeeds."""
    trained.ask(TRAINING, f"{MARGIN}/0.5")
    trained.write(point("digits", "margin_ratio", 0.5, [0.7]), f"{MARGIN}/0.5")
    metrics = json.loads((trained.results / TRAINING / "metrics.json").read_text())
    keys = {
        f"{trained.config['experiment']}{key}"
        for key in ("", *("/digits/" + k for k in ("flrml/0", "margin/flrml", "margin/flrml/0.5")))
    }

    def attempt(number):
        sync = Sync(trained.results)
        sync.store.open()
        sync.store.client, sync.store.open = KilledAfter(sync.store.client, number), lambda: None
        sync()

    assert in_processes(1, lambda _: trained.sync()) == [0]
    for number in range(100):
        trained.write(metrics | {"evaluate_seconds": number})
        (code,) = in_processes(1, lambda _, number=number: attempt(number))
        if code != 0:
            assert code == -signal.SIGKILL
            assert in_processes(1, lambda _: trained.sync()) == [0], number
        runs = trained.runs("*")
        newest = [run.data.tags["flrml.key"] for run in runs if run.data.tags[NEWEST] == "true"]
        assert sorted(newest) == sorted(keys)
        assert {run.info.status for run in runs} == {"FINISHED"}
        assert all(DIGEST in run.data.tags for run in runs)
        (best,) = trained.runs(every=False)
        assert best.data.metrics["evaluate_seconds"] == number
        assert len(best.outputs.model_outputs) == 1
        if code == 0:
            break
    assert 10 < number < 99


def predictions(folder, run):
    """What the logged model of a run predicts for the test rows, and what the evaluation predicts."""
    mlflow.set_tracking_uri(folder.config["tracking_uri"])
    back = mlflow.pyfunc.load_model(f"models:/{run.outputs.model_outputs[0].model_id}")
    (X, y), (X_test, _) = (load_rows(folder.results / "data" / "digits" / part) for part in ("train", "test"))
    learned = LearnedMap.load(folder.results / TRAINING / "model.npz")
    y = y.astype(str)  # names of classes
    expected = knn_predict(
        learned.embed(X), y, learned.embed(X_test), n_neighbors=3, metric=learned.metric, W=learned.W
    )
    return back, back.predict(X_test), expected


def test_a_logged_model_predicts_exactly_what_was_evaluated(trained):
    trained.sync()
    (found,) = trained.runs()
    back, predicted, expected = predictions(trained, found)
    np.testing.assert_array_equal(predicted, expected)
    X, y = (np.array(part) for part in open_split(trained.results / "data" / "digits" / "test"))
    assert np.mean(predicted == y.astype(str)) == found.data.metrics["accuracy"]
    np.testing.assert_array_equal(back.predict(100 * X), expected)  # raw rows have any length
    model = trained.client.get_logged_model(found.outputs.model_outputs[0].model_id)
    assert (model.name, model.status, model.params["n_components"]) == ("digits-flrml", "READY", "10")
    assert {metric.key: metric.dataset_name for metric in model.metrics}["accuracy"] == "digits test"
    assert back.metadata.signature.inputs.inputs[0].shape == (-1, 64)
    assert back.predict(back.input_example).shape == (1,)
    place = Path(urlparse(model.artifact_location).path)
    assert f"flrml=={version('flrml')}" in (place / "requirements.txt").read_text()
    assert not list(place.rglob("*.pkl"))


def test_a_training_has_its_predictions_as_artifacts(trained):
    trained.sync()
    (run,) = trained.runs()
    files = {Path(file.path).name for file in trained.client.list_artifacts(run.info.run_id, "predictions")}
    assert files == {"predictions.csv", "confusion.csv", "classes.csv", "predictions.png"}


@pytest.mark.parametrize("more", [0, -1])
def test_a_model_whose_map_or_whose_files_are_too_large_is_named_instead(trained, more, monkeypatch):
    limit = (trained.results / TRAINING / "model.npz").stat().st_size + more
    monkeypatch.setattr("flrml.pipeline.tracking.models.MAX_MODEL_BYTES", limit)
    trained.sync()
    (found,) = trained.runs()
    assert str(trained.results / TRAINING / "model.npz") in found.data.tags["model"]
    assert not found.outputs.model_outputs


def test_a_model_of_very_many_features_has_no_example_and_mlflow_does_not_miss_it(trained, monkeypatch, recwarn):
    monkeypatch.setattr("flrml.pipeline.serving.mlflow_model.EXAMPLE_FEATURES", 10)
    trained.sync()
    assert not [str(warning.message) for warning in recwarn if "example" in str(warning.message)]
    assert predictions(trained, trained.runs()[0])[0].input_example is None


def test_the_model_of_a_later_training_is_not_logged_with_an_earlier_result(trained):
    metrics = json.loads((trained.results / TRAINING / "metrics.json").read_text())
    trained.write(metrics | {"training": "earlier"})
    trained.sync()
    (found,) = (run for run in trained.runs() if DIGEST in run.data.tags)
    assert "of a later training" in found.data.tags["model"]
    assert not found.outputs.model_outputs


def test_the_experiment_carries_the_view_that_its_address_names(folder):
    folder.write(result("a"))
    folder.sync()
    folder.write(result("b"))
    folder.train("c")
    folder.sync(final=False)
    experiment = folder.client.get_experiment_by_name(folder.config["experiment"])
    view = json.loads(experiment.tags[f"mlflow.sharedViewState.{VIEW}"])
    assert (view["selectedColumns"], view["searchFilter"]) == (COLUMNS, SHOWN)
    shown = folder.client.search_runs([experiment.experiment_id], SHOWN)
    assert {run.data.tags["flrml.training"] for run in shown} >= {"b", "c"}
    assert "a" not in {run.data.tags["flrml.training"] for run in shown}
    store = Store(folder.config["tracking_uri"], folder.config["experiment"], "lock")
    store.open()
    page = f"http://127.0.0.1:5000/#/experiments/{experiment.experiment_id}/runs?workflowType=machine_learning"
    assert store.runs_page("http://127.0.0.1:5000/") == f"{page}&viewStateShareKey=flrml"
