"""MLflow's user interface in a real browser."""

import shutil
import subprocess

import pytest

from flrml.pipeline.tracking import runs_page
from tests.pipeline.server import mlflow_server

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--window-size=1800,1000"),
]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")]


def shown(address: str, profile: str) -> str:
    """The page as the browser has built it."""
    command = [CHROMIUM, *QUIET, f"--user-data-dir={profile}", "--virtual-time-budget=20000", "--dump-dom", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    return done.stdout


def test_the_runs_page_shows_runs_and_the_columns_a_person_wants(project, tmp_path):
    runs = {run["tags"]["mlflow.runName"]: run for run in project.runs()}
    with mlflow_server(project.work) as address:
        page = shown(runs_page(address, "1"), str(tmp_path / "profile"))
    for name in ("digits flrml seed 0", "shapes10-16 cosine seed 0", "digits flrml sweep of margin_ratio"):
        assert name in page
    assert f">{runs['digits flrml seed 0']['latest_metrics']['accuracy']:g}<" in page
    places = [page.find(f'col-id="{column}"') for column in ("metrics.`accuracy`", "tags.`method`")]
    assert -1 < places[0] < places[1]
