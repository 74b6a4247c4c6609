"""What a change makes anew: asked of the real Snakemake, mostly by dry runs."""

import copy
import os
import re
from textwrap import indent

import pytest

from tests.workflow.project import ROOT, TINY

PRINTED = {f"figure_{name}": 1 for name in ("smoothing", "convergence", "margin", "batches")}
BEYOND = {f"figure_{name}": 1 for name in ("pareto", "growth", "iterations")}
COMPARED = {
    f"table_{name}": 1 for name in ("summary", "complexity", "with_svd", "without_svd", "retrieval", "memory")
}


def test_a_second_run_does_nothing(project):
    assert "Nothing to be done" in project.run()


def test_a_deleted_result_is_made_again(project):
    (project.results / "runs/digits/cosine/seed0/metrics.json").unlink()
    (project.results / "sweeps/margin/digits/flrml/0.5/point.json").unlink()
    planned = project.planned()
    assert (planned["evaluate"], planned["sweep"], planned["train"]) == (1, 1, 0)


def test_an_added_sweep_point_runs_only_itself(project):
    config = copy.deepcopy(TINY)
    config["figures"]["margin"]["ratios"].append(2.0)
    project.sync()
    before = project.numbers()
    expected = {
        "sweep": 2,
        "figure_margin": 1,
        "table_claims": 1,
    }
    assert project.executed(config=config) == expected
    after = project.numbers()
    assert set(after) - set(before) == {
        f"sweeps/margin/digits/{method}/2.0/point.json" for method in ("flrml", "flrml-reference")
    }
    assert before == {path: after[path] for path in before}
    assert len((project.results / "figures/margin.csv").read_text().splitlines()) == 7
    keys = [run["tags"]["flrml.key"] for run in project.runs()]
    assert "flrml-tiny/digits/margin/flrml/2.0" in keys
    assert len(keys) == len(set(keys)) == 18
    # The two sweeps and the experiment have new results; every other run is the one that was logged before.
    assert len(project.runs(every=True)) == 21


def test_a_removed_sweep_point_leaves_figure_and_mlflow(project):
    config = copy.deepcopy(TINY)
    config["figures"]["margin"]["ratios"] = [0.5]
    assert project.planned(config=config) == {
        "figure_margin": 1,
        "table_claims": 1,
    }


def test_an_edit_of_figure_code_only_redraws_with_the_edited_code_and_a_renamed_title(project):
    project.edit("pipeline/report/figures/printed.py", '"margin ratio", "mean', '"edited", "mean')
    assert project.planned() == PRINTED
    project.edit("methods.py", '"FLRML (reference)"', '"FLRML, reference"')
    assert project.executed("figure_margin") == {"figure_margin": 1}
    assert (project.results / "figures/margin.csv").read_text().startswith("dataset,method,edited,")
    assert "FLRML, reference" in (project.results / "figures/margin.rst").read_text()


def test_an_edit_of_table_code_only_rewrites_tables(project):
    project.edit("pipeline/report/comparison.py", "NOTE = (", "NOTE = (\n    ")
    assert project.planned() == COMPARED | {"table_datasets": 1}


@pytest.mark.parametrize(
    ("old", "new"),
    [('"FLRML (reference)"', '"FLRML, reference"'), ('ReferenceMFLRML", 4', 'ReferenceMFLRML", 3')],
    ids=["title", "table"],
)
def test_what_the_registry_says_of_a_method_redraws_what_shows_it_and_trains_nothing(project, old, new):
    project.edit("methods.py", old, new)
    showing = {rule: 1 for rule in (PRINTED | BEYOND) if rule != "figure_smoothing"}
    assert project.planned() == showing | COMPARED | {"table_claims": 1}


def test_a_method_that_is_not_used_plans_nothing(project):
    line = 'Method("oasis", '
    project.edit("methods.py", line, f'Method("mine", "Mine", ".baselines.oasis.OASIS", 3),\n        {line}')
    project.edit("methods.py", '"LMNN", ".baselines', '"LMNN, by us", ".baselines')
    assert project.planned() == {}


def test_a_changed_caption_redraws_its_figure_only(project):
    project.edit("pipeline/report/catalog.py", "Time of an iteration, or of", "Seconds of an iteration, or of")
    assert project.planned() == {"figure_growth": 1}


BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/own.md").read_text(), re.DOTALL)
(FUNCTIONS,) = (block for block in BLOCKS if "def draw_times" in block)
(FIGURE,) = (indent(f"{block.rstrip()},\n", "    ") for block in BLOCKS if block.startswith("Figure("))
(TABLE,) = (indent(f"{block.rstrip()},\n", "    ") for block in BLOCKS if block.startswith("Entry("))


