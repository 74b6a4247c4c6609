"""The process that follows a results folder, started as a run of Snakemake starts it."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from tests.pipeline.results import run
from tests.pipeline.server import free_port


class Following:
    """A process that follows a results folder."""

    def __init__(self, folder, **variables):
        self.folder = folder
        command = [sys.executable, "-m", "flrml.pipeline", "follow", str(folder.results)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | variables
        )

    def wait_for(self, **expected):
        """Wait until the runs of the training have these states; a training may be left out."""
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            if self.folder.client.get_experiment_by_name(self.folder.config["experiment"]) and (
                expected.items() <= self.folder.states().items()
            ):
                return
            time.sleep(0.1)
        pytest.fail(f"no {expected} in {self.folder.states()}")

    def end(self):
        """Close the input; return what was said until the end."""
        self.process.stdin.close()
        said = self.process.stderr.read()
        self.process.wait(120)
        return said


@pytest.fixture
def start(folder):
    started = []

    def start(**variables):
        started.append(Following(folder, **variables))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()


def test_trainings_are_followed_until_the_input_ends_and_signals_do_not_stop_it(folder, start):
    folder.sync()
    following = start()
    live = folder.train("a")
    live.metrics(0, objective=8.0)
    following.wait_for(a=("RUNNING", "true"))
    for each in (signal.SIGINT, signal.SIGTERM):
        os.kill(following.process.pid, each)
    live.end("trained")
    live.__exit__(None, None, None)
    following.wait_for(a=("FINISHED", "true"))
    folder.write(run("digits", "flrml", 0.9, training="a"))
    following.wait_for(a=("FINISHED", "true"))
    folder.train("b").__exit__(None, None, None)
    said = following.end()
    assert (len(said.splitlines()), following.process.returncode) == (1, 0)
    assert said.startswith("2 runs in MLflow: open them with `make ui`, http://127.0.0.1:5000/#/experiments/")


def test_no_page_is_named_before_the_first_training(folder, start):
    folder.ask("runs/digits/flrml/seed0")
    assert start().end() == "no run in MLflow yet\n"


def test_what_a_killed_follower_leaves_is_put_right_by_the_next(folder, start):
    folder.sync()
    following, live = start(), folder.train("a")
    following.wait_for(a=("RUNNING", "true"))
    following.process.kill()
    live.__exit__(None, None, None)
    start().wait_for(a=("KILLED", "false"))


@pytest.mark.parametrize("answers", [False, True])
def test_a_server_that_is_not_there_or_never_answers_costs_one_line(folder, start, answers):
    """The results are logged by the next sync."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(50)
        port = str(silent.getsockname()[1]) if answers else free_port()
        address = f"http://127.0.0.1:{port}"
        following = start(MLFLOW_TRACKING_URI=address, MLFLOW_HTTP_REQUEST_TIMEOUT="1")
        folder.train("a").__exit__(None, None, None)
        folder.write(run("digits", "flrml", 0.9, training="a"))
        said = following.process.stderr.readline() + following.end()  # at the end, it tries again
    assert len(said.splitlines()) == 1, said
    assert said.startswith("MLflow is not up to date (")
    assert "`make ui`" in said
    assert following.process.returncode == 1
    folder.sync()
    assert folder.states() == {"a": ("FINISHED", "true")}
