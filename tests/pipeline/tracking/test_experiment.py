"""The run of a whole experiment."""

import csv

import pytest
import yaml

from flrml.pipeline.tracking import prune, ui
from flrml.pipeline.tracking.experiment import log_experiment, main
from flrml.pipeline.tracking.records import of_run
from flrml.pipeline.tracking.tracker import KEY, RunRecord, Tracker
from tests.pipeline.results import files, run

CONFIG = {"experiment": "test", "seeds": [0], "max_rank": 60, "datasets": {"digits": {}}, "methods": {"flrml": {}}}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a configuration, results, a figure and a table."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    for name in ("figures/margin.png", "figures/margin.pdf", "figures/margin.csv", "tables/summary.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"content of {name}")
    with open("tables/summary.csv", "w") as file:
        csv.writer(file).writerow(["a", "b"])
    return tmp_path


def log(project, tracker, accuracy=0.9):
    results = files(project, [run("digits", "flrml", accuracy), run("digits", "kissme")])
    tracker.log(of_run(results[0], "test"))
    return log_experiment(
        tracker,
        CONFIG,
        drawn=["figures/margin.pdf", "tables/summary.md"],
        results=results,
        keys=["test/digits/flrml/0"],
    )


def artifacts(tracker, run_id):
    found = tracker.client.list_artifacts(run_id)
    inside = [
        file for folder in found if folder.is_dir for file in tracker.client.list_artifacts(run_id, folder.path)
    ]
    return {file.path for file in [*found, *inside] if not file.is_dir}


def test_the_run_of_an_experiment_carries_what_it_wrote_and_is_the_parent(project):
    tracker = Tracker("sqlite:///mlflow.db", "test")
    run_id = log(project, tracker)
    assert artifacts(tracker, run_id) == {
        "config.yaml",
        "environment.txt",
        "figures/margin.png",
        "figures/margin.pdf",
        "figures/margin.csv",
        "tables/summary.md",
        "tables/summary.csv",
    }
    found = tracker.client.get_run(run_id)
    assert found.data.params["max_rank"] == "60"
    assert found.data.metrics == {"runs": 2, "failed": 1, "best_accuracy/digits": 0.9}
    assert "| digits | FLRML | 90.0 % |" in found.data.tags["mlflow.note.content"]
    assert found.data.tags["mlflow.source.git.commit"]
    (child,) = tracker.runs("test/digits/flrml/0")
    assert child.data.tags["mlflow.parentRunId"] == run_id
    assert log(project, tracker) == run_id
    assert len(tracker.runs(every=True)) == 2


def test_a_changed_figure_makes_a_new_run_that_takes_the_children_over(project):
    tracker = Tracker("sqlite:///mlflow.db", "test")
    before = log(project, tracker)
    (project / "figures/margin.png").write_text("drawn again")
    after = log(project, tracker)
    assert before != after
    assert [found.info.run_id for found in tracker.runs("test")] == [after]
    (child,) = tracker.runs("test/digits/flrml/0")
    assert child.data.tags["mlflow.parentRunId"] == after


def test_the_report_is_added_to_the_newest_run(project, capsys):
    (project / "report.html").write_text("<html>")
    assert main("config.yaml", "report.html") == 0
    assert "has no finished run yet" in capsys.readouterr().err
    tracker = Tracker("sqlite:///mlflow.db", "test")
    run_id = log(project, tracker)
    assert main("config.yaml", "report.html") == 0
    assert "report.html" in artifacts(tracker, run_id)


def test_pruning_from_the_command_line_says_how_many_runs_are_deleted(project, capsys):
    tracker = Tracker("sqlite:///mlflow.db", "test")
    for number in range(3):
        tracker.log(RunRecord("a", str(number)))
    assert prune.main("config.yaml") == 0
    assert capsys.readouterr().out == "2 earlier runs deleted, 1 newest ones kept\n"
    assert [found.data.tags[KEY] for found in tracker.runs(every=True)] == ["a"]


def test_a_port_that_is_taken_gets_one_line_that_says_what_to_do(project, capsys):
    with ui.socket.socket() as other:
        other.bind((ui.ADDRESS, 0))
        other.listen()
        port = other.getsockname()[1]
        assert ui.main("config.yaml", str(port)) == 1
    said = capsys.readouterr()
    assert said.err == f"port {port} is in use by another program: choose one with `make ui PORT={port + 1}`\n"


@pytest.mark.parametrize("port", ["no", "0", "70000"])
def test_a_port_that_cannot_be_is_refused(project, capsys, port):
    assert ui.main("config.yaml", port) == 2
    assert "port must be a number from 1 to 65535" in capsys.readouterr().err
