import socket

import pytest
import yaml

from flrml.pipeline.tracking import ui
from flrml.pipeline.tracking.tracker import Tracker


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)  # it would win, and MLflow sets it in other tests
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"experiment": "mine", "tracking_uri": f"sqlite:///{tmp_path}/mlflow.db"}))
    return path


def test_the_pages_of_all_experiments_are_named_those_of_the_configuration_first(config, capsys):
    other = Tracker(ui.configured(str(config))[0], "demo")
    tracker = ui.open_tracker(str(config))
    ui._say_where("http://127.0.0.1:5000", tracker)
    said = capsys.readouterr().out.splitlines()
    first, every = (line for line in said if line.startswith(("Runs: ", "All of them: ")))
    (demo,) = (line for line in said if line.startswith("Experiment demo: "))
    assert f"/experiments/{tracker.experiment_id}/" in first
    assert f"/experiments/{tracker.experiment_id}/" in every
    assert f"/experiments/{other.experiment_id}/" in demo


@pytest.mark.parametrize("port", ["0", "65536", "five"])
def test_a_port_that_is_none_is_refused(config, capsys, port):
    assert ui.main(str(config), port) == 2
    assert f"got {port!r}" in capsys.readouterr().err


def test_a_port_in_use_is_named_with_a_remedy(config, capsys):
    with socket.socket() as taken:
        taken.bind((ui.ADDRESS, 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert ui.main(str(config), str(port)) == 1
    assert f"port {port} is in use" in capsys.readouterr().err