def test_a_new_figure_and_a_new_table_are_two_files_and_draw_only_themselves(project):
    """They are drawn, are in the report and are in MLflow."""
    figure, table = '    Figure(\n        "pareto",', '    Entry(\n        "memory",'
    project.edit("pipeline/report/catalog.py", figure, FIGURE + figure)
    project.edit("pipeline/report/catalog.py", table, TABLE + table)
    (project.code / "flrml/pipeline/report/times.py").write_text(FUNCTIONS)
    config = copy.deepcopy(TINY)
    config["figures"]["times"] = {}
    assert project.executed(config=config) == {"figure_times": 1, "table_runs": 1}
    count = len(TINY["datasets"]) * len(TINY["methods"])
    assert len((project.results / "figures/times.csv").read_text().splitlines()) == 1 + count
    assert len((project.results / "tables/runs.csv").read_text().splitlines()) == 1 + count
    logged = {path.name for path in (project.work / "mlartifacts").rglob("*.*")}
    assert {"times.png", "runs.md"} <= logged
    project.run("--report", "report.html", config=config)
    report = (project.work / "report.html").read_text()
    for text in ("My section", "against the number of the run", "columns for method and seconds"):
        assert text in report


def test_an_edit_of_a_solver_retrains_without_a_new_svd(project):
    project.edit("stiefel.py", "import numpy as np", "import numpy as np  # edited")
    planned = project.planned()
    assert {rule: planned[rule] for rule in ("prepare", "triplets", "decompose")} == dict.fromkeys(
        ("prepare", "triplets", "decompose"), 0
    )
    assert planned["train"] == planned["evaluate"] == 4  # the control has no solver
    assert (planned["sweep"], planned["growth"]) == (6, 2)


def test_an_edit_of_one_method_retrains_only_that_method(project):
    project.edit("baselines/controls.py", "import numpy as np", "import numpy as np  # edited")
    planned = project.planned()
    assert planned["train"] == 2
    assert planned["sweep"] == 0


def test_what_the_registry_says_of_a_method_retrains_that_method(project):
    """The registry is no source file of any job: what an entry says is a parameter of the rules that use it."""
    project.edit(
        "methods.py",
        '".baselines.controls.CosineControl", 4',
        '".baselines.controls.CosineControl", 4, takes_labels=True',
    )
    planned = project.planned()
    assert (planned["train"], planned["sweep"], planned["prepare"]) == (2, 0, 0)


def test_a_data_set_depends_on_its_own_reader(project):
    project.append_comment("datasets/modelnet/off.py", "datasets/svmlight.py", "datasets/registry.py", "methods.py")
    assert project.planned() == {}
    project.append_comment("datasets/modelnet/voxels.py")
    assert project.planned()["prepare"] == 1


def test_what_the_registry_says_of_a_data_set_prepares_that_one(project):
    project.edit("datasets/registry.py", '_FIFTH = {**_ROWS, "holdout": 0.2}', '_FIFTH = {**_ROWS, "holdout": 0.3}')
    assert project.planned()["prepare"] == 1


def test_a_changed_parameter_of_one_method_retrains_only_that_method(project):
    config = copy.deepcopy(TINY)
    config["methods"]["mflrml-reference"] = {"n_batches": 4}
    planned = project.planned(config=config)
    assert (planned["train"], planned["decompose"], planned["sweep"]) == (2, 0, 0)


def test_a_changed_rank_of_the_svd_invalidates_what_follows(project):
    planned = project.planned(config=TINY | {"max_rank": 30})
    assert (planned["prepare"], planned["triplets"], planned["decompose"]) == (0, 0, 3)
    assert planned["train"] == planned["evaluate"] == 2  # of the method that starts from the SVD, on two data sets
    assert planned["sweep"] == 4  # over the margin, by two methods


DAMAGED = {
    "runs/digits/flrml/seed0/model.npz": 0,
    "runs/digits/flrml/seed0/training.json": 10,
    "runs/shapes10-16/cosine/seed0/metrics.json": 3,
    "svd/digits/plain.npz": 700,
    "triplets/digits/seed0.npy": 50,
    "sweeps/margin/digits/flrml/0.5/point.json": 1,
    "data/digits/test/y.npy": 0,
}


@pytest.mark.slow
def test_damaged_results_are_named_set_aside_and_regenerated(project):
    """What a full disk or a power cut leaves; nothing of it is a failure of a method."""
    before = project.numbers()
    for name, size in DAMAGED.items():
        os.truncate(project.results / name, size)
    for command in ("--dry-run", "--summary", "--lint", "--unlock", "--touch"):
        project.run(command)
    project.run("--report", str(project.folder / "report.html"))
    assert {name: (project.results / name).stat().st_size for name in DAMAGED} == DAMAGED  # nothing is touched
    said = project.run()
    assert said.count("it will be regenerated") == len(DAMAGED)
    after = project.numbers()
    assert before == {path: after[path] for path in before}
    for name, size in DAMAGED.items():
        assert (project.results / name).stat().st_size > size, name
    assert (project.results / "svd/digits/plain.npz.damaged").stat().st_size == 700
    assert {run["status"] for run in project.runs()} == {"FINISHED"}
    assert "Nothing to be done" in project.run()
