"""Figures beyond the paper: accuracy against time, growth with the size of the data, and RidgeFLRML."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from flrml.pipeline.report.figures import style
from flrml.pipeline.report.results import Results, exponent, growth_curve, title

QUANTITIES = (("seconds", "time of an iteration (s)"), ("peak_mb", "peak memory (MB)"))


def draw_pareto(stem: str | Path, results: Results) -> None:
    """Draw accuracy against the time of SVD and training, a panel per data set; the line joins the best methods."""
    seconds, accuracies = results.means("train_seconds"), results.means("accuracy")
    rows = []
    with style.panels(stem, len(seconds), size=(2.7, 2.3)) as axes:
        for panel, dataset in zip(axes, seconds, strict=True):
            points = []
            for method, trained in seconds[dataset].items():
                time = max(trained + results.svd_seconds(dataset, method), 1e-3)
                points.append((time, 100 * accuracies[dataset][method]))
                panel.plot(*points[-1], label=title(method), **style.POINT, **style.method_style(method))
                rows.append((dataset, method, *points[-1]))
            best = [p for p in sorted(points) if not any(q[0] <= p[0] and q[1] >= p[1] and q != p for q in points)]
            panel.step(*zip(*best, strict=True), where="post", color="grey", linewidth=0.8, zorder=0)
            panel.set(title=dataset, xlabel="training time, with SVD (s)", ylabel="5-NN accuracy (%)", xscale="log")
            panel.set_ylim(top=min(panel.get_ylim()[1], 101))
            style.few_ticks(panel.xaxis)
        style.legend_above(axes)
    style.write_numbers(stem, ["dataset", "method", "seconds with SVD", "accuracy"], rows)


def draw_growth(stem: str | Path, results: Results) -> None:
    """Draw time and peak memory against n and against D on a log scale, with fitted exponents."""
    axes_of_data = list(dict.fromkeys(result["axis"] for result in results.growth))
    places = [(axis, *quantity) for axis in axes_of_data for quantity in QUANTITIES]
    rows = []
    with style.panels(stem, len(places), columns=2, size=(3.4, 2.7)) as axes:
        for panel, (axis, quantity, label) in zip(axes, places, strict=True):
            found = [result for result in results.growth if result["axis"] == axis]
            for result in found:
                sizes, values = growth_curve(result, quantity)
                power = exponent(result, quantity)
                fitted = f" ~ ${axis}^{{{round(power, 2) + 0:.2f}}}$" if power is not None else ""
                name = result["method"]
                panel.loglog(sizes, values, label=title(name) + fitted, **style.method_style(name))
                rows += [(name, axis, size, quantity, value) for size, value in zip(sizes, values, strict=True)]
            style.plain_ticks(panel, {point["size"] for result in found for point in result["points"]})
            panel.set(xlabel=f"${axis}$ ({found[0]['dataset']})", ylabel=label)
            panel.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0))
    style.write_numbers(stem, ["method", "axis", "size", "quantity", "value"], rows)


def draw_iterations(stem: str | Path, results: Results) -> None:
    """Draw a column per data set: accuracy and objective per iteration, and accuracy against the ridge."""
    columns = len(results.iterations)
    rows: list[tuple] = []
    with style.panels(stem, 3 * columns, max(columns, 1), size=(2.6, 2.1)) as axes:
        for number, result in enumerate(results.iterations):
            _follow(axes[number], axes[columns + number], result, rows)
            _against_ridge(axes[2 * columns + number], result, rows)
        style.legend_above(axes)
    style.write_numbers(stem, ["dataset", "method", "iteration or ridge", "quantity", "value"], rows)


def _follow(panel: Axes, below: Axes, result: dict, rows: list[tuple]) -> None:
    """Draw accuracy per iteration above and objective below, of each method on one data set."""
    dataset = result["dataset"]
    for method, followed in result["methods"].items():
        accuracies, objective = 100 * np.array(followed["accuracies"]), np.array(followed["objective"])
        steps = followed.get("steps", range(len(accuracies)))
        relative = objective / objective[:1]
        panel.plot(steps, accuracies, label=title(method), **style.method_style(method))
        below.plot(relative, **style.method_style(method))
        rows += [(dataset, method, step, "accuracy", a / 100) for step, a in zip(steps, accuracies, strict=True)]
        rows += [(dataset, method, step, "relative objective", f) for step, f in enumerate(relative)]
    panel.axhline(100 * result["cosine"], label="cosine on X", **style.REFERENCE)
    rows.append((dataset, "cosine", 0, "accuracy", result["cosine"]))
    panel.set(title=dataset, ylabel="5-NN accuracy (%)")
    below.set(xlabel="iteration or round", ylabel="objective / first")
    for axes in (panel, below):
        axes.margins(y=0.1)
        style.whole_numbers(axes)


def _against_ridge(panel: Axes, result: dict, rows: list[tuple]) -> None:
    """Draw the accuracy of RidgeFLRML against g."""
    ridges, accuracies = zip(*result["ridges"], strict=True)
    panel.plot(ridges, 100 * np.array(accuracies), **style.method_style("flrml-ridge"))
    panel.axhline(100 * result["cosine"], **style.REFERENCE)
    rows += [(result["dataset"], "ridge", g, "accuracy", a) for g, a in result["ridges"]]
    panel.set(xlabel="ridge g of RidgeFLRML", ylabel="5-NN accuracy (%)", xscale="log")
