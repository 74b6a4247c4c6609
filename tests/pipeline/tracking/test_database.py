"""The store of runs: copied, ruined, opened by many processes at once, and on a real server."""

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

from flrml.datasets import open_split
from flrml.exceptions import TrackingError
from flrml.pipeline.tracking.keys import tracking_uri
from flrml.pipeline.tracking.tracker import RunRecord, Tracker
from tests.pipeline.server import mlflow_server
from tests.pipeline.tracked import in_processes, log_trained


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
        "from flrml.pipeline.tracking.tracker import RunRecord, Tracker\n"
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
