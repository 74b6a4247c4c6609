"""Every entry of the catalog has what the rules, the report and the documentation need."""

import re
import subprocess
import sys

import jsonschema
import pytest

from flrml.pipeline.report.catalog import FIGURES, TABLES
from flrml.pipeline.report.figures import style
from flrml.pipeline.report.result_files import KINDS
from flrml.pipeline.report.results import Results, load_function
from flrml.pipeline.report.table import Table
from tests.pipeline.results import growth, point, read, run

CONTENTS = {
    "runs": [run("digits", "flrml", 0.9)],
    "margin": [point("digits", "margin_ratio", 1.0, [0.9])],
    "batches": [point("digits", "batch_triplets", 20, [0.6], batches=3)],
    "directions": [point("digits", "n_components", 20, [0.6])],
    "growth": [growth(axis, "flrml", {100: 1.0, 200: 2.0}) for axis in "nD"],
    "iterations": [
        {
            "dataset": "digits",
            "outcome": "ok",
            "cosine": 0.7,
            "methods": {"flrml": {"accuracies": [0.5, 0.6], "objective": [2.0, 1.0]}},
            "ridges": [[1.0, 0.6]],
        }
    ],
}


def labels(name, tmp_path, monkeypatch):
    """The labels of the axes of a figure as it is drawn."""
    found = set()

    def keep(figure):
        for axes in figure.axes:
            found.update((axes.get_xlabel(), axes.get_ylabel()))

    monkeypatch.setattr(style.plt, "close", keep)
    load_function(FIGURES[name].function)(tmp_path / name, read(tmp_path, **CONTENTS))
    return found - {""}


@pytest.mark.parametrize("entry", [*FIGURES.values(), *TABLES.values()], ids=lambda entry: entry.name)
def test_an_entry_is_whole(entry):
    assert callable(load_function(entry.function))
    assert {*entry.inputs, *entry.required} <= set(KINDS)
    assert re.fullmatch(r"[A-Z0-9].*\.", entry.caption), "a caption is a sentence"
    assert entry.title
    assert entry.category


@pytest.mark.parametrize("name", FIGURES)
def test_a_caption_of_a_figure_names_what_its_axes_show(name, tmp_path, monkeypatch):
    shown = labels(name, tmp_path, monkeypatch)
    assert len(shown) > 1
    for label in shown:
        words = re.split(r" \(|,| / ", label.replace(r"$m / \bar{l}$", "").replace("$", ""))[0].strip()
        assert words.lower() in FIGURES[name].caption.lower(), label


@pytest.mark.parametrize("name", TABLES)
def test_a_caption_of_a_table_names_its_rows_and_columns(name):
    assert isinstance(load_function(TABLES[name].function)(Results()), Table)
    assert re.search(r"\ba row per \w+", TABLES[name].caption, re.IGNORECASE)
    assert re.search(r"\b(columns for|a column per) \w+", TABLES[name].caption)


@pytest.mark.parametrize("name", FIGURES)
def test_the_settings_of_a_figure_are_a_schema(name):
    jsonschema.Draft202012Validator.check_schema(FIGURES[name].schema)


def test_the_catalog_is_light():
    code = (
        "import sys, flrml.pipeline.report.catalog; sys.exit('matplotlib' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
