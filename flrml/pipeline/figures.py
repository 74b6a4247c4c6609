"""Draw figures as PDF and PNG with their numbers as CSV, from result files alone."""

import csv
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

from flrml.files import atomic_write, read_json
from flrml.loss import softplus
from flrml.methods import METHODS

# Okabe and Ito's colours: told apart by the colour-blind, and in grey together with the markers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
MARKERS = "osD^vP*X"
STYLE: Any = {
    "font.family": "serif",
    "font.size": 9,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
}


@contextmanager
def panels(
    stem: str | Path, n: int = 1, columns: int = 3, size: tuple[float, float] = (2.6, 2.1)
) -> Iterator[list[Axes]]:
    """Give axes of a figure in the common style, saved as ``stem``.pdf and .png when the block ends."""
    columns = min(max(n, 1), columns)
    lines = max(-(-n // columns), 1)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(lines, columns, figsize=(size[0] * columns, size[1] * lines), squeeze=False)
        used = list(axes.ravel())
        for unused in used[n:]:
            unused.remove()
        if not n:
            figure.text(0.5, 0.5, "no completed runs", ha="center", va="center")
        try:
            yield used[:n]
            for suffix, metadata in ((".pdf", {"CreationDate": None}), (".png", {"Software": None})):
                with atomic_write(f"{stem}{suffix}") as beside:
                    figure.savefig(beside, format=suffix[1:], metadata=metadata)
        finally:
            plt.close(figure)


def write_numbers(stem: str | Path, head: list[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write the numbers behind a figure to ``stem``.csv."""
    with atomic_write(f"{stem}.csv") as beside, beside.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


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
            panel.set(title=METHODS[method].label, xlabel="iteration", ylabel="objective / first objective")
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        _legend_above(axes)
    write_numbers(stem, ["method", "dataset", "iteration", "relative objective"], rows)


def draw_margin(stem: str | Path, paths: Iterable[str]) -> None:
    """Draw accuracy against the margin ratio: mean and standard deviation over repeats, a panel per data set."""
    results = _finished(paths, "margin_ratio")
    datasets = list(dict.fromkeys(result["dataset"] for result in results))
    rows = []
    with panels(stem, len(datasets)) as axes:
        for panel, dataset in zip(axes, datasets, strict=True):
            found = [result for result in results if result["dataset"] == dataset]
            ratios = [result["margin_ratio"] for result in found]
            accuracies = [np.array([100 * point["accuracy"] for point in result["points"]]) for result in found]
            mean, deviation = (np.array([f(values) for values in accuracies]) for f in (np.mean, np.std))
            _band(panel, ratios, mean, deviation, COLOURS[0], "o")
            panel.set(title=dataset, xlabel=r"margin ratio $m / \bar{l}$", ylabel="5-NN accuracy (%)")
            counts = [len(values) for values in accuracies]
            rows += [(dataset, *row) for row in zip(ratios, mean, deviation, counts, strict=True)]
    write_numbers(stem, ["dataset", "margin ratio", "mean accuracy", "standard deviation", "repeats"], rows)


def draw_batches(stem: str | Path, paths: Iterable[str]) -> None:
    """Draw the accuracy of M-FLRML against the number of mini-batches, a line per size, a panel per data set."""
    results = _finished(paths, "batch_triplets")
    datasets = list(dict.fromkeys(result["dataset"] for result in results))
    sizes = sorted({result["batch_triplets"] for result in results})
    rows = []
    with panels(stem, len(datasets), size=(2.6, 2.3)) as axes:
        for panel, dataset in zip(axes, datasets, strict=True):
            for result in (result for result in results if result["dataset"] == dataset):
                style = sizes.index(result["batch_triplets"])
                accuracy = 100 * np.array([point["accuracies"] for point in result["points"]])
                mean, deviation = accuracy.mean(axis=0), accuracy.std(axis=0)
                steps = np.arange(1, accuracy.shape[1] + 1)
                label = f"$N_t$ = {result['batch_triplets']}"
                _band(panel, steps, mean, deviation, COLOURS[style % 8], MARKERS[style % 8], label)
                head = (dataset, result["batch_triplets"])
                rows += [(*head, *row, len(accuracy)) for row in zip(steps, mean, deviation, strict=True)]
            panel.set(title=dataset, xlabel="mini-batches", ylabel="5-NN accuracy (%)")
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        _legend_above(axes)
    head_of_csv = ["dataset", "N_t", "mini-batches", "mean accuracy", "standard deviation", "repeats"]
    write_numbers(stem, head_of_csv, rows)


def draw_front(stem: str | Path, paths: Iterable[str]) -> None:
    """Draw accuracy against training time of all methods, a panel per data set; the line joins the best ones."""
    results = [result for path in paths if (result := read_json(path))["outcome"] == "ok"]
    datasets = list(dict.fromkeys(result["dataset"] for result in results))
    used = [name for name in METHODS if any(result["method"] == name for result in results)]
    styles = dict(zip(used, zip(cycle(COLOURS), cycle(MARKERS + "<>hd"), strict=False), strict=False))
    rows, handles = [], {}
    with panels(stem, len(datasets), size=(2.7, 2.4)) as axes:
        for panel, dataset in zip(axes, datasets, strict=True):
            points = []
            for name in used:
                found = [r for r in results if r["method"] == name and r["dataset"] == dataset]
                if not found:
                    continue
                seconds = max(float(np.mean([r["train_seconds"] for r in found])), 1e-3)
                accuracy = 100 * float(np.mean([r["accuracy"] for r in found]))
                colour, marker = styles[name]
                handles[METHODS[name].label] = panel.plot(
                    seconds,
                    accuracy,
                    marker,
                    color=colour,
                    markersize=5,
                    markeredgecolor="black",
                    markeredgewidth=0.4,
                )[0]
                points.append((seconds, accuracy))
                rows.append((dataset, name, seconds, accuracy))
            front = [p for p in sorted(points) if not any(q[0] <= p[0] and q[1] >= p[1] and q != p for q in points)]
            panel.step(*zip(*front, strict=True), where="post", color="grey", linewidth=0.8, zorder=0)
            panel.set(title=dataset, xlabel="training time (s)", ylabel="5-NN accuracy (%)", xscale="log")
        if handles:
            figure: Any = axes[0].figure
            columns = min(len(handles), max(2, 5 * min(len(axes), 3) // 3))
            figure.set_figheight(figure.get_figheight() + 0.2 * -(-len(handles) // columns))
            figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)
    write_numbers(stem, ["dataset", "method", "training seconds", "accuracy"], rows)


def draw_growth(stem: str | Path, paths: Iterable[str]) -> None:
    """Draw time and peak memory against n and against D on a log scale, with fitted exponents."""
    results = [read_json(path) for path in paths]
    quantities = (("seconds", "training time (s)"), ("peak_mb", "peak memory (MB)"))
    rows = []
    by_axis = {result["axis"]: [r for r in results if r["axis"] == result["axis"]] for result in results}
    with panels(stem, 2 * len(by_axis), columns=2, size=(3.4, 2.7)) as axes:
        for number, (axis, of_axis) in enumerate(by_axis.items()):
            for panel, (quantity, label) in zip(axes[2 * number : 2 * number + 2], quantities, strict=True):
                for style, result in enumerate(of_axis):
                    ended = [point for point in result["points"] if point["outcome"] == "ok"]
                    sizes, values = ([point[key] for point in ended] for key in ("size", quantity))
                    name = METHODS[result["method"]].label
                    if len(ended) > 1:
                        exponent = np.polyfit(np.log(sizes), np.log(values), 1)[0]
                        name += f" ~ ${axis}^{{{exponent:.2f}}}$"
                    panel.loglog(sizes, values, marker=MARKERS[style], color=COLOURS[style], label=name)
                    rows += [
                        (result["method"], axis, size, quantity, value)
                        for size, value in zip(sizes, values, strict=True)
                    ]
                _plain_ticks(panel, {point["size"] for result in of_axis for point in result["points"]})
                panel.set(xlabel=f"${axis}$ ({of_axis[0]['dataset']})", ylabel=label)
                panel.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0))
    write_numbers(stem, ["method", "axis", "size", "quantity", "value"], rows)


def draw_ridge(stem: str | Path, paths: Iterable[str]) -> None:
    """Draw accuracy and objective per iteration on two data sets, and accuracy against the ridge on all."""
    results = [result for path in paths if (result := read_json(path))["outcome"] == "ok"]
    followed = results[:2]
    columns = len(followed) + 1
    rows: list[tuple] = []
    with panels(stem, 2 * columns if results else 0, columns, size=(2.9, 2.3)) as axes:
        for number, result in enumerate(followed):
            _follow(axes[number], axes[columns + number], result, rows)
        if results:
            _against_ridge(axes[columns - 1], results, rows)
            _legend_in(axes[-1], axes[0], axes[columns - 1])
    write_numbers(stem, ["dataset", "method", "iteration or ridge", "quantity", "value"], rows)


def _follow(panel: Axes, below: Axes, result: dict, rows: list[tuple]) -> None:
    """Draw accuracy per iteration above and objective below, of each method on one data set."""
    for style, (method, followed) in enumerate(result["variants"].items()):
        look: Any = {"marker": MARKERS[style], "color": COLOURS[style], "label": METHODS[method].label}
        accuracies = 100 * np.array(followed["accuracies"])
        panel.plot(accuracies, **look)
        relative = np.array(followed["objective"])
        relative = relative / relative[0] if len(relative) else relative
        below.plot(relative, **look)
        rows += [(result["dataset"], method, step, "accuracy", a / 100) for step, a in enumerate(accuracies)]
        rows += [(result["dataset"], method, step, "relative objective", f) for step, f in enumerate(relative)]
    panel.axhline(100 * result["cosine"], color="black", linestyle=":", linewidth=1.2, label="cosine on X")
    rows.append((result["dataset"], "cosine", 0, "accuracy", result["cosine"]))
    panel.set(title=result["dataset"], ylabel="5-NN accuracy (%)")
    below.set(xlabel="iteration or round", ylabel="objective / first")
    for axes in (panel, below):
        axes.margins(y=0.1)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _against_ridge(panel: Axes, results: list[dict], rows: list[tuple]) -> None:
    """Draw the accuracy of RidgeFLRML against g, with cosine as a dotted line in the same colour."""
    for style, result in enumerate(results, start=3):
        colour, marker = COLOURS[style % 8], MARKERS[style % 8]
        ridges, accuracies = zip(*result["ridges"], strict=True)
        panel.plot(ridges, 100 * np.array(accuracies), marker=marker, color=colour, label=result["dataset"])
        panel.axhline(100 * result["cosine"], color=colour, linestyle=":", linewidth=0.9)
        rows += [(result["dataset"], "ridge", g, "accuracy", a) for g, a in result["ridges"]]
    panel.set(title="RidgeFLRML by ridge", xlabel="ridge g", ylabel="5-NN accuracy (%)", xscale="log")


def _legend_in(panel: Axes, *others: Axes) -> None:
    """Put the legends of other panels in a panel of their own."""
    panel.axis("off")
    titles = ("per iteration", "against g (dotted: cosine)")
    for height, axes, title in zip((1.05, 0.4), others, titles, strict=False):
        labels = axes.get_legend_handles_labels()
        panel.add_artist(panel.legend(*labels, title=title, loc="upper left", bbox_to_anchor=(0, height)))


def _finished(paths: Iterable[str], axis: str) -> list[dict]:
    """Return the results of a sweep in the order of its axis, without repeats that did not finish."""
    results = [read_json(path) for path in paths]
    for result in results:
        result["points"] = [point for point in result["points"] if point["outcome"] == "ok"]
    return sorted((result for result in results if result["points"]), key=lambda result: result[axis])


def _band(
    panel: Axes, x: Any, mean: np.ndarray, deviation: np.ndarray, colour: str, marker: str, label: str | None = None
) -> None:
    """Draw a line with a band of one standard deviation."""
    panel.plot(x, mean, marker=marker, color=colour, label=label)
    panel.fill_between(x, mean - deviation, mean + deviation, color=colour, alpha=0.15, linewidth=0)


def _legend_above(axes: list[Axes]) -> None:
    """Draw one legend for all panels, above them, clear of the curves."""
    handles: dict[Any, Any] = {}
    for panel in axes:
        lines, labels = panel.get_legend_handles_labels()
        handles |= {label: line for label, line in zip(labels, lines, strict=True) if label not in handles}
    if handles:
        figure: Any = axes[0].figure
        lines_needed = -(-len(handles) // (2 * len(axes)))
        columns = -(-len(handles) // lines_needed)
        figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=columns)


def _plain_ticks(panel: Axes, sizes: Iterable[int]) -> None:
    """Set ticks in plain figures on logarithmic axes, at the sizes below and few at the side.

    The axis at the side spans at least a factor of four, so that a change of a per cent looks like one.
    """
    low, high = panel.get_ylim()
    if high < 4 * low:
        middle = np.sqrt(low * high)
        panel.set_ylim(middle / 2, 2 * middle)
    panel.xaxis.set_major_locator(FixedLocator(sorted(sizes)))
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=6))
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}")
