"""The process that follows trainings, started as the logger starts it, over real files and a real database."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from flrml.pipeline.stages.progress import Progress
from flrml.pipeline.tracking.tracker import NEWEST, RunRecord, Tracker


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    uri = f"sqlite:///{tmp_path_factory.mktemp('store') / 'mlflow.db'}"
    Tracker(uri, "first")  # created once: that takes seconds
    return uri


class Running:
    """A follower and the experiment that it writes to."""

    def __init__(self, folder, tracker):
        self.folder, self.tracker = folder, tracker
        command = [sys.executable, "-m", "snakemake_logger_plugin_mlflow.follower"]
        self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, text=True)

    def tell(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def train(self, name, started=None, experiment=None):
        """Start a training in a folder of its own."""
        experiment = self.tracker.client.get_experiment(self.tracker.experiment_id).name
        self.tell(follow=str(self.folder / name))
        progress = Progress(self.folder / name)
        run = {"dataset": "digits", "method": "flrml", "started": started or time.time()}
        progress.start(name, name, run, {"tracking_uri": self.tracker.uri, "experiment": experiment})
        return progress

    def wait_for(self, name, **expected):
        """Wait until the run of a training has a status or a number of objectives; return it."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for run in self.tracker.runs(name, every=True):
                found = {"status": run.info.status, "newest": run.data.tags[NEWEST], **run.data.metrics}
                if expected.items() <= found.items():
                    return run
            time.sleep(0.1)
        pytest.fail(f"no run of {name} with {expected}")

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0


@pytest.fixture
def running(database, request, tmp_path):
    started = Running(tmp_path, Tracker(database, request.node.name, tmp_path / "artifacts"))
    yield started
    started.process.kill()
    started.process.wait()


def test_a_training_is_a_run_while_it_goes_on(running):
    progress = running.train("a")
    progress.metrics(0, objective=8.0)
    progress.metrics(1, objective=4.0)
    run = running.wait_for("a", status="RUNNING", newest="pending", objective=4.0)
    assert run.data.tags["method"] == "flrml"
    progress.metrics(2, objective=2.0)
    running.wait_for("a", objective=2.0)
    history = running.tracker.client.get_metric_history(run.info.run_id, "objective")
    assert [(metric.step, metric.value) for metric in history] == [(0, 8.0), (1, 4.0), (2, 2.0)]


def test_the_result_completes_the_run_and_repeats_no_step(running):
    started = time.time()
    progress = running.train("a", started)
    progress.metrics(0, objective=8.0)
    live = running.wait_for("a", objective=8.0).info.run_id
    progress.end("trained")
    record = RunRecord("a", "a", {"n": 1}, {"accuracy": 0.5}, {"objective": {0: 8.0, 1: 4.0}}, started=started)
    assert running.tracker.log(record) == live
    running.end()
    (run,) = running.tracker.runs("a", every=True)
    assert (run.info.status, run.data.tags[NEWEST], run.data.metrics["accuracy"]) == ("FINISHED", "true", 0.5)
    history = running.tracker.client.get_metric_history(live, "objective")
    assert sorted(metric.step for metric in history) == [0, 1]


def test_runs_end_with_the_follower(running):
    trained, failed, crashed, interrupted = map(running.train, ("trained", "failed", "crashed", "interrupted"))
    for progress in (trained, failed, crashed, interrupted):
        progress.metrics(0, objective=1.0)
    trained.end("trained")
    failed.end("failed", "T: too slow")
    for name in ("trained", "failed", "crashed", "interrupted"):
        running.wait_for(name, objective=1.0)
    running.tell(failed=str(running.folder / "crashed"))
    running.wait_for("crashed", status="FAILED")
    running.end()
    runs = {run.info.run_name: run for run in running.tracker.runs(every=True)}
    assert {name: (run.info.status, run.data.tags[NEWEST]) for name, run in runs.items()} == {
        "trained": ("FINISHED", "pending"),
        "failed": ("FAILED", "false"),
        "crashed": ("FAILED", "false"),
        "interrupted": ("KILLED", "false"),
    }
    assert runs["failed"].data.tags["failure"] == "T: too slow"


def test_a_run_whose_follower_was_killed_is_ended_by_the_next_start(running, request, tmp_path):
    running.train("a").metrics(0, objective=1.0)
    running.wait_for("a", status="RUNNING", objective=1.0)
    os.kill(running.process.pid, signal.SIGKILL)
    running.process.wait()
    again = Running(tmp_path, running.tracker)
    try:
        again.train("b").metrics(0, objective=1.0)
        again.wait_for("a", status="KILLED")
        again.wait_for("b", status="RUNNING")
    finally:
        again.end()


def test_training_again_ends_the_run_before(running):
    running.train("a").metrics(0, objective=1.0)
    running.wait_for("a", objective=1.0)
    running.train("a").metrics(0, objective=2.0)
    running.wait_for("a", status="RUNNING", objective=2.0)
    running.wait_for("a", status="KILLED", objective=1.0)


def test_a_file_of_an_earlier_run_is_left_alone(running):
    running.train("old", started=time.time() - 3600).metrics(0, objective=1.0)
    running.train("new").metrics(0, objective=1.0)
    running.wait_for("new", objective=1.0)
    assert running.tracker.runs("old", every=True) == []


def test_a_line_that_is_not_whole_yet_waits(running):
    progress = running.train("a")
    progress.metrics(0, objective=1.0)
    with progress.path.open("a") as file:
        file.write('{"metrics": {"objective": 2.0}, "st')
        file.flush()
        running.wait_for("a", objective=1.0)
        file.write('ep": 1, "time": 1.0}\n')
    running.wait_for("a", objective=2.0)
