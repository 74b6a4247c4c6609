"""The store of runs: copied, ruined, opened by many processes at once, and on a real server."""

import multiprocessing
import os
import shutil
import sqlite3
import subprocess
import sys
import time

import mlflow
import numpy as np
import pytest
from mlflow.exceptions import MlflowException

from flrml.exceptions import TrackingError
from flrml.pipeline.tracking.experiment import hide_credentials, tracking_uri, without_credentials
from flrml.pipeline.tracking.mlflow_store import Store
from flrml.pipeline.tracking.sync import DIGEST
from flrml.pipeline.tracking.ui import prune
from tests.pipeline.results import run
from tests.pipeline.server import mlflow_server
from tests.pipeline.tracked import TRAINING, Folder, in_processes
from tests.pipeline.tracking.test_sync import predictions


def project(folder):
    """A results folder with a result, and a store of its own."""
    made = Folder(folder / "results", f"sqlite:///{folder}/mlflow.db")
    made.write(run("digits", "flrml", 0.9, training="a"))
    return made


def test_the_environment_wins_over_the_configuration(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert tracking_uri("sqlite:///a.db") == "sqlite:///a.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    assert tracking_uri("sqlite:///a.db") == "http://127.0.0.1:1"


def test_a_password_in_the_address_moves_to_the_variable_for_it(monkeypatch, tmp_path):
    for name in ("USERNAME", "PASSWORD"):
        monkeypatch.setenv(f"MLFLOW_TRACKING_{name}", "")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:p%40ss@host:5000/mlflow")
    hide_credentials()
    values = [os.environ[f"MLFLOW_TRACKING_{name}"] for name in ("URI", "USERNAME", "PASSWORD")]
    assert values == ["https://host:5000/mlflow", "me", "p@ss"]
    assert without_credentials("postgresql://me:pass@host/db") == "postgresql://host/db"
    assert without_credentials("sqlite:////a@b/mlflow.db") == "sqlite:////a@b/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://me:pass@host/db")  # it has no variables
    made = Folder(tmp_path / "results", "sqlite:///unused.db")
    with made.train("a"):
        written = "".join(path.read_text() for path in made.results.rglob("*") if path.is_file())
    assert "me:" not in written
    assert "host/db" in written


@pytest.mark.parametrize("moved", [False, True])
def test_a_copied_or_moved_project_has_artifacts_of_its_own(tmp_path, monkeypatch, moved, trained):
    monkeypatch.chdir(tmp_path)
    original, copied = tmp_path / "original", tmp_path / "copied"
    shutil.copytree(trained.results, original / "results")
    first = Folder(original / "results", "sqlite:///mlflow.db")
    monkeypatch.chdir(original)
    first.sync()
    live = first.train("live")
    first.sync(final=False)
    monkeypatch.chdir(tmp_path)
    shutil.move(original, copied) if moved else shutil.copytree(original, copied)
    before = sorted(original.rglob("*"))
    monkeypatch.chdir(copied)
    copy = Folder(copied / "results", f"sqlite:///{copied}/mlflow.db")
    copy.sync()
    (found,) = (run for run in copy.runs(every=False) if DIGEST in run.data.tags)
    assert found.info.artifact_uri.startswith(copied.as_uri())
    _, predicted, expected = predictions(copy, found)
    np.testing.assert_array_equal(predicted, expected)
    model = copy.client.get_logged_model(found.outputs.model_outputs[0].model_id)
    assert model.artifact_location.startswith(copied.as_uri())
    names = {experiment.name: experiment for experiment in copy.client.search_experiments()}
    (aside,) = (names[name] for name in names if name.startswith("test, moved "))
    kept = copy.client.search_runs([aside.experiment_id])
    assert "RUNNING" not in {run.info.status for run in kept}
    assert max(run.data.metrics.get("accuracy", 0) for run in kept) > 0.3
    copy.sync()
    assert len(copy.client.search_experiments()) == len(names)
    assert sorted(original.rglob("*")) == before
    live.__exit__(None, None, None)


