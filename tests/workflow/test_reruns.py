"""What a change makes anew: asked of the real Snakemake, mostly by dry runs."""

import copy
import os
import time

import numpy as np

from tests.workflow.project import TINY

FIGURES = ("smoothing", "convergence", "margin", "batches", "front", "growth", "ridge")
DRAWN = {f"figure_{name}": 1 for name in FIGURES}
TABULATED = {
    f"table_{name}": 1 for name in ("summary", "claims", "complexity", "with_svd", "without_svd", "memory")
}


def test_a_second_run_does_nothing(project):
    start = time.monotonic()
    said = project.run()
    assert "Nothing to be done" in said
    assert time.monotonic() - start < 60


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
        "front_page": 1,
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
        "front_page": 1,
    }


def test_an_edit_of_figure_code_only_redraws_with_the_edited_code(project):
    project.edit("pipeline/report/figures/printed.py", '"margin ratio", "mean', '"edited", "mean')
    assert project.planned() == DRAWN
    assert project.executed("figure_margin") == {"figure_margin": 1}
    assert (project.results / "figures/margin.csv").read_text().startswith("dataset,method,edited,")


def test_an_edit_of_table_code_only_rewrites_tables(project):
    project.edit("pipeline/report/comparison.py", "NOTE = (", "NOTE = (\n    ")
    assert project.planned() == TABULATED | {"table_datasets": 1, "front_page": 1}


def test_an_edit_of_a_solver_retrains_without_a_new_svd(project):
    project.edit("stiefel.py", "import numpy as np", "import numpy as np  # edited")
    planned = project.planned()
    assert {rule: planned[rule] for rule in ("prepare", "triplets", "decompose")} == dict.fromkeys(
        ("prepare", "triplets", "decompose"), 0
    )
    assert (planned["train"], planned["evaluate"]) == (4, 2)  # the control has no solver
    assert (planned["sweep"], planned["growth"]) == (6, 2)


def test_an_edit_of_one_method_retrains_only_that_method(project):
    project.edit("baselines/controls.py", "import numpy as np", "import numpy as np  # edited")
    planned = project.planned()
    assert planned["train"] == 2
    assert planned["sweep"] == 0


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


def test_damaged_results_are_named_and_made_again(project):
    """What a full disk or a power cut leaves; nothing of it is a failure of a method."""
    damaged = [
        "runs/digits/flrml/seed0/model.npz",
        "svd/digits/plain.npz",
        "runs/shapes10-16/cosine/seed0/metrics.json",
    ]
    for name, size in zip(damaged, (0, 700, 3), strict=True):
        os.truncate(project.results / name, size)
    os.truncate(project.results / "data/digits/test/y.npy", 0)
    said = project.run()
    for name in (*damaged, "data/digits/test/y.npy"):
        assert name in said
    assert said.count("it is made again") == 4
    assert {run["status"] for run in project.runs()} == {"FINISHED"}
    assert "Nothing to be done" in project.run()


def own_data(path, n=60):
    """Write a CSV of three classes in four features."""
    random = np.random.default_rng(n)
    rows = [[*random.random(4) + np.eye(4)[label], f"class{label}"] for label in np.arange(n) % 3]
    path.write_text("a,b,c,d,kind\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n")


def test_changed_raw_data_invalidate_everything_after_them(fresh):
    raw = fresh.work / "raw" / "mine.csv"
    raw.parent.mkdir()
    own_data(raw)
    options = {"train": "mine.csv", "target": "kind", "holdout": 0.25}
    config = {"datasets": {"mine": {"options": options}}, "methods": {"cosine": {}}, "common": {}}
    target = "results/runs/mine/cosine/seed0/metrics.json"
    chain = {"prepare": 1, "triplets": 1, "train": 1, "evaluate": 1}
    assert fresh.executed(target, config=config) == chain
    assert fresh.planned(target, config=config) == {}
    own_data(raw, n=90)
    assert fresh.planned(target, config=config) == chain
