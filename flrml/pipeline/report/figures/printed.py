"""The figures of the paper: smoothing, convergence, margin and mini-batches."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from flrml import paper
from flrml.files import read_json
from flrml.loss import softplus
from flrml.methods import METHODS
from flrml.pipeline.report.figures.style import (
    COLOURS,
    MARKERS,
    band,
    legend_above,
    panels,
    whole_numbers,
    write_numbers,
)
from flrml.pipeline.report.results import read_sweep


def draw_smoothing(stem: str | Path) -> None:
    """Draw μ(x) = log(1 + eˣ) against max(0, x)."""
    x = np.linspace(-5, 5, 201)
    with panels(stem, size=(3.4, 2.5)) as (axes,):
        axes.plot(x, np.maximum(x, 0), "--", color=COLOURS[1], label="max(0, x)")
        axes.plot(x, softplus(x), color=COLOURS[0], label="μ(x) = log(1 + eˣ)")
        axes.set(xlabel="x", ylabel="value")
        axes.legend()
    write_numbers(stem, ["x", "max(0, x)", "mu(x)"], zip(x, np.maximum(x, 0), softplus(x), strict=True))


def draw_convergence(stem: str | Path, paths: Iterable[str]) -> None:
    """Draw the objective per iteration relative to the first, a line per data set, a panel per method."""
    runs = [result for path in paths if (result := read_json(path))["outcome"] == "ok" and result["history"]]
    methods = list(dict.fromkeys(run["method"] for run in runs))
    datasets = list(dict.fromkeys(run["dataset"] for run in runs))
    rows = []
    with panels(stem, len(methods), size=(3.2, 2.8)) as axes:
        for panel, method in zip(axes, methods, strict=True):
            for run in (run for run in runs if run["method"] == method):
                style = datasets.index(run["dataset"])
                relative = np.array(run["history"]) / run["history"][0]
                panel.plot(relative, label=run["dataset"], marker=MARKERS[style % 8], color=COLOURS[style % 8])
                rows += [(method, run["dataset"], step, value) for step, value in enumerate(relative)]
            panel.set(title=METHODS[method].title, xlabel="iteration", ylabel="objective / first objective")
            whole_numbers(panel)
        legend_above(axes)
    write_numbers(stem, ["method", "dataset", "iteration", "relative objective"], rows)


def draw_margin(stem: str | Path, paths: Iterable[str]) -> None:
    """Draw accuracy against the margin ratio: mean and deviation over repeats, a panel per data set."""
    results = read_sweep(paths, "margin_ratio")
    datasets, methods = _names(results, "dataset"), _names(results, "method")
    rows = []
    with panels(stem, len(datasets)) as axes:
        for panel, dataset in zip(axes, datasets, strict=True):
            for style, method in enumerate(methods):
                found = [r for r in results if (r["dataset"], r["method"]) == (dataset, method)]
                ratios = [result["margin_ratio"] for result in found]
                accuracies = [np.array([100 * point["accuracy"] for point in result["points"]]) for result in found]
                mean, deviation = (np.array([f(values) for values in accuracies]) for f in (np.mean, np.std))
                band(panel, ratios, mean, deviation, COLOURS[style], MARKERS[style], METHODS[method].title)
                counts = [len(values) for values in accuracies]
                rows += [(dataset, method, *row) for row in zip(ratios, mean, deviation, counts, strict=True)]
            panel.axvline(paper.MARGIN_RATIO, color="grey", linestyle=":", linewidth=1, label="the paper's ratio")
            panel.set(title=dataset, xlabel=r"margin ratio $m / \bar{l}$", ylabel="5-NN accuracy (%)")
        legend_above(axes)
    head = ["dataset", "method", "margin ratio", "mean accuracy", "standard deviation", "repeats"]
    write_numbers(stem, head, rows)


def draw_batches(stem: str | Path, paths: Iterable[str]) -> None:
    """Draw accuracy against the number of mini-batches, a line per size, a panel per data set and method."""
    results = read_sweep(paths, "batch_triplets")
    datasets, methods = _names(results, "dataset"), _names(results, "method")
    sizes = sorted({result["batch_triplets"] for result in results})
    places = [(dataset, method) for dataset in datasets for method in methods]
    rows = []
    with panels(stem, len(places), max(len(methods), 1), size=(3.2, 2.4)) as axes:
        for panel, place in zip(axes, places, strict=True):
            for result in (r for r in results if (r["dataset"], r["method"]) == place):
                style = sizes.index(result["batch_triplets"])
                accuracy = 100 * np.array([point["accuracies"] for point in result["points"]])
                mean, deviation = accuracy.mean(axis=0), accuracy.std(axis=0)
                steps = result["points"][0]["steps"]
                chosen = " (the paper's)" if result["batch_triplets"] == paper.BATCH_TRIPLETS else ""
                label = f"$N_t$ = {result['batch_triplets']}{chosen}"
                band(panel, steps, mean, deviation, COLOURS[style % 8], MARKERS[style % 8], label)
                head = (*place, result["batch_triplets"])
                rows += [(*head, *row, len(accuracy)) for row in zip(steps, mean, deviation, strict=True)]
            panel.axvline(paper.N_BATCHES, color="grey", linestyle=":", linewidth=1, label="the paper's T = 20")
            title = f"{place[0]}, {METHODS[place[1]].title}"
            panel.set(title=title, xlabel="mini-batches", ylabel="5-NN accuracy (%)")
            whole_numbers(panel)
        legend_above(axes)
    columns = ["dataset", "method", "N_t", "mini-batches", "mean accuracy", "standard deviation", "repeats"]
    write_numbers(stem, columns, rows)


def _names(results: list[dict], key: str) -> list[str]:
    """Return the data sets or methods of some results, in order."""
    return list(dict.fromkeys(result[key] for result in results))