def test_pruning_lists_asks_and_deletes_earlier_runs_of_this_folder_only(tmp_path, monkeypatch, capsys, trained):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("results: results\n")
    trained.config |= {"experiment": "test", "tracking_uri": f"sqlite:///{tmp_path}/mlflow.db"}
    trained.ask(TRAINING)
    other = Folder(tmp_path / "other", f"sqlite:///{tmp_path}/mlflow.db")
    for number in range(2):
        other.write(run("digits", "flrml", 0.5, training=str(number)))
        other.sync()
    trained.sync()
    (first,) = (run for run in trained.runs() if run.outputs.model_outputs)
    trained.write(run("digits", "flrml", 0.8, training="new"))
    (trained.results / TRAINING / "progress.jsonl").unlink()
    monkeypatch.setattr("builtins.input", lambda question: "")
    assert prune("", "config.yaml") == 0
    said = capsys.readouterr().out
    assert first.info.run_id in said
    assert "digits flrml" in said
    assert "accuracy 0." in said
    assert "nan" not in said
    assert said.endswith("nothing deleted\n")
    assert list((tmp_path / "mlartifacts").rglob("classifier.npz"))
    assert prune("1", "config.yaml") == 0
    assert "earlier runs deleted" in capsys.readouterr().out
    assert not list((tmp_path / "mlartifacts").rglob("classifier.npz"))
    with pytest.raises(MlflowException):
        trained.client.get_logged_model(first.outputs.model_outputs[0].model_id)
    assert sorted(run.data.tags["flrml.training"] for run in trained.runs()) == ["0", "1", "new"]
    assert prune("1", "config.yaml") == 0
    assert capsys.readouterr().out == "experiment test, results in results\nno earlier runs\n"


def test_artifacts_behind_a_link_or_elsewhere_are_kept(tmp_path, capsys):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "mlartifacts").symlink_to(elsewhere)
    store = Store(f"sqlite:///{tmp_path}/mlflow.db", "test", tmp_path / "lock")
    store.open()
    found = store.client.create_run(store.experiment_id)
    store.client.log_text(found.info.run_id, "kept", "note.txt")
    store.delete_run(found)
    assert (elsewhere / found.info.run_id / "artifacts" / "note.txt").read_text() == "kept"
    assert "artifacts of a deleted run" in capsys.readouterr().out


def test_a_location_that_somebody_chose_is_kept_and_a_deleted_experiment_comes_back(tmp_path):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    Store(uri, "other", tmp_path / "lock").open()
    client, chosen = mlflow.MlflowClient(uri), (tmp_path / "chosen").as_uri()
    number = client.create_experiment("test", artifact_location=chosen)
    client.delete_experiment(number)
    store = Store(uri, "test", tmp_path / "lock")
    store.open()
    assert store.experiment_id == number
    found = client.get_experiment_by_name("test")
    assert (found.artifact_location, found.lifecycle_stage) == (chosen, "active")


def half_made(path):
    """A database as a process that is killed while it creates the tables leaves it."""
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE experiments (experiment_id INTEGER)")
    database.close()


def test_a_ruined_database_is_named_with_a_remedy(tmp_path):
    half_made(tmp_path / "mlflow.db")
    before = (tmp_path / "mlflow.db").read_bytes()
    with pytest.raises(TrackingError, match=r"mlflow\.db cannot be opened as an MLflow database .* move it away"):
        Store(f"sqlite:///{tmp_path}/mlflow.db", "test", tmp_path / "lock").open()
    assert (tmp_path / "mlflow.db").read_bytes()[:16] == before[:16]


