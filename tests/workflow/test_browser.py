"""MLflow's user interface in a real browser."""

import re
import shutil
import subprocess

import pytest

from flrml.pipeline.tracking.mlflow_store import Store
from tests.pipeline.server import mlflow_server
from tests.workflow.project import TINY

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--window-size=1800,1400"),
]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")]


class Browser:
    """A browser on the pages of a finished experiment."""

    def __init__(self, project, store, address, profile):
        self.project, self.address, self.profile = project, address, profile
        self.runs = {run["tags"]["mlflow.runName"]: run for run in project.runs()}
        self.table = store.runs_page(address)
        self.experiment = store.experiment_id

    def shown(self, page, *options):
        """Return a page as the browser has built it."""
        command = [CHROMIUM, *QUIET, f"--user-data-dir={self.profile}", "--virtual-time-budget=20000", "--dump-dom"]
        done = subprocess.run([*command, *options, page], capture_output=True, text=True, timeout=180, check=True)
        return done.stdout

    def run(self, name, tab=""):
        """Return the page of a run, or another tab of it."""
        page = f"{self.address}/#/experiments/{self.experiment}/runs/{self.runs[name]['id']}{tab}"
        return self.shown(f"{page}?workflowType=machine_learning")


@pytest.fixture(scope="module")
def browser(finished, tmp_path_factory):
    """A copy of the finished project, with a run of an earlier result, on a server of its own."""
    folder = tmp_path_factory.mktemp("browser")
    project = finished.copy(folder / "project")
    project.sync()
    (project.results / "runs/digits/cosine/seed0/metrics.json").unlink()
    project.run()
    store = Store(f"sqlite:///{project.work}/mlflow.db", TINY["experiment"], folder / "lock")
    store.open()
    with mlflow_server(project.work) as address:
        yield Browser(project, store, address, folder / "profile")


def test_the_runs_page_groups_trainings_and_sweeps_by_data_set_the_best_first(browser):
    page = browser.shown(browser.table)
    for name in ("digits flrml", "shapes10-16 cosine", "digits flrml margin"):
        assert f">{name}<" in page
    assert ">digits mflrml batches 20<" not in page
    assert "Group: digits" in page
    assert f">{browser.runs['digits flrml']['latest_metrics']['accuracy']:g}<" in page
    places = [page.find(f'col-id="{column}"') for column in ("metrics.`accuracy`", "tags.`method`")]
    assert -1 < places[0] < places[1]
    shown = [run for run in browser.runs.values() if run["tags"]["flrml.kind"] != "point"]
    assert int(re.search(r">(\d+)</\w+> matching runs", page)[1]) == len(shown) < len(browser.runs)


def test_the_charts_compare_methods_first(browser):
    page = browser.shown(f"{browser.table}&compareRunsMode=CHART")
    section = page.index("Accuracy, time and objective")
    places = [page.find(f">{name}<", section) for name in ("accuracy", "objective")]
    assert -1 < places[0] < places[1]
    assert re.search(r'<path class="js-line"[^>]* d="M[\d.]+,[\d.]+L', page)


def test_a_run_shows_its_note_parameters_model_and_data(browser):
    page = browser.run("digits flrml")
    assert "flrml on digits, seed 0: accuracy" in page
    for text in ("max_rank", "digits-flrml", "digits test", "train_seconds"):
        assert text in page


def test_a_sweep_draws_its_curve(browser):
    page = browser.run("digits flrml margin", "/model-metrics")
    assert "accuracy_by_margin_ratio_percent" in page
    assert re.search(r'<path class="js-line"[^>]* d="M[\d.]+,[\d.]+L', page)


def test_the_models_page_lists_every_model(browser):
    page = browser.shown(
        f"{browser.address}/#/experiments/{browser.experiment}/models?workflowType=machine_learning"
    )
    for dataset in TINY["datasets"]:
        for method in TINY["methods"]:
            assert f"{dataset}-{method}" in page
    assert page.count(">Ready<") >= len(TINY["datasets"]) * len(TINY["methods"])


def test_the_experiments_run_shows_its_description_and_its_artifacts(browser):
    page = browser.run("flrml-tiny")
    assert "trainings ended with a result" in page
    assert "best_accuracy/digits" in page
    artifacts = browser.run("flrml-tiny", "/artifacts")
    for name in ("figures", "tables", "config.yaml", "environment.txt"):
        assert name in artifacts
    table = browser.run("flrml-tiny", "/artifacts/tables/summary.md")
    assert "summary.md" in table
    assert "mflrml" in table.lower() or "M-FLRML" in table


def test_the_report_opens_at_its_head(browser):
    browser.project.run("--report", "report.html")
    report = browser.project.work / "report.html"
    measure = "document.title = Math.round(document.querySelector('.prose').getBoundingClientRect().top)"
    head, _, tail = report.read_text().rpartition("</body>")
    report.write_text(f"{head}<script>setTimeout(() => {{{measure}}}, 5000)</script></body>{tail}")
    page = browser.shown(report.as_uri(), "--window-size=900,500")
    assert 0 <= int(re.search(r"<title>(-?\d+)</title>", page)[1]) < 100
