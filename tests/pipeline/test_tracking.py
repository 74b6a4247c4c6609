"""Runs in a real SQLite store and on a real server."""

import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

import mlflow
import numpy as np
import pytest
from mlflow.exceptions import MlflowException

from flrml.datasets import open_split, prepare
from flrml.exceptions import TrackingError
from flrml.pipeline.decomposition import decompose_dataset
from flrml.pipeline.evaluation import evaluate
from flrml.pipeline.keys import tracking_uri
from flrml.pipeline.owners import this_process
from flrml.pipeline.records import log_run, of_run, of_sweep
from flrml.pipeline.store import COLUMNS, SHOWN, VIEW, runs_page
from flrml.pipeline.tracking import FOLDER, KEY, NEWEST, OWNER, STARTED, RunRecord, Tracker
from flrml.pipeline.training import train
from flrml.pipeline.triplets import draw_for_dataset
from tests.pipeline.results import files, point, run
from tests.pipeline.server import mlflow_server


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """A store that the tests of this module share: making one takes seconds."""
    return f"sqlite:///{tmp_path_factory.mktemp('store') / 'mlflow.db'}"


@pytest.fixture
def tracker(database, request, tmp_path):
    """An experiment of the test's own."""
    return Tracker(database, request.node.name, tmp_path / "artifacts")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "digits"
    prepare("digits", folder, options={"max_train": 200, "max_test": 50})
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory, data):
    """A folder with the files of a trained and evaluated model."""
    folder = tmp_path_factory.mktemp("runs")
    draw_for_dataset(data, folder / "triplets.npy", n_triplets=4, seed=0)
    run = {"dataset": "digits", "method": "mflrml", "seed": 0, "parameters": {"n_components": 10}}
    out = folder / "model.npz", folder / "history.json"
    train(data, folder / "triplets.npy", None, *out, run=run, minutes=1, memory_mb=3000)
    list(evaluate(data, out[:1], out[1:], [folder / "metrics.json"], n_neighbors=3))
    return folder


def log_trained(tracker, folder):
    record = log_run(tracker, folder / "metrics.json", folder / "model.npz", "test", n_neighbors=3)
    (found,) = tracker.runs(record.key)
    return found


def by_name(tracker):
    return {found.data.tags["mlflow.runName"]: found for found in tracker.runs()}


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
    code = "from flrml.pipeline.owners import this_process; print(this_process())"
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
        parent = tracker.log(of_sweep(files(tmp_path, contents), "test", "margin"))
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
    parent = tracker.log(of_sweep(files(tmp_path, contents), "test", "batches"))
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
        out = tmp_path / "model.npz", tmp_path / "history.json"
        train(data, tmp_path / "triplets.npy", spectrum, *out, run=run, minutes=1, memory_mb=3000)
        list(evaluate(data, out[:1], out[1:], [tmp_path / "metrics.json"]))
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
    assert back.predict(back.input_example).shape == (2,)
    folder = Path(url2pathname(urlparse(model.artifact_location).path))
    assert f"flrml=={version('flrml')}" in (folder / "requirements.txt").read_text()
    assert not list(folder.rglob("*.pkl"))
    assert found.outputs.model_outputs[0].model_id == model.model_id


def test_logging_a_model_again_stores_nothing_twice(tracker, tmp_path, trained):
    first = log_trained(tracker, trained)
    before = sorted((tmp_path / "artifacts").rglob("*"))
    assert log_trained(tracker, trained).info.run_id == first.info.run_id
    assert sorted((tmp_path / "artifacts").rglob("*")) == before


def test_a_model_too_large_is_named_instead(tracker, trained, monkeypatch):
    monkeypatch.setattr("flrml.pipeline.logged_models.MAX_MODEL_BYTES", 10)
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


