import socket

import pytest

from flrml.exceptions import TrackingError
from flrml.pipeline.tracking import ui
from flrml.pipeline.tracking.experiment import Follower
from tests.pipeline.results import run
from tests.pipeline.tracked import Folder


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A configuration in a project of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("experiment: mine\nresults: results\n")
    return "config.yaml"


def test_opening_the_store_repairs_what_a_crash_left_and_the_report_joins_the_experiment(config, tmp_path, capsys):
    (tmp_path / "report.html").write_text("<html>")
    folder = Folder(tmp_path / "results", f"sqlite:///{tmp_path}/mlflow.db", "mine")
    assert ui.add_report("report.html", config) == 0
    assert "has no finished run yet" in capsys.readouterr().err
    live = folder.train("a")
    folder.sync(final=False)
    assert folder.states() == {"a": ("RUNNING", "true")}
    live.__exit__(None, None, None)
    folder.write(run("digits", "flrml", 0.9, training="b"))
    assert ui.add_report("report.html", config) == 0
    assert folder.states() == {"a": ("KILLED", "false"), "b": ("FINISHED", "true")}
    (experiment,) = folder.runs("")
    assert "report.html" in [file.path for file in folder.client.list_artifacts(experiment.info.run_id)]


@pytest.mark.parametrize("port", ["0", "65536", "five"])
def test_a_port_that_cannot_be_is_refused(config, port):
    with pytest.raises(TrackingError, match=f"got '{port}'"):
        ui.serve(port, config)


def test_a_port_in_use_is_named_with_a_remedy(config, tmp_path):
    Folder(tmp_path / "results", f"sqlite:///{tmp_path}/mlflow.db", "mine")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(TrackingError, match=f"port {port} is in use .* `make ui PORT={port + 1}`"):
            ui.serve(str(port), config)


def test_results_without_runs_are_named_with_a_remedy(config):
    with pytest.raises(TrackingError, match="results has no runs yet; `make run`, or `make demo`"):
        ui.serve("5000", config)


def test_without_a_configuration_the_last_experiment_is_opened(config, tmp_path):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    Folder(tmp_path / "results", uri, "mine")
    other = Folder(tmp_path / "results/demo", uri, "demo")
    assert ui.open_results().store.experiment == "mine"
    Follower(other.results, other.config, [], []).start()
    Follower.current.finish()
    assert ui.open_results().store.experiment == "demo"
    assert ui.open_results(config).store.experiment == "mine"
