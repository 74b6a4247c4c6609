"""Every figure is written as PDF and PNG with its numbers, from hand-made result files."""

import csv

import pytest

from flrml.pipeline.report import figures
from tests.pipeline.results import files, growth, point, run


def numbers(stem):
    """Rows of the figure's CSV; the figure itself is there as well."""
    assert stem.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    assert stem.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    with open(stem.with_suffix(".csv"), newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def stem(tmp_path):
    return tmp_path / "out" / "figure"


def test_smoothing(stem):
    figures.draw_smoothing(stem)
    rows = numbers(stem)
    middle = next(row for row in rows if float(row["x"]) == 0)
    assert (float(middle["max(0, x)"]), float(middle["mu(x)"])) == (0, pytest.approx(0.6931, abs=1e-4))


def test_convergence_is_relative_to_the_first_objective(tmp_path, stem):
    contents = [run(name, method, 0.5) for name in ("digits", "r8") for method in ("flrml", "flrml-reference")]
    figures.draw_convergence(stem, files(tmp_path, [*contents, run("r52", "flrml")]))
    rows = numbers(stem)
    assert len(rows) == 4 * 4
    assert [row["relative objective"] for row in rows[:4]] == ["1.0", "0.5", "0.25", "0.125"]


def test_margin_takes_mean_and_deviation_over_repeats_that_ended(tmp_path, stem):
    contents = [
        point("digits", "margin_ratio", 1.0, [0.9, 0.8]),
        point("digits", "margin_ratio", 0.5, [0.7, -1]),
        point("digits", "margin_ratio", 2.0, [-1, -1]),
    ]
    contents.append(point("digits", "margin_ratio", 1.0, [0.6], method="flrml-reference"))
    figures.draw_margin(stem, files(tmp_path, contents))
    first, second, reference = numbers(stem)
    assert (reference["method"], reference["mean accuracy"]) == ("flrml-reference", "60.0")
    assert (first["margin ratio"], first["repeats"], first["standard deviation"]) == ("0.5", "1", "0.0")
    assert float(second["mean accuracy"]) == pytest.approx(85)
    assert float(second["standard deviation"]) == pytest.approx(5)


def test_batches_have_a_value_per_mini_batch(tmp_path, stem):
    contents = [
        point(name, "batch_triplets", size, [0.6, 0.8], batches=3, method=method)
        for name in "ab"
        for method in ("mflrml", "mflrml-reference")
        for size in (40, 20)
    ]
    figures.draw_batches(stem, files(tmp_path, contents))
    rows = numbers(stem)
    assert len(rows) == 2 * 2 * 2 * 3
    assert [row["method"] for row in rows[::6]] == ["mflrml", "mflrml-reference"] * 2
    assert [row["N_t"] for row in rows[:6]] == ["20"] * 3 + ["40"] * 3
    assert [float(row["mean accuracy"]) for row in rows[:3]] == pytest.approx([35, 35, 70])


def test_front_shows_what_came_to_its_end(tmp_path, stem):
    contents = [run("digits", "flrml", 0.9), run("digits", "flrml", 0.7, seed=1), run("digits", "rmml")]
    figures.draw_front(stem, files(tmp_path, [*contents, run("digits", "cosine", 0.5, train_seconds=0.0)]))
    rows = {row["method"]: float(row["accuracy"]) for row in numbers(stem)}
    assert rows == {"flrml": pytest.approx(80), "cosine": pytest.approx(50)}


def test_growth_leaves_out_sizes_over_the_limit(tmp_path, stem):
    contents = [growth("n", "flrml", {100: 1.0, 200: 2.0, 400: None}), growth("D", "mflrml", {10: 1.0, 20: 1.0})]
    figures.draw_growth(stem, files(tmp_path, contents))
    rows = numbers(stem)
    assert len(rows) == 2 * (2 + 2)
    assert {(row["axis"], row["quantity"]) for row in rows} == {
        (axis, quantity) for axis in "nD" for quantity in ("seconds", "peak_mb")
    }
    assert [row["value"] for row in rows if (row["axis"], row["quantity"]) == ("n", "seconds")] == ["0.5", "1.0"]


@pytest.mark.parametrize("name", ["convergence", "margin", "batches", "front", "growth"])
def test_a_figure_without_any_finished_run_is_still_drawn(stem, name):
    getattr(figures, f"draw_{name}")(stem, [])
    assert numbers(stem) == []


def test_the_same_results_give_the_same_bytes(tmp_path, stem):
    paths = files(tmp_path, [run("digits", "flrml", 0.9)])
    kept = []
    for _ in range(2):
        figures.draw_front(stem, paths)
        kept.append([stem.with_suffix(suffix).read_bytes() for suffix in (".pdf", ".png", ".csv")])
    assert kept[0] == kept[1]


def test_ridge_follows_two_data_sets_and_sweeps_all(tmp_path, stem):
    followed = {"accuracies": [0.5, 0.6], "objective": [2.0, 1.0]}
    contents = [
        {
            "dataset": name,
            "outcome": "ok",
            "cosine": 0.7,
            "variants": {"flrml": followed, "flrml-ridge": followed | {"objective": []}},
            "ridges": [[0.1, 0.6], [10.0, 0.8]],
        }
        for name in "abc"
    ]
    figures.draw_ridge(stem, files(tmp_path, [*contents, {"outcome": "T", "reason": "slow"}]))
    rows = numbers(stem)
    assert sum(row["method"] == "ridge" for row in rows) == 6
    assert {row["dataset"] for row in rows if row["method"] == "flrml"} == {"a", "b"}
    assert [row["value"] for row in rows if row["quantity"] == "relative objective"][:2] == ["1.0", "0.5"]
