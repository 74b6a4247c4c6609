"""The tiny experiment, run by the real Snakemake: what it leaves and how it fails."""

import copy
import csv
import json
import re
import subprocess

import numpy as np
import pytest

from flrml.pipeline.report import catalog
from tests.workflow.project import TINY

FIGURES = list(TINY["figures"])
TABLES = [name for name in catalog.TABLES if name not in ("splits", "reproduction")]


def test_every_figure_and_table_is_there(finished):
    retrieval = {"directions", "new_classes"}  # are drawn by workflow/configs/retrieval.yaml
    assert set(FIGURES) == set(catalog.FIGURES) - retrieval
    for name in FIGURES:
        assert (finished.results / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert (finished.results / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert len((finished.results / "figures" / f"{name}.csv").read_text().splitlines()) > 1
        assert len((finished.results / "figures" / f"{name}.rst").read_text()) > 40
    for name in TABLES:
        table = list(csv.reader((finished.results / "tables" / f"{name}.csv").open()))
        assert len(table) > 2
        assert "---" in (finished.results / "tables" / f"{name}.md").read_text()
        assert r"\bottomrule" in (finished.results / "tables" / f"{name}.tex").read_text()
        assert (finished.results / "tables" / f"{name}.rst").read_text() == f"{catalog.TABLES[name].caption}\n"


def test_every_model_is_a_finished_run_in_mlflow(finished):
    runs = {run["tags"]["flrml.key"]: run for run in finished.runs()}
    expected = {f"flrml-tiny/{dataset}/{method}/0" for dataset in TINY["datasets"] for method in TINY["methods"]}
    for method in ("flrml", "flrml-reference"):
        parent = f"flrml-tiny/digits/margin/{method}"
        expected |= {parent, *(f"{parent}/{ratio}" for ratio in TINY["figures"]["margin"]["ratios"])}
    parent = "flrml-tiny/digits/batches/mflrml"
    expected |= {parent, *(f"{parent}/{size}" for size in TINY["figures"]["batches"]["sizes"])}
    assert set(runs) == expected | {"flrml-tiny"}
    assert len(finished.runs()) == len(runs)
    experiment = runs.pop("flrml-tiny")
    assert experiment["latest_metrics"]["runs"] == len(TINY["datasets"]) * len(TINY["methods"])
    for key, run in runs.items():
        assert run["status"] == "FINISHED"
        assert 0 < run["latest_metrics"]["accuracy"] <= 1
        assert "accuracy" in run["tags"]["mlflow.note.content"], key
        assert "mlflow.parentRunId" in run["tags"], key
    assert len(finished.runs(every=True)) == len(runs) + 1
    trained = len(TINY["datasets"]) * len(TINY["methods"])
    assert len(list((finished.work / "mlartifacts").rglob("MLmodel"))) == trained


def test_results_say_what_made_them(finished):
    result = json.loads((finished.results / "runs/digits/flrml/seed0/metrics.json").read_text())
    assert result["outcome"] == "ok"
    assert result["parameters"]["n_components"] == 20
    assert {"git_commit", "numpy", "flrml"} <= set(result["made_by"])
    assert len(result["history"]) > 2


def test_nothing_is_left_half_written(finished):
    assert list(finished.results.rglob(".*")) == []


def test_every_job_has_its_log(finished):
    logs = {str(path.relative_to(finished.results / "logs")) for path in finished.results.rglob("*.log")}
    assert {"train/digits-flrml-0.log", "figures/margin.log", "sweeps/margin-digits-flrml-0.5.log"} <= logs
    assert "accuracy" in (finished.results / "logs/evaluate/digits-flrml-0.log").read_text()


def test_a_failing_method_leaves_all_others_and_a_marked_cell(project):
    before = project.numbers()
    head = 'def fit(self, X: Any, y: Any = None) -> "CosineControl":'
    project.edit("baselines/controls.py", head, f"{head}\n        raise MemoryError")
    said = project.run("--keep-going", "table_without_svd")
    assert re.search(r"digits cosine +ended with M: over the limit", said)
    rows = list(csv.reader((project.results / "tables/without_svd.csv").open()))
    cells = {row[0]: row[2] for row in rows}  # the second column has mean ranks
    assert cells["cosine on X (control)"] == "M"
    assert float(cells["M-FLRML (reference)"]) > 50
    (run,) = (run for run in project.runs() if run["tags"]["flrml.key"] == "flrml-tiny/digits/cosine/0")
    assert run["status"] == "FAILED"
    assert run["tags"]["failure"].startswith("M: over the limit of 3000 MB")
    after = project.numbers()
    assert {path for path in before if before[path] != after[path]} == {
        "runs/digits/cosine/seed0/metrics.json",
        "runs/digits/cosine/seed0/training.json",
        "runs/shapes10-16/cosine/seed0/metrics.json",
        "runs/shapes10-16/cosine/seed0/training.json",
    }


def test_each_figure_and_table_is_a_target_by_name(fresh):
    names = [f"figure_{name}" for name in FIGURES] + [f"table_{name}" for name in TABLES]
    planned = fresh.planned(*names)
    assert [planned[name] for name in names] == [1] * len(names)
    assert fresh.planned("figure_margin") == {
        "prepare": 1,
        "decompose": 2,
        "sweep": 4,
        "figure_margin": 1,
    }


def test_the_figure_of_iterations_needs_both_decompositions(fresh):
    expected = {"prepare": 1, "triplets": 1, "decompose": 2, "iterations": 1, "figure_iterations": 1}
    assert fresh.planned("figure_iterations") == expected


def test_without_a_method_on_an_svd_none_is_computed(fresh):
    changed = {"common": {}, "methods": {"cosine": {}, "flrml-ridge": {}}, "figures": {"pareto": {}}}
    planned = fresh.planned(config=TINY | changed)
    assert (planned["train"], planned["figure_pareto"], planned["table_without_svd"]) == (4, 1, 1)
    assert planned["decompose"] == planned["table_with_svd"] == 0


def test_offline_plans_only_data_sets_that_need_no_download(fresh):
    config = copy.deepcopy(TINY) | {"offline": True}
    config["datasets"]["r8"] = {}
    config["figures"]["convergence"]["datasets"].append("r8")
    assert fresh.planned(config=config)["prepare"] == len(TINY["datasets"])


def test_a_mistake_in_the_configuration_stops_before_any_job_with_one_line(fresh):
    said = fresh.run(config=TINY | {"max_rnk": 5}, ok=False)
    (line,) = (line for line in said.splitlines() if "max_rnk" in line)
    assert line.startswith("config: max_rnk: unknown key (did you mean 'max_rank'?); choose from ")
    assert "Traceback" not in said
    assert not fresh.results.exists()


def test_the_plain_command_says_a_few_lines(project):
    (project.results / "figures" / "margin.csv").unlink()
    first, *lines = project.run("figure_margin").splitlines()
    assert first.startswith("Using workflow specific profile")
    assert lines[0] == "1 jobs: 1 figure_margin"
    assert "written: results/figures/margin.pdf" in lines
    assert f"{len(FIGURES)} figures and {len(TABLES)} tables: results/figures, results/tables" in lines
    assert re.fullmatch(r"all 1 jobs done in [\d:]+", lines[-3])
    assert re.fullmatch(
        r"\d+ runs in MLflow: open them with `make ui`, http://127.0.0.1:5000/#/.*=flrml", lines[-1]
    )
    assert len(lines) <= 7


def test_a_failed_job_shows_its_error_once_with_its_log(project):
    head = "def dataset_table("
    project.edit("pipeline/report/comparison.py", head, f"{head}*_): raise ValueError('no such column')\ndef _(")
    lines = project.run("table_datasets", ok=False).splitlines()
    error = "failed: table_datasets: ValueError: no such column (results/logs/tables/datasets.log)"
    assert [line for line in lines if "no such column" in line] == [error]
    assert re.fullmatch(r"1 failed, 0 of 1 jobs done in [\d:]+: table_datasets", lines[-1])
    assert not [line for line in lines if "CalledProcessError" in line]


@pytest.mark.parametrize("option", ["--rulegraph", "--dag", "--lint", "-n"])
def test_options_that_print_keep_the_output_for_themselves(project, option):
    command = [part for part in project.command() if part not in ("--cores", "2")] + [option]
    done = subprocess.run(command, cwd=project.code, env=project.environment, capture_output=True, text=True)
    assert done.returncode == 0
    expected = {"--rulegraph": "digraph", "--dag": "digraph", "--lint": "", "-n": "Workflow defines"}
    assert done.stdout.startswith(expected[option])
    assert "jobs" not in done.stderr


def test_splits_of_training_parts_are_planned_like_data_sets(fresh):
    study = {
        "datasets": {"digits": {"splits": 3}},
        "methods": {"flrml-ridge": {}, "no-rounds": {"method": "flrml-ridge", "rounds": 0}},
    }
    planned = fresh.planned(config=study)
    assert (planned["prepare"], planned["train"], planned["evaluate"]) == (3, 6, 6)
    assert {rule for rule in planned if rule.startswith(("table", "figure"))} == {"table_splits", "table_retrieval"}


MINE = """
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin


class Mine(TransformerMixin, BaseEstimator):
    def __init__(self, n_components=2):
        self.n_components = n_components

    def fit(self, X, y):
        self.components_ = np.eye(X.shape[1])[: self.n_components]
        return self

    def transform(self, X):
        return X @ self.components_.T
"""


def own_data(path, n=60):
    """Write a CSV of three classes in four features."""
    random = np.random.default_rng(n)
    rows = [[*random.random(4) + np.eye(4)[label], f"class{label}"] for label in np.arange(n) % 3]
    path.write_text("a,b,c,d,kind\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n")


def test_own_data_and_a_method_from_outside_are_learned_in_any_locale_and_followed(fresh):
    """The method is in no registry; what depends on a changed class, or on changed data, is made again."""
    fresh.variables = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    raw, package = fresh.work / "raw" / "mine.csv", fresh.work / "mypackage.py"
    raw.parent.mkdir()
    own_data(raw)
    package.write_text(MINE)
    config = {
        "experiment": TINY["experiment"],
        "datasets": {"mine": {"options": {"train": "mine.csv", "target": "kind", "holdout": 0.5}}},
        "methods": {"mine": {"class": "mypackage.Mine", "grid": {"n_components": [1, 3]}}, "cosine": {}},
        "figures": {"smoothing": {}},
    }
    fresh.run(config=config)
    results = {path.parts[-3]: json.loads(path.read_text()) for path in fresh.results.rglob("metrics.json")}
    assert results["mine,n_components=1"]["accuracy"] < results["mine,n_components=3"]["accuracy"]
    assert "μ(x)" in (fresh.results / "figures/smoothing.rst").read_text(encoding="utf-8")
    assert {run["status"] for run in fresh.runs()} == {"FINISHED"}
    assert fresh.planned(config=config) == {}
    package.write_text(MINE.replace("[: self", "[:: -1][: self"))
    planned = fresh.planned(config=config)
    assert (planned["prepare"], planned["triplets"], planned["train"], planned["evaluate"]) == (0, 0, 2, 2)
    own_data(raw, n=90)
    planned = fresh.planned(config=config)
    assert (planned["prepare"], planned["triplets"], planned["train"], planned["evaluate"]) == (1, 1, 3, 3)
