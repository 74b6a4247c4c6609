"""Every figure is written as PDF and PNG with its numbers, from hand-made result files."""

import csv

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from flrml.methods import METHODS
from flrml.pipeline.report.catalog import FIGURES
from flrml.pipeline.report.figures import style
from flrml.pipeline.report.figures.beyond import draw_growth, draw_iterations, draw_pareto
from flrml.pipeline.report.figures.predictions import describe_predictions
from flrml.pipeline.report.figures.printed import draw_batches, draw_convergence, draw_margin, draw_smoothing
from flrml.pipeline.report.figures.ranking import draw_directions, draw_new_classes
from flrml.pipeline.report.figures.style import METHODS_IN_ORDER, method_style
from flrml.pipeline.report.results import Results, load_function
from tests.pipeline.results import growth, point, read, run


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
    draw_smoothing(stem, Results())
    rows = numbers(stem)
    middle = next(row for row in rows if float(row["x"]) == 0)
    assert (float(middle["max(0, x)"]), float(middle["mu(x)"])) == (0, pytest.approx(0.6931, abs=1e-4))


def test_convergence_is_relative_to_the_first_objective(tmp_path, stem):
    contents = [run(name, method, 0.5) for name in ("digits", "r8") for method in ("flrml", "flrml-reference")]
    draw_convergence(stem, read(tmp_path, descents=[*contents, run("r52", "flrml")]))
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
    draw_margin(stem, read(tmp_path, margin=contents))
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
    draw_batches(stem, read(tmp_path, batches=contents))
    rows = numbers(stem)
    assert len(rows) == 2 * 2 * 2 * 3
    assert [row["method"] for row in rows[::6]] == ["mflrml", "mflrml-reference"] * 2
    assert [row["N_t"] for row in rows[:6]] == ["20"] * 3 + ["40"] * 3
    assert [float(row["mean accuracy"]) for row in rows[:3]] == pytest.approx([35, 35, 70])


def test_pareto_shows_what_finished_against_the_time_with_the_svd(tmp_path, stem):
    contents = [run("digits", "flrml", 0.9), run("digits", "flrml", 0.7, seed=1), run("digits", "rmml")]
    results = read(tmp_path, runs=[*contents, run("digits", "cosine", 0.5, train_seconds=0.5)])
    results.svd = {("digits", "plain"): 3.0, ("digits", "centered"): 9.0}
    draw_pareto(stem, results)
    rows = {row["method"]: (float(row["accuracy"]), float(row["seconds with SVD"])) for row in numbers(stem)}
    assert rows == {"flrml": (pytest.approx(80), 5.0), "cosine": (pytest.approx(50), 0.5)}


def test_pareto_has_no_accuracies_beyond_all_rows(tmp_path, stem, monkeypatch):
    drawn: list = []
    monkeypatch.setattr(plt, "close", drawn.append)
    draw_pareto(stem, read(tmp_path, runs=[run("digits", "flrml", 1.0), run("digits", "cosine", 1.0)]))
    assert 100 < drawn[0].axes[0].get_ylim()[1] <= 101


def test_growth_leaves_out_sizes_over_the_limit(tmp_path, stem):
    contents = [growth("n", "flrml", {100: 1.0, 200: 2.0, 400: None}), growth("D", "mflrml", {10: 1.0, 20: 1.0})]
    draw_growth(stem, read(tmp_path, growth=contents))
    rows = numbers(stem)
    assert len(rows) == 2 * (2 + 2)
    assert {(row["axis"], row["quantity"]) for row in rows} == {
        (axis, quantity) for axis in "nD" for quantity in ("seconds", "peak_mb")
    }
    assert [row["value"] for row in rows if (row["axis"], row["quantity"]) == ("n", "seconds")] == ["0.5", "1.0"]


@pytest.mark.parametrize("name", [name for name, figure in FIGURES.items() if figure.inputs])
def test_a_figure_without_any_finished_run_is_still_drawn(stem, name):
    load_function(FIGURES[name].function)(stem, Results())
    assert numbers(stem) == []


def test_the_same_results_give_the_same_bytes(tmp_path, stem):
    results = read(tmp_path, runs=[run("digits", "flrml", 0.9)])
    kept = []
    for _ in range(2):
        draw_pareto(stem, results)
        kept.append([stem.with_suffix(suffix).read_bytes() for suffix in (".pdf", ".png", ".csv")])
    assert kept[0] == kept[1]


