"""What a change makes anew: asked of the real Snakemake, mostly by dry runs."""

import copy
import os

import numpy as np

from tests.workflow.project import TINY

FIGURES = ("smoothing", "convergence", "margin", "batches", "front", "growth", "ridge")
DRAWN = {f"figure_{name}": 1 for name in FIGURES}
TABULATED = {
    f"table_{name}": 1 for name in ("summary", "claims", "complexity", "with_svd", "without_svd", "memory")
}


def test_a_second_run_does_nothing(project):
    assert "Nothing to be done" in project.run()


def test_an_added_sweep_point_runs_only_itself(project):
    config = copy.deepcopy(TINY)
    config["figures"]["margin"]["ratios"].append(2.0)
    before = project.numbers()
    expected = {
        "sweep": 2,
        "figure_margin": 1,
        "table_claims": 1,
        "front_page": 1,
        "track": 1,
        "track_experiment": 1,
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
        "track": 1,
        "track_experiment": 1,
    }


def test_an_edit_of_figure_code_only_redraws_with_the_edited_code(project):
    project.edit("pipeline/report/figures/printed.py", '"margin ratio", "mean', '"edited", "mean')
    assert project.planned() == DRAWN | {"track_experiment": 1}
    assert project.executed("figure_margin") == {"figure_margin": 1}
    assert (project.results / "figures/margin.csv").read_text().startswith("dataset,method,edited,")


def test_an_edit_of_table_code_only_rewrites_tables(project):
    project.edit("pipeline/report/comparison.py", "NOTE = (", "NOTE = (\n    ")
    assert project.planned() == TABULATED | {"table_datasets": 1, "front_page": 1, "track_experiment": 1}


def test_an_edit_of_a_solver_retrains_without_a_new_svd(project):
    project.edit("stiefel.py", "import numpy as np", "import numpy as np  # edited")
    planned = project.planned()
    assert {rule: planned[rule] for rule in ("prepare", "triplets", "decompose")} == dict.fromkeys(
        ("prepare", "triplets", "decompose"), 0
    )
    assert planned["train"] == planned["evaluate"] == 4  # the control has no solver
    assert (planned["sweep"], planned["growth"]) == (6, 2)
    assert planned["track"] == 2


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
        '".baselines.controls.CosineControl", 4, labels=True',
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


def test_without_a_method_on_an_svd_none_is_computed(fresh):
    config = {"datasets": {"digits": {}}, "methods": {"cosine": {}, "flrml-ridge": {}}, "common": {}}
    assert fresh.planned(config=config)["decompose"] == 0


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


def test_damaged_results_are_named_set_aside_and_regenerated(project):
    """What a full disk or a power cut leaves; nothing of it is a failure of a method."""
    before = project.numbers()
    for name, size in DAMAGED.items():
        os.truncate(project.results / name, size)
    said = project.run("--dry-run")
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
