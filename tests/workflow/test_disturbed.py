"""Killed runs, the shared cache and the report: minutes each."""

import base64
import os
import random
import re
import signal
import subprocess

import pytest

from tests.workflow.project import Project

pytestmark = pytest.mark.slow
KILLS = 10


def kill_after(project: Project, seconds: float) -> bool:
    """Start the documented command and kill its whole process group; False if it came to its end before."""
    with open(project.folder / "killed.log", "a") as log:
        process = subprocess.Popen(
            project.command("--rerun-incomplete"),
            cwd=project.code,
            env=project.environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True
    return False


def test_kill_9_at_ten_random_moments_changes_nothing(finished, fresh):
    moments = random.Random(0)
    killed = []
    for _ in range(KILLS):
        killed.append(kill_after(fresh, moments.uniform(4, 16)))
        fresh.run("--unlock")
    assert sum(killed) >= KILLS / 2
    fresh.run("--rerun-incomplete")
    assert fresh.numbers() == finished.numbers()
    expected = {run["tags"]["flrml.key"]: run for run in finished.runs()}
    assert sorted(run["tags"]["flrml.key"] for run in fresh.runs()) == sorted(expected)
    for run in fresh.runs():
        assert run["status"] == "FINISHED"
        accuracy = expected[run["tags"]["flrml.key"]]["latest_metrics"]["accuracy"]
        assert run["latest_metrics"]["accuracy"] == accuracy
    assert list(fresh.results.rglob(".*")) == []
    assert "Nothing to be done" in fresh.run()


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
    for path in sorted((project.results / "tables").glob("*.csv")):
        assert f"tables/{path.name}" in report
    assert re.findall(r"""<(?:script|link|img)[^>]+(?:src|href)=["']?(?:https?:)?//""", report) == []