def test_every_method_has_a_style_of_its_own():
    assert set(METHODS_IN_ORDER) <= set(METHODS)
    assert len({tuple(method_style(method).values()) for method in METHODS_IN_ORDER}) == len(METHODS_IN_ORDER)
    assert method_style("new") == method_style("new") != method_style("newer")
    listed = [method_style(method) for method in METHODS_IN_ORDER]
    assert all(method_style(f"method{number}") not in listed for number in range(500))


def test_new_classes_have_mean_and_deviation_over_splits(tmp_path, stem):
    contents = [
        run(f"digits-split{split}", method, accuracy + split / 10, study="digits")
        for method, accuracy in (("cosine", 0.5), ("flrml", 0.6))
        for split in (0, 1)
    ]
    draw_new_classes(stem, read(tmp_path, new_classes=[*contents, run("digits-split0", "lmnn", study="digits")]))
    rows = numbers(stem)
    assert [(row["dataset"], row["method"], row["runs"]) for row in rows] == [
        ("digits", "cosine", "2"),
        ("digits", "flrml", "2"),
    ]
    assert float(rows[1]["mean recall_at_1"]) == pytest.approx(55)
    assert float(rows[1]["mean map_at_r"]) == pytest.approx(32.5)
    assert float(rows[1]["deviation of map_at_r"]) == pytest.approx(2.5)


def test_directions_are_compared_with_cosine(tmp_path, stem):
    contents = [point("a", "n_components", size, [0.6, 0.8], method="svd") for size in (20, 10)]
    contents[0]["label"] = "mine"
    draw_directions(stem, read(tmp_path, directions=contents, all_runs=[run("a", "cosine", 0.5)]))
    rows = [row for row in numbers(stem) if row["score"] == "map_at_r"]
    assert [(row["method"], row["directions"], float(row["mean"])) for row in rows] == [
        ("svd", "10", pytest.approx(35)),
        ("mine", "20", pytest.approx(35)),
        ("cosine", "all", pytest.approx(25)),
    ]


def test_iterations_draws_every_data_set(tmp_path, stem):
    followed = {"accuracies": [0.5, 0.6], "objective": [2.0, 1.0]}
    contents = [
        {
            "dataset": name,
            "outcome": "ok",
            "cosine": 0.7,
            "methods": {"flrml": followed, "flrml-ridge": followed | {"objective": []}},
            "ridges": [[0.1, 0.6], [10.0, 0.8]],
        }
        for name in "abc"
    ]
    draw_iterations(stem, read(tmp_path, iterations=[*contents, {"outcome": "T", "reason": "slow"}]))
    rows = numbers(stem)
    assert sum(row["method"] == "ridge" for row in rows) == 6
    assert {row["dataset"] for row in rows if row["method"] == "flrml"} == {"a", "b", "c"}
    assert [row["value"] for row in rows if row["quantity"] == "relative objective"][:2] == ["1.0", "0.5"]


def written(path, rows):
    style.write_numbers(path, ["row", "class", "predicted", "x", "y"], rows)
    return path.with_suffix(".csv")


def test_predictions_have_a_confusion_matrix_and_scores_of_each_class(tmp_path):
    labels = np.random.RandomState(0).choice(["wolf", "dog", "a very long name of a class"], (50, 2))
    labels[0] = "dog", "never a test row"
    rows = [(number, *pair, number % 7, number % 5) for number, pair in enumerate(labels.tolist())]
    describe_predictions(written(tmp_path / "predictions", rows), tmp_path)
    classes = np.unique(labels).tolist()
    expected = confusion_matrix(*labels.T)
    with open(tmp_path / "confusion.csv", newline="") as file:
        head, *table = csv.reader(file)
    assert head[1:] == [line[0] for line in table] == classes
    np.testing.assert_array_equal([[int(count) for count in line[1:]] for line in table], expected)
    scores = np.array(precision_recall_fscore_support(*labels.T, zero_division=0))
    with open(tmp_path / "classes.csv", newline="") as file:
        found = [[row[name] for name in ("precision", "recall", "f1", "rows")] for row in csv.DictReader(file)]
    np.testing.assert_allclose(np.array(found, dtype=float), scores.T, atol=1e-4)
    assert (tmp_path / "predictions.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("places", [True, False])
def test_predictions_of_many_classes_are_drawn_with_and_without_places(tmp_path, places):
    rows = [(row, f"c{row % 40}", f"c{row % 39}", *((row, -row) if places else ("", ""))) for row in range(80)]
    describe_predictions(written(tmp_path / "predictions", rows), tmp_path)
    assert (tmp_path / "predictions.png").exists()


def test_no_predictions_draw_nothing(tmp_path):
    describe_predictions(written(tmp_path / "predictions", []), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["predictions.csv"]
