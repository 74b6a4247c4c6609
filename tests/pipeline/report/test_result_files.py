"""The files that figures and tables read, from the configuration alone."""

from pathlib import Path

import yaml

from flrml.pipeline.config.resolve import resolve
from flrml.pipeline.report.catalog import FIGURES, TABLES
from flrml.pipeline.report.result_files import (
    dataset_positions,
    entries_of,
    files_of,
    inputs_of,
    shown_methods,
)

ROOT = Path(__file__).parents[3]
SCHEMA = ROOT / "workflow" / "schemas" / "config.schema.yaml"
TINY = yaml.safe_load((ROOT / "workflow" / "configs" / "tiny.yaml").read_text())


def configured(**changes):
    return resolve(TINY | {"results": "out", "common": {}} | changes, SCHEMA)


def tables_of(config):
    return [entry.name for entry in entries_of(config) if entry.folder == "tables"]


def test_every_kind_of_the_tiny_experiment():
    config = configured()
    assert files_of(config, "runs") == [
        f"out/runs/{dataset}/{method}/seed0/metrics.json"
        for dataset in ("digits", "shapes10-16")
        for method in ("flrml", "flrml-ridge", "mflrml-reference", "cosine")
    ]
    assert files_of(config, "descents") == [
        "out/runs/digits/flrml/seed0/metrics.json",
        "out/runs/shapes10-16/flrml/seed0/metrics.json",
    ]
    assert len(files_of(config, "margin")) == 4
    assert files_of(config, "batches")[0] == "out/sweeps/batches/digits/mflrml/20/point.json"
    assert files_of(config, "growth") == ["out/growth/n/flrml.json", "out/growth/n/mflrml.json"]
    assert files_of(config, "iterations") == ["out/iterations/digits.json"]
    assert files_of(config, "metas") == ["out/data/digits/meta.json", "out/data/shapes10-16/meta.json"]
    assert files_of(config, "paper_runs") == files_of(config, "studies") == []
    assert inputs_of(config, FIGURES["smoothing"]) == {}


def test_runs_on_new_classes_keep_the_order_of_the_configuration():
    datasets = {name: {"source": "digits", "splits": 2, "options": {"split": "classes"}} for name in "zyxw"}
    config = configured(datasets=datasets | {"digits": {}}, methods={"cosine": {}}, figures={"new_classes": {}})
    assert [path.split("/")[2] for path in files_of(config, "new_classes")] == [
        f"{name}-split{split}" for name in "zyxw" for split in (0, 1)
    ]


def test_only_an_svd_that_a_run_starts_from_is_read():
    assert files_of(configured(), "svd") == ["out/svd/digits/plain.json", "out/svd/shapes10-16/plain.json"]
    without = configured(methods={"cosine": {}, "mflrml": {}}, figures={"pareto": {}})
    assert files_of(without, "svd") == []
    centered = configured(methods={"flrml-reference": {}}, figures={})
    assert files_of(centered, "svd")[0] == "out/svd/digits/centered.json"
    datasets = {"digits": {"methods": ["cosine"]}, "shapes10-16": {}}
    chosen = configured(datasets=datasets, methods={"cosine": {}, "flrml": {}}, figures={})
    assert files_of(chosen, "svd") == ["out/svd/shapes10-16/plain.json"]


def test_a_table_is_written_if_there_are_results_for_it():
    usual = [name for name in TABLES if name not in ("splits", "reproduction")]
    own = configured(datasets={"mine": {"options": {"train": "mine.csv", "holdout": 0.3}}}, figures={"pareto": {}})
    assert set(usual) - set(tables_of(own)) == {"claims", "complexity"}, "the paper's are not shown for own data"
    alone = configured(methods={"cosine": {}, "flrml-ridge": {}}, figures={})
    assert "with_svd" not in tables_of(alone), "none of its methods starts from an SVD"
    assert not {"claims", "complexity"} & set(tables_of(alone)), "the paper claims nothing of its methods"
    assert tables_of(configured()) == usual
    study = configured(datasets={"digits": {"splits": 2}}, figures={"pareto": {}})
    assert [entry.rule for entry in entries_of(study)] == ["table_splits", "table_retrieval"]
    renamed = configured(methods={"flrml": {}, "mine": {"method": "flrml", "max_iter": 3}})
    assert tables_of(renamed) == [name for name in TABLES if name != "reproduction"]
    printed = configured(datasets={"tdt2": {}}, figures={})
    assert tables_of(printed) == [name for name in TABLES if name != "splits"]
    assert files_of(printed, "paper_runs") == files_of(printed, "runs")


def test_jobs_are_told_what_they_show_of_methods_and_data_sets():
    config = configured()
    assert shown_methods(config, FIGURES["smoothing"]) == shown_methods(config, TABLES["datasets"]) == {}
    shown = shown_methods(config, FIGURES["margin"])
    assert set(shown) == {"flrml", "flrml-reference", "flrml-ridge", "mflrml", "mflrml-reference", "cosine"}
    assert shown["flrml"] == ("FLRML", 3, "FLRML", False)
    assert dataset_positions(config, "convergence") == {"digits": 0, "shapes10-16": 1}
    assert dataset_positions(config, "pareto") == {}