def test_what_an_interrupted_creation_leaves_is_replaced(tmp_path):
    half_made(tmp_path / ".mlflow.db.part")
    (tmp_path / "mlflow.db").touch()  # as a full disk leaves it
    Store(f"sqlite:///{tmp_path}/mlflow.db", "test", tmp_path / "lock").open()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mlflow.db"]


@pytest.mark.slow
def test_a_hundred_kills_while_the_database_is_created_ruin_none(tmp_path):
    random, context = np.random.RandomState(0), multiprocessing.get_context("fork")
    start = time.monotonic()
    assert in_processes(1, lambda _: project(tmp_path / "first").sync()) == [0]
    longest, created = 1.3 * (time.monotonic() - start), 0
    for number in range(100):
        made = project(tmp_path / str(number))
        process = context.Process(target=made.sync)
        process.start()
        time.sleep(random.uniform(0, longest))
        process.kill()
        process.join()
        created += (tmp_path / str(number) / "mlflow.db").exists()
        assert in_processes(1, lambda _, made=made: made.sync()) == [0], number
    assert 0 < created < 100  # kills before and after the database was there


def test_eight_processes_sync_at_once_with_a_missing_database(tmp_path):
    folders = [Folder(tmp_path / f"results{number}", f"sqlite:///{tmp_path}/new/mlflow.db") for number in range(4)]
    for folder in folders:
        folder.write(run("digits", "flrml", 0.5, training=folder.results.name))
    code = (
        "import multiprocessing\n"
        "from flrml.pipeline.tracking.sync import Sync\n"
        "barrier = multiprocessing.get_context('fork').Barrier(8)\n"
        "def work(number):\n"
        "    barrier.wait()\n"
        "    for _ in range(3): Sync(f'results{number % 4}')()\n"
        "started = [multiprocessing.get_context('fork').Process(target=work, args=(n,)) for n in range(8)]\n"
        "for process in started: process.start()\n"
        "for process in started: process.join()\n"
        "print([process.exitcode for process in started])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == f"{[0] * 8}\n", done.stderr
    expected = {folder.results.name: ("FINISHED", "true") for folder in folders}
    assert folders[0].states() == expected
    assert len(folders[0].runs("*")) == 8  # and four experiments


def test_a_server_named_in_the_environment_takes_runs_and_models(tmp_path, trained, monkeypatch):
    with mlflow_server(tmp_path) as address:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        trained.sync()
        monkeypatch.setitem(trained.config, "tracking_uri", address)
        (found,) = trained.runs()
        _, predicted, expected = predictions(trained, found)
        np.testing.assert_array_equal(predicted, expected)
        trained.write(run("digits", "flrml", 0.5, training="b"))
        trained.sync()
        assert len(trained.runs(every=False)) == 1


def test_a_server_with_a_password_takes_runs_of_those_who_have_it(tmp_path, monkeypatch, folder):
    """As docs/mlflow.md sets it up."""
    (tmp_path / "auth.ini").write_text(
        "[mlflow]\ndefault_permission = NO_PERMISSIONS\n"
        f"database_uri = sqlite:///{tmp_path}/auth.db\nadmin_username = admin\nadmin_password = correct-horse-1\n"
    )
    variables = {"MLFLOW_AUTH_CONFIG_PATH": str(tmp_path / "auth.ini"), "MLFLOW_FLASK_SERVER_SECRET_KEY": "secret"}
    for name in ("USERNAME", "PASSWORD"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    folder.write(run("digits", "flrml", 0.5, training="a"))
    with mlflow_server(tmp_path, "--app-name", "basic-auth", **variables) as address:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        with pytest.raises(MlflowException, match=r"401|not authenticated"):
            folder.sync()
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "")
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "")
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address.replace("://", "://admin:correct-horse-1@"))
        folder.sync()
        folder.config["tracking_uri"] = address
        assert [found.data.metrics["accuracy"] for found in folder.runs()] == [0.5]
    written = "".join(path.read_text() for path in folder.results.rglob("*.json*"))
    assert "correct-horse" not in written
