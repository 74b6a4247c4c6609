import socket

import pytest

from flrml.pipeline.tracking import ui
from flrml.pipeline.tracking.mlflow_store import Store
from tests.pipeline.results import run
from tests.pipeline.tracked import Folder


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A configuration in a project of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("experiment: mine\n")
    return "config.yaml"


def test_the_pages_of_all_experiments_are_named_those_of_the_configuration_first(config, capsys):
    other = Store("sqlite:///mlflow.db", "demo", "lock")
    other.open()
    store, sync = ui.open_store(config)
    assert sync is None
    ui._say_where("http://127.0.0.1:5000", store)
    said = capsys.readouterr().out.splitlines()
    first, every = (line for line in said if line.startswith(("Runs: ", "All of them: ")))
    (demo,) = (line for line in said if line.startswith("Experiment demo: "))
    assert f"/experiments/{store.experiment_id}/" in first
    assert f"/experiments/{store.experiment_id}/" in every
    assert f"/experiments/{other.experiment_id}/" in demo


def test_opening_the_store_repairs_what_a_crash_left_and_the_report_joins_the_experiment(config, tmp_path, capsys):
    (tmp_path / "report.html").write_text("<html>")
    assert ui.add_report(config, "report.html") == 0
    assert "has no finished run yet" in capsys.readouterr().err
    folder = Folder(tmp_path / "results", f"sqlite:///{tmp_path}/mlflow.db", "mine")
    live = folder.train("a")
    folder.sync(final=False)
    assert folder.states() == {"a": ("RUNNING", "pending")}
    live.__exit__(None, None, None)
    folder.write(run("digits", "flrml", 0.9, training="b"))
    assert ui.add_report(config, "report.html") == 0
    assert folder.states() == {"a": ("KILLED", "false"), "b": ("FINISHED", "true")}
    (experiment,) = folder.runs("")
    assert "report.html" in [file.path for file in folder.client.list_artifacts(experiment.info.run_id)]


@pytest.mark.parametrize("port", ["0", "65536", "five"])
def test_a_port_that_cannot_be_is_refused(config, capsys, port):
    assert ui.serve(config, port) == 2
    assert f"got {port!r}" in capsys.readouterr().err


def test_a_port_in_use_is_named_with_a_remedy(config, capsys):
    with socket.socket() as taken:
        taken.bind((ui.ADDRESS, 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert ui.serve(config, str(port)) == 1
    assert capsys.readouterr().err == (
        f"port {port} is in use by another program: choose one with `make ui PORT={port + 1}`\n"
    )
