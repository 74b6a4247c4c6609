"""Runs in a real SQLite store and on a real server."""

import multiprocessing
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import mlflow
import numpy as np
import pytest
from mlflow.exceptions import MlflowException

from flrml import FLRML
from flrml.datasets import open_split, prepare
from flrml.exceptions import TrackingError
from flrml.pipeline.models import Metric
from flrml.pipeline.records import log_model, of_run, of_sweep
from flrml.pipeline.tracking import COLUMNS, VIEW_TAG, RunRecord, Tracker, runs_page, tracking_uri
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


def model_in(folder, data):
    X, y = open_split(data / "train")
    metric = Metric.of(FLRML(10, max_rank=30, random_state=0).fit(np.array(X), np.array(y)))
    metric.save(folder / "model.npz", {})
    return folder / "model.npz", metric


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
    (used,) = found.inputs.dataset_inputs
    assert (used.dataset.name, used.dataset.digest) == ("digits", "0123456789abcdef")


def test_a_long_history_is_logged_to_its_end(tracker):
    run_id = tracker.log(RunRecord("long", "long", series={"objective": list(range(2500))}))
    assert len(tracker.client.get_metric_history(run_id, "objective")) == 2500


def test_logging_again_replaces_the_run_and_its_artifacts(tracker, tmp_path):
    first = tracker.log(RunRecord("a", "first", metrics={"accuracy": 0.1}))
    tracker.client.log_text(first, "content", "note.txt")
    tracker.log(RunRecord("b", "other"))
    tracker.log(RunRecord("a", "second", metrics={"accuracy": 0.2}))
    assert {name: found.data.metrics for name, found in by_name(tracker).items()} == {
        "second": {"accuracy": 0.2},
        "other": {},
    }
    assert not list((tmp_path / "artifacts").rglob("note.txt"))


def test_a_run_left_running_by_a_killed_job_is_replaced(tracker):
    tracker.client.create_run(tracker.experiment_id, tags={"flrml.key": "a"})
    tracker.log(RunRecord("a", "whole"))
    assert [found.info.status for found in tracker.runs()] == ["FINISHED"]


def test_runs_that_are_no_longer_asked_for_go_away(tracker):
    for key in ("test/digits/a", "test/digits/b", "test/r8/a"):
        tracker.log(RunRecord(key, key))
    tracker.keep_only(["test/digits/a"], prefix="test/digits/")
    assert set(by_name(tracker)) == {"test/digits/a", "test/r8/a"}


def test_a_failure_shows_as_failed_with_its_reason(tracker, tmp_path):
    (path,) = files(tmp_path, [run("digits", "rmml")])
    found = tracker.client.get_run(tracker.log(of_run(path, "test")))
    assert found.info.status == "FAILED"
    assert found.data.tags["failure"] == "E: no solution"
    assert found.data.tags["mlflow.note.content"] == "E: no solution"


def test_a_sweep_is_a_parent_with_its_points_as_children(tracker, tmp_path):
    contents = [point("digits", "margin_ratio", r, a) for r, a in ((0.5, [0.7, 0.9]), (1.0, [0.9]), (2.0, [-1]))]
    for _ in range(2):
        parent = tracker.log(of_sweep(files(tmp_path, contents), "test", "margin"))
    found = by_name(tracker)
    assert len(found) == 4
    assert found["digits sweep of margin_ratio"].data.metrics == {"accuracy": 0.9, "best_margin_ratio": 1.0}
    children = [each for each in found.values() if each.data.tags.get("mlflow.parentRunId") == parent]
    assert len(children) == 3
    assert found["digits margin_ratio = 0.5"].data.metrics["accuracy_std"] == pytest.approx(0.1)
    assert found["digits margin_ratio = 2.0"].info.status == "FAILED"
    assert found["digits margin_ratio = 2.0"].data.tags["failure"] == "T: too slow"


def test_a_sweep_over_batches_keeps_the_accuracy_by_batch(tracker, tmp_path):
    contents = [point("digits", "batch_triplets", 20, [0.6, 0.8], batches=3)]
    tracker.log(of_sweep(files(tmp_path, contents), "test", "batches"))
    child = by_name(tracker)["digits batch_triplets = 20"]
    history = tracker.client.get_metric_history(child.info.run_id, "accuracy_by_batch")
    assert [metric.value for metric in history] == pytest.approx([0.35, 0.35, 0.7])


