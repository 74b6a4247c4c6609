"""Killed runs, the shared cache and the report: minutes each."""

import base64
import os
import random
import re
import signal
import subprocess
import time

import pytest

from tests.workflow.project import Project

pytestmark = pytest.mark.slow
KILLS = 10


def start(project: Project, *targets: str) -> subprocess.Popen:
    """Start the documented command in a process group of its own."""
    with open(project.folder / "killed.log", "a") as log:
        return subprocess.Popen(
            project.command("--rerun-incomplete", *targets),
            cwd=project.code,
            env=project.environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def kill(process: subprocess.Popen) -> bool:
    """Kill the process group with signal 9; False if it came to its end before."""
    running = process.poll() is None
    if running:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return running


def assert_same_runs(project: Project, finished: Project) -> None:
    """MLflow has every run once, finished, with the accuracy of an undisturbed run."""
    expected = {run["tags"]["flrml.key"]: run["latest_metrics"].get("accuracy") for run in finished.runs()}
    found = project.runs()
    assert sorted(run["tags"]["flrml.key"] for run in found) == sorted(expected)
    assert {run["status"] for run in found} == {"FINISHED"}
    assert {run["tags"]["flrml.key"]: run["latest_metrics"].get("accuracy") for run in found} == expected
    assert "RUNNING" not in {run["status"] for run in project.runs(every=True)}


def test_kill_9_at_ten_random_moments_changes_nothing(finished, fresh):
    moments = random.Random(0)
    killed = 0
    for _ in range(KILLS):
        process = start(fresh)
        time.sleep(moments.uniform(3, 9))
        killed += kill(process)
        fresh.run("--unlock")
    assert killed == KILLS
    fresh.run("--rerun-incomplete")
    assert fresh.numbers() == finished.numbers()
    assert_same_runs(fresh, finished)
    assert list(fresh.results.rglob(".*")) == []
    assert "Nothing to be done" in fresh.run()


def test_kill_9_while_runs_are_logged_loses_and_doubles_none(finished, project):
    moments = random.Random(0)
    target = "results/mlflow/digits.json"
    for _ in range(KILLS):
        (project.work / target).unlink(missing_ok=True)
        # Evaluated again, with other times, so that there is a result to log.
        (project.results / "runs/digits/cosine/seed0/metrics.json").unlink(missing_ok=True)
        before = {run["id"] for run in project.runs(every=True)}
        process = start(project, target)
        while process.poll() is None and {run["id"] for run in project.runs(every=True)} == before:
            time.sleep(0.05)
        time.sleep(moments.uniform(0, 1.5))
        assert kill(process)
        project.run("--unlock")
    project.run("--rerun-incomplete", target)
    assert_same_runs(project, finished)
    assert {run["status"] for run in project.runs(every=True)} <= {"FINISHED", "KILLED"}


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
    assert re.findall(r"""<(?:script|link|img)[^>]+(?:src|href)=["']?(?:https?:)?//""", report) == []
