"""Killed runs, the shared cache and the report: minutes each."""

import base64
import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.workflow.project import TINY, Project

pytestmark = pytest.mark.slow
KILLS = 10
SIGNALS = 6 * [signal.SIGKILL] + 2 * [signal.SIGTERM, signal.SIGINT]
SWEEPS = TINY | {
    "datasets": {"digits": TINY["datasets"]["digits"]},
    "methods": {"cosine": {}},
    "figures": {
        "margin": {"datasets": ["digits"], "ratios": [0.25, 0.5, 1.0, 2.0], "repeats": 2},
        "batches": {"datasets": ["digits"], "methods": ["mflrml"], "sizes": [10, 20, 40, 80], "repeats": 2},
    },
}
SECONDS = 8.0  # after the first job has started, within which a signal is sent


def start(project: Project, config: dict[str, Any] = TINY) -> subprocess.Popen:
    """Start the documented command in a process group of its own."""
    # What a shell starts in the background ignores this signal, and so would its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with open(project.folder / "killed.log", "a") as log:
        return subprocess.Popen(
            project.command("--rerun-incomplete", config=config),
            cwd=project.code,
            env=project.environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def has_started(project: Project, number: int) -> bool:
    """Whether the given run has started its jobs, or had none."""
    said = (project.folder / "killed.log").read_text()
    return len(re.findall(r"^\d+ jobs: |^Nothing to be done", said, re.MULTILINE)) >= number


def processes() -> dict[int, list[int]]:
    """Process ids by that of their parent."""
    said = subprocess.run(["ps", "-eo", "ppid=,pid="], capture_output=True, text=True, check=True).stdout
    found: dict[int, list[int]] = {}
    for line in said.splitlines():
        ppid, pid = map(int, line.split())
        found.setdefault(ppid, []).append(pid)
    return found


def interrupt(process: subprocess.Popen, whom: str, how: signal.Signals) -> bool:
    """Send a signal to all processes, to Snakemake only or to its jobs only; False if all had ended before."""
    if process.poll() is not None:
        return False
    children = processes().get(process.pid, [])
    with contextlib.suppress(ProcessLookupError):
        if whom == "group":
            os.killpg(process.pid, how)
        elif whom == "parent":
            os.kill(process.pid, how)
        for child in children if whom == "children" else []:
            os.kill(child, how)
    process.wait(120)
    while whom != "group" and _is_running(process.pid):  # what was not told ends by itself
        time.sleep(0.2)
    return True


def _is_running(group: int) -> bool:
    said = subprocess.run(["ps", "-eo", "pgid=,stat="], capture_output=True, text=True, check=True).stdout
    return any(int(line.split()[0]) == group and "Z" not in line for line in said.splitlines())


def assert_same_runs(project: Project, finished: Project) -> None:
    """MLflow has every run once, finished, with the accuracy of an undisturbed run, and no ghosts."""
    expected = {run["tags"]["flrml.key"]: run["latest_metrics"].get("accuracy") for run in finished.runs()}
    found = project.runs()
    assert sorted(run["tags"]["flrml.key"] for run in found) == sorted(expected)
    assert {run["status"] for run in found} == {"FINISHED"}
    assert {run["tags"]["flrml.key"]: run["latest_metrics"].get("accuracy") for run in found} == expected
    for run in project.runs(every=True):
        assert run["status"] != "RUNNING"
        assert run["tags"]["flrml.newest"] == "false" or "flrml.digest" in run["tags"]
        assert run["status"] != "FINISHED" or "flrml.digest" in run["tags"]


@pytest.fixture(scope="module")
def swept(tmp_path_factory) -> Project:
    """A project in which the sweeps have run; not to be changed."""
    project = Project.create(tmp_path_factory.mktemp("swept") / "project")
    project.run(config=SWEEPS)
    return project


@pytest.mark.parametrize("whom", ["group", "parent", "children"])
@pytest.mark.parametrize("config", [TINY, SWEEPS], ids=["tiny", "sweeps"])
def test_signals_at_random_moments_change_nothing(request, fresh, config, whom):
    undisturbed = request.getfixturevalue("swept" if config is SWEEPS else "finished")
    moments = random.Random(whom)
    sent = 0
    for number, how in enumerate(SIGNALS):
        made = sorted(
            [*fresh.results.glob("runs/*/*/*/model.npz"), *fresh.results.glob("sweeps/*/*/*/*/point.json")]
        )
        for path in moments.sample(made, len(made) // 2):  # so that trainings are repeated
            path.unlink()
        process = start(fresh, config)
        while process.poll() is None and not has_started(fresh, number + 1):
            time.sleep(0.05)
        time.sleep(moments.uniform(0, SECONDS))
        sent += interrupt(process, whom, how)
        fresh.run("--unlock", config=config)
    print(f"{sent} of {len(SIGNALS)} signals sent before the run had ended")
    assert sent > len(SIGNALS) / 2
    fresh.run("--rerun-incomplete", config=config)
    assert fresh.numbers() == undisturbed.numbers()
    assert_same_runs(fresh, undisturbed)
    assert list(fresh.results.rglob(".*")) == []
    assert "Nothing to be done" in fresh.run(config=config)


def test_kill_9_while_runs_are_logged_loses_and_doubles_none(finished, project):
    moments = random.Random(0)
    killed = 0
    for _ in range(KILLS):
        # Evaluated again, with other times, so that there is a result to log.
        (project.results / "runs/digits/cosine/seed0/metrics.json").unlink(missing_ok=True)
        before = {run["id"] for run in project.runs(every=True)}
        process = start(project)
        while process.poll() is None and {run["id"] for run in project.runs(every=True)} == before:
            time.sleep(0.05)
        time.sleep(moments.uniform(0, 1.5))
        killed += interrupt(process, "group", signal.SIGKILL)
        project.run("--unlock")
    assert killed > KILLS / 2  # the others had logged everything
    project.run("--rerun-incomplete")
    assert_same_runs(project, finished)
    assert {run["status"] for run in project.runs(every=True)} <= {"FINISHED", "KILLED"}


def test_a_killed_follower_costs_a_line_and_the_next_run_logs_the_results(finished, fresh):
    process = start(fresh)
    while not (log := (fresh.folder / "killed.log").read_text()) or "started: train" not in log:
        time.sleep(0.1)
    for child in processes()[process.pid]:
        command = Path(f"/proc/{child}/cmdline").read_bytes()
        if b"flrml.pipeline\0follow" in command:
            os.kill(child, signal.SIGKILL)
    assert process.wait(600) == 0
    assert fresh.numbers() == finished.numbers()
    assert "MLflow is not up to date" in (fresh.folder / "killed.log").read_text()
    assert "Nothing to be done" in fresh.run()
    assert_same_runs(fresh, finished)


def test_a_server_that_never_answers_costs_a_line_and_the_next_run_logs_the_results(finished, fresh):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(50)
        address = "127.0.0.1:" + str(silent.getsockname()[1])
        fresh.variables = {"MLFLOW_TRACKING_URI": f"http://me:pass-word-1@{address}"}
        said = fresh.run()
    assert said.count("MLflow is not up to date") == 1
    assert fresh.numbers() == finished.numbers()
    written = [path for path in fresh.work.rglob("*") if path.is_file()]
    assert not [path for path in written if b"pass-word-1" in path.read_bytes()]
    assert "pass-word-1" not in said
    fresh.variables = {}
    fresh.run()
    assert_same_runs(fresh, finished)


def test_the_cache_shares_a_decomposition_between_working_copies(tmp_path, monkeypatch):
    (tmp_path / "cache").mkdir()
    monkeypatch.setenv("SNAKEMAKE_OUTPUT_CACHE", str(tmp_path / "cache"))
    target = "results/svd/digits/plain.npz"
    first, second = (Project.create(tmp_path / name) for name in ("first", "second"))
    first.run("--cache", "decompose", "--", target)
    spectrum = (first.work / target).read_bytes()
    said = second.run("--cache", "decompose", "--", target)
    assert (second.work / target).read_bytes() == spectrum
    assert "SVD (plain)" not in said


def test_the_report_holds_every_figure_and_table_in_one_file(project):
    project.run("--report", "report.html")
    report = (project.work / "report.html").read_text()
    for path in sorted((project.results / "figures").glob("*.png")):
        assert base64.b64encode(path.read_bytes()).decode() in report, path.name
    for path in sorted((project.results / "tables").glob("*.html")):
        assert f"tables/{path.name}" in report
    for title in (
        "5-NN accuracy on the test parts, and seconds",
        "What the paper claims, and what",
    ):  # on the cover
        assert f"<caption>{title}" in report
    assert re.findall(r"""<(?:script|link|img)[^>]+(?:src|href)=["']?(?:https?:)?//""", report) == []