def test_a_logged_model_transforms_and_predicts(tracker, tmp_path, data):
    model, metric = model_in(tmp_path, data)
    run_id = tracker.log(RunRecord("a", "a"))
    log_model(tracker, run_id, data, model, n_neighbors=3)
    mlflow.set_tracking_uri(tracker.uri)
    back = mlflow.sklearn.load_model(f"runs:/{run_id}/model")
    X, y = (np.array(part) for part in open_split(data / "test"))
    np.testing.assert_array_equal(back.transform(X), metric.embed(X))
    assert back.n_neighbors == 3
    assert back.score(X, y) > 0.7
    predict = mlflow.pyfunc.load_model(f"runs:/{run_id}/model").predict
    np.testing.assert_array_equal(predict(X), back.predict(X))


def test_a_model_too_large_is_named_instead(tracker, tmp_path, data, monkeypatch):
    monkeypatch.setattr("flrml.pipeline.records.MAX_MODEL_BYTES", 10)
    model, _ = model_in(tmp_path, data)
    run_id = tracker.log(RunRecord("a", "a"))
    log_model(tracker, run_id, data, model, n_neighbors=5)
    assert str(model) in tracker.client.get_run(run_id).data.tags["model"]


def test_a_deleted_experiment_comes_back(tracker, tmp_path, request):
    tracker.log(RunRecord("a", "a"))
    tracker.client.delete_experiment(tracker.experiment_id)
    again = Tracker(tracker.uri, request.node.name, tmp_path / "artifacts")
    assert again.experiment_id == tracker.experiment_id
    again.log(RunRecord("a", "a"))
    assert len(again.runs()) == 1


def test_the_experiment_carries_the_view_that_its_address_names(tracker):
    view = tracker.client.get_experiment(tracker.experiment_id).tags[VIEW_TAG]
    assert all(f'"{column}"' in view for column in COLUMNS)
    assert runs_page("http://127.0.0.1:5000/", "7") == (
        "http://127.0.0.1:5000/#/experiments/7/runs?workflowType=machine_learning&viewStateShareKey=flrml"
    )


def test_the_environment_wins_over_the_configuration(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert tracking_uri("sqlite:///a.db") == "sqlite:///a.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    assert tracking_uri("sqlite:///a.db") == "http://127.0.0.1:1"


def test_a_copied_project_leaves_the_artifacts_of_the_original_alone(tmp_path, monkeypatch, capsys):
    original, copied = tmp_path / "original", tmp_path / "copied"
    original.mkdir()
    monkeypatch.chdir(original)
    tracker = Tracker(f"sqlite:///{original}/mlflow.db", "test")
    run_id = tracker.log(RunRecord("a", "a"))
    tracker.client.log_text(run_id, "kept", "model.txt")
    shutil.copytree(original, copied)
    monkeypatch.chdir(copied)
    copy = Tracker(f"sqlite:///{copied}/mlflow.db", "test")
    copy.log(RunRecord("a", "a"))
    copy.keep_only([], prefix="")
    assert (original / "mlartifacts" / run_id / "artifacts" / "model.txt").read_text() == "kept"
    assert f"left alone, not in {copied}/mlartifacts" in capsys.readouterr().out


def test_artifacts_behind_a_link_are_left_alone(tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "mlartifacts").symlink_to(elsewhere)
    monkeypatch.chdir(tmp_path)
    tracker = Tracker(f"sqlite:///{tmp_path}/mlflow.db", "test")
    run_id = tracker.log(RunRecord("a", "a"))
    tracker.client.log_text(run_id, "kept", "model.txt")
    tracker.log(RunRecord("a", "a"))
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
    assert [found.info.status for found in Tracker(uri, "test").runs()] == ["FINISHED"]


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


def test_a_server_named_in_the_environment_takes_runs_and_models(tmp_path, data, monkeypatch):
    model, metric = model_in(tmp_path, data)
    with mlflow_server(tmp_path) as address:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        monkeypatch.chdir(tmp_path)
        tracker = Tracker(tracking_uri("sqlite:///unused.db"), "test")
        for _ in range(2):
            run_id = tracker.log(RunRecord("a", "a", {"n": 1}, {"accuracy": 0.5}, {"objective": [1.0] * 1500}))
            log_model(tracker, run_id, data, model, n_neighbors=5)
        assert [found.data.metrics["accuracy"] for found in tracker.runs()] == [0.5]
        mlflow.set_tracking_uri(address)
        back = mlflow.sklearn.load_model(f"runs:/{run_id}/model")
        X, _ = open_split(data / "test")
        np.testing.assert_array_equal(back.transform(np.array(X)), metric.embed(np.array(X)))
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