def test_the_environment_wins_over_the_configuration(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert tracking_uri("sqlite:///a.db") == "sqlite:///a.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    assert tracking_uri("sqlite:///a.db") == "http://127.0.0.1:1"


@pytest.mark.parametrize("moved", [False, True])
def test_a_copied_or_moved_project_has_artifacts_of_its_own(tmp_path, monkeypatch, moved, trained):
    original, copied = tmp_path / "original", tmp_path / "copied"
    original.mkdir()
    tracker = Tracker(f"sqlite:///{original}/mlflow.db", "test")
    found = log_trained(tracker, trained)
    tracker.client.log_text(found.info.run_id, "kept", "model.txt")
    shutil.move(original, copied) if moved else shutil.copytree(original, copied)
    before = sorted(original.rglob("*"))
    monkeypatch.chdir(copied)
    copy = Tracker("sqlite:///mlflow.db", "test")
    new = copy.log(RunRecord("b", "b"))
    copy.client.log_text(new, "new", "new.txt")
    assert (copied / "mlartifacts" / new / "artifacts" / "new.txt").read_text() == "new"
    assert copy.client.get_run(found.info.run_id).info.artifact_uri.startswith(copied.as_uri())
    (model,) = copy.models(found.info.run_id)
    assert model.artifact_location.startswith(copied.as_uri())
    copy.retire_all_but([], prefix="")
    assert copy.prune() == 2
    assert not list((copied / "mlartifacts").rglob("*.txt"))
    assert sorted(original.rglob("*")) == before


def test_a_copy_of_the_database_alone_leaves_the_artifacts_of_the_original_alone(tmp_path, capsys):
    original, copied = tmp_path / "original", tmp_path / "copied"
    for folder in (original, copied):
        folder.mkdir()
    tracker = Tracker(f"sqlite:///{original}/mlflow.db", "test")
    run_id = tracker.log(RunRecord("a", "a"))
    tracker.client.log_text(run_id, "kept", "model.txt")
    shutil.copy(original / "mlflow.db", copied / "mlflow.db")
    copy = Tracker(f"sqlite:///{copied}/mlflow.db", "test")
    copy.retire_all_but([], prefix="")
    assert copy.prune() == 1
    assert (original / "mlartifacts" / run_id / "artifacts" / "model.txt").read_text() == "kept"
    assert f"left alone, not in {copied}/mlartifacts" in capsys.readouterr().out


def test_a_location_that_somebody_chose_is_kept(tmp_path):
    Tracker(f"sqlite:///{tmp_path}/mlflow.db", "other")
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    chosen = (tmp_path / "chosen").as_uri()
    client.create_experiment("test", artifact_location=chosen)
    Tracker(f"sqlite:///{tmp_path}/mlflow.db", "test")
    assert client.get_experiment_by_name("test").artifact_location == chosen


def test_artifacts_behind_a_link_are_left_alone(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "mlartifacts").symlink_to(elsewhere)
    tracker = Tracker(f"sqlite:///{tmp_path}/mlflow.db", "test")
    run_id = tracker.log(RunRecord("a", "a"))
    tracker.client.log_text(run_id, "kept", "model.txt")
    tracker.log(RunRecord("a", "b"))
    assert tracker.prune() == 1
    assert (elsewhere / run_id / "artifacts" / "model.txt").read_text() == "kept"


def half_made(path):
    """A database as a process that is killed while it creates the tables leaves it."""
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE experiments (experiment_id INTEGER)")
    database.close()


def test_a_ruined_database_is_named_with_a_remedy(tmp_path):
    half_made(tmp_path / "mlflow.db")
    before = (tmp_path / "mlflow.db").read_bytes()
    with pytest.raises(TrackingError, match=r"mlflow\.db cannot be opened as an MLflow database .* move it away"):
        Tracker(f"sqlite:///{tmp_path}/mlflow.db", "test")
    assert (tmp_path / "mlflow.db").read_bytes()[:16] == before[:16]


def test_what_an_interrupted_creation_leaves_is_replaced(tmp_path):
    half_made(tmp_path / ".mlflow.db.1.creating")
    (tmp_path / "mlflow.db").touch()  # as a full disk leaves it
    tracker = Tracker(f"sqlite:///{tmp_path}/mlflow.db", "test", tmp_path / "artifacts")
    tracker.log(RunRecord("a", "a"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mlflow.db", "mlflow.db.lock"]


def in_processes(count, work):
    """Run work(number) in forked processes that start at once; return their exit codes."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(count)

    def start(number):
        barrier.wait()
        work(number)

    started = [context.Process(target=start, args=(number,)) for number in range(count)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    return [process.exitcode for process in started]


def test_four_processes_log_the_same_key_at_once(tmp_path):
    uri = f"sqlite:///{tmp_path}/mlflow.db"

    def work(number):
        tracker = Tracker(uri, "test", tmp_path / "artifacts")
        for _ in range(3):
            tracker.log(RunRecord("same", str(number), metrics={"accuracy": 0.5}))

    assert in_processes(4, work) == [0] * 4
    tracker = Tracker(uri, "test")
    assert [found.info.status for found in tracker.runs()] == ["FINISHED"]
    assert len(tracker.runs(every=True)) == 4  # each process logs its result three times


@pytest.mark.slow
def test_a_hundred_kills_while_the_database_is_created_ruin_none(tmp_path):
    random, context = np.random.RandomState(0), multiprocessing.get_context("fork")
    start = time.monotonic()
    assert in_processes(1, lambda _: Tracker(f"sqlite:///{tmp_path}/mlflow.db", "test")) == [0]
    longest, created = 1.3 * (time.monotonic() - start), 0
    for number in range(100):
        folder = tmp_path / str(number)
        uri = f"sqlite:///{folder}/mlflow.db"
        process = context.Process(target=Tracker, args=(uri, "test", folder / "artifacts"))
        process.start()
        time.sleep(random.uniform(0, longest))
        process.kill()
        process.join()
        created += (folder / "mlflow.db").exists()
        assert in_processes(1, lambda _, uri=uri: Tracker(uri, "test").log(RunRecord("a", "a"))) == [0], number
    assert 0 < created < 100  # kills before and after the database was there


def test_eight_processes_start_at_once_on_a_missing_database(tmp_path):
    code = (
        "import multiprocessing\n"
        "from flrml.pipeline.tracking import RunRecord, Tracker\n"
        "barrier = multiprocessing.get_context('fork').Barrier(8)\n"
        "def work(number):\n"
        "    barrier.wait()\n"
        "    tracker = Tracker('sqlite:///new/mlflow.db', 'test')\n"
        "    for run in range(3):\n"
        "        tracker.log(RunRecord(f'{number}/{run}', str(number), metrics={'accuracy': run}))\n"
        "started = [multiprocessing.get_context('fork').Process(target=work, args=(n,)) for n in range(8)]\n"
        "for process in started: process.start()\n"
        "for process in started: process.join()\n"
        "print([process.exitcode for process in started])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == f"{[0] * 8}\n", done.stderr
    tracker = Tracker(f"sqlite:///{tmp_path / 'new' / 'mlflow.db'}", "test")
    assert len(tracker.runs()) == 24
    assert {found.info.status for found in tracker.runs()} == {"FINISHED"}


def test_a_server_named_in_the_environment_takes_runs_and_models(tmp_path, data, trained, monkeypatch):
    with mlflow_server(tmp_path) as address:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        monkeypatch.chdir(tmp_path)
        tracker = Tracker(tracking_uri("sqlite:///unused.db"), "test")
        for number in range(2):
            tracker.log(RunRecord("a", "a", {"n": 1}, {"accuracy": 0.5 + number}, {"objective": {0: 1.0}}))
        assert [found.data.metrics["accuracy"] for found in tracker.runs()] == [1.5]
        found = log_trained(tracker, trained)
        (model,) = tracker.models(found.info.run_id)
        mlflow.set_tracking_uri(address)
        back = mlflow.pyfunc.load_model(f"models:/{model.model_id}")
        X, y = (np.array(part) for part in open_split(data / "test"))
        assert np.mean(back.predict(X) == y) == found.data.metrics["accuracy"]
        assert tracker.prune() == 1
    assert not Path("unused.db").exists()


def test_a_server_with_a_password_takes_runs_of_those_who_have_it(tmp_path, monkeypatch):
    """As docs/mlflow.md sets it up."""
    (tmp_path / "auth.ini").write_text(
        "[mlflow]\ndefault_permission = NO_PERMISSIONS\n"
        f"database_uri = sqlite:///{tmp_path}/auth.db\nadmin_username = admin\nadmin_password = correct-horse-1\n"
    )
    variables = {"MLFLOW_AUTH_CONFIG_PATH": str(tmp_path / "auth.ini"), "MLFLOW_FLASK_SERVER_SECRET_KEY": "secret"}
    for name in ("USERNAME", "PASSWORD"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    with mlflow_server(tmp_path, "--app-name", "basic-auth", **variables) as address:
        with pytest.raises(MlflowException, match=r"401|not authenticated"):
            Tracker(address, "test")
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "admin")
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "correct-horse-1")
        tracker = Tracker(address, "test")
        tracker.log(RunRecord("a", "a", metrics={"accuracy": 0.5}))
        assert [found.data.metrics["accuracy"] for found in tracker.runs()] == [0.5]
