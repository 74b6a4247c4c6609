"""The figures of the paper: smoothing, convergence, margin and mini-batches."""

from pathlib import Path

import numpy as np

from flrml import paper
from flrml.loss import softplus
from flrml.pipeline.report.figures import style
from flrml.pipeline.report.results import Results, by, title


def draw_smoothing(stem: str | Path, results: Results) -> None:
    """Draw μ(x) = log(1 + eˣ) against max(0, x)."""
    x = np.linspace(-5, 5, 201)
    with style.panels(stem, size=(3.4, 2.5)) as (axes,):
        axes.plot(x, np.maximum(x, 0), "--", color=style.COLOURS[1], label="max(0, x)")
        axes.plot(x, softplus(x), color=style.COLOURS[0], label="μ(x) = log(1 + eˣ)")
        axes.set(xlabel="x", ylabel="value")
        axes.legend()
    style.write_numbers(stem, ["x", "max(0, x)", "mu(x)"], zip(x, np.maximum(x, 0), softplus(x), strict=True))


def draw_convergence(stem: str | Path, results: Results) -> None:
    """Draw the objective per iteration relative to the first, a line per data set, a panel per method."""
    runs = by((run for run in results.finished if run["history"]), "method", "dataset")
    rows = []
    with style.panels(stem, len(runs), size=(3.2, 2.5)) as axes:
        for panel, (method, of_method) in zip(axes, runs.items(), strict=True):
            for dataset, (run,) in of_method.items():
                relative = np.array(run["history"]) / run["history"][0]
                panel.plot(relative, label=dataset, **style.dataset_style(results.positions.get(dataset, 0)))
                rows += [(method, dataset, step, value) for step, value in enumerate(relative)]
            panel.set(title=title(method), xlabel="iteration", ylabel="objective / first objective")
            style.whole_numbers(panel)
        style.legend_above(axes)
    style.write_numbers(stem, ["method", "dataset", "iteration", "relative objective"], rows)


def draw_margin(stem: str | Path, results: Results) -> None:
    """Draw accuracy against the margin ratio: mean and deviation over repeats, a panel per data set."""
    points = by(results.margin, "dataset", "method")
    rows = []
    with style.panels(stem, len(points)) as axes:
        for panel, (dataset, of_dataset) in zip(axes, points.items(), strict=True):
            for method, found in of_dataset.items():
                ratios = [result["margin_ratio"] for result in found]
                accuracies = [[100 * point["accuracy"] for point in result["points"]] for result in found]
                drawn = style.band(panel, ratios, accuracies, title(method), style.method_style(method))
                rows += [(dataset, method, *row) for row in drawn]
            panel.axvline(paper.MARGIN_RATIO, label="the paper's ratio", **style.REFERENCE)
            panel.set(title=dataset, xlabel=r"margin ratio $m / \bar{l}$", ylabel="5-NN accuracy (%)")
        style.legend_above(axes)
    head = ["dataset", "method", "margin ratio", "mean accuracy", "standard deviation", "repeats"]
    style.write_numbers(stem, head, rows)


def draw_batches(stem: str | Path, results: Results) -> None:
    """Draw accuracy against the number of mini-batches, a line per size, a panel per data set and method."""
    points = by(results.batches, "dataset", "method")
    places = [(dataset, method) for dataset, of_dataset in points.items() for method in of_dataset]
    sizes = sorted({result["batch_triplets"] for result in results.batches})
    columns = max((len(of_dataset) for of_dataset in points.values()), default=1)
    rows = []
    with style.panels(stem, len(places), columns, size=(3.2, 2.2)) as axes:
        for panel, (dataset, method) in zip(axes, places, strict=True):
            for result in points[dataset][method]:
                size, steps = result["batch_triplets"], result["points"][0]["steps"]
                accuracies = 100 * np.array([point["accuracies"] for point in result["points"]])
                label = f"$N_t$ = {size}" + (" (the paper's)" if size == paper.BATCH_TRIPLETS else "")
                drawn = style.band(panel, steps, accuracies.T, label, style.numbered_style(sizes.index(size)))
                rows += [(dataset, method, size, *row) for row in drawn]
            panel.axvline(paper.N_BATCHES, label="the paper's T = 20", **style.REFERENCE)
            panel.set(title=f"{dataset}, {title(method)}", xlabel="mini-batches", ylabel="5-NN accuracy (%)")
            style.whole_numbers(panel)
        style.legend_above(axes)
    names = ["dataset", "method", "N_t", "mini-batches", "mean accuracy", "standard deviation", "repeats"]
    style.write_numbers(stem, names, rows)
