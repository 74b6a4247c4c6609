"""Figures beyond the paper: accuracy against time, growth with the size of the data, and RidgeFLRML."""

from collections.abc import Iterable
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from flrml.files import read_json
from flrml.methods import METHODS
from flrml.pipeline.report.figures.style import (
    COLOURS,
    MARKERS,
    few_ticks,
    panels,
    plain_ticks,
    whole_numbers,
    write_numbers,
)
from flrml.pipeline.report.results import exponent, growth_curve


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
                handles[METHODS[name].title] = panel.plot(
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
            few_ticks(panel.xaxis)
        if handles:
            figure: Any = axes[0].figure
            columns = min(len(handles), max(2, 5 * min(len(axes), 3) // 3))
            figure.set_figheight(figure.get_figheight() + 0.2 * -(-len(handles) // columns))
            figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)
    write_numbers(stem, ["dataset", "method", "training seconds", "accuracy"], rows)


def draw_growth(stem: str | Path, paths: Iterable[str]) -> None:
    """Draw time and peak memory against n and against D on a log scale, with fitted exponents."""
    results = [read_json(path) for path in paths]
    quantities = (("seconds", "time of an iteration (s)"), ("peak_mb", "peak memory (MB)"))
    rows = []
    by_axis = {result["axis"]: [r for r in results if r["axis"] == result["axis"]] for result in results}
    with panels(stem, 2 * len(by_axis), columns=2, size=(3.4, 2.7)) as axes:
        for number, (axis, of_axis) in enumerate(by_axis.items()):
            for panel, (quantity, label) in zip(axes[2 * number : 2 * number + 2], quantities, strict=True):
                for style, result in enumerate(of_axis):
                    sizes, values = growth_curve(result, quantity)
                    name = METHODS[result["method"]].title
                    if (power := exponent(result, quantity)) is not None:
                        name += f" ~ ${axis}^{{{power:.2f}}}$"
                    panel.loglog(sizes, values, marker=MARKERS[style], color=COLOURS[style], label=name)
                    rows += [
                        (result["method"], axis, size, quantity, value)
                        for size, value in zip(sizes, values, strict=True)
                    ]
                plain_ticks(panel, {point["size"] for result in of_axis for point in result["points"]})
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
        look: Any = {"marker": MARKERS[style], "color": COLOURS[style], "label": METHODS[method].title}
        accuracies = 100 * np.array(followed["accuracies"])
        steps = followed.get("steps", range(len(accuracies)))
        panel.plot(steps, accuracies, **look)
        relative = np.array(followed["objective"])
        relative = relative / relative[0] if len(relative) else relative
        below.plot(relative, **look)
        rows += [
            (result["dataset"], method, step, "accuracy", a / 100)
            for step, a in zip(steps, accuracies, strict=True)
        ]
        rows += [(result["dataset"], method, step, "relative objective", f) for step, f in enumerate(relative)]
    panel.axhline(100 * result["cosine"], color="black", linestyle=":", linewidth=1.2, label="cosine on X")
    rows.append((result["dataset"], "cosine", 0, "accuracy", result["cosine"]))
    panel.set(title=result["dataset"], ylabel="5-NN accuracy (%)")
    below.set(xlabel="iteration or round", ylabel="objective / first")
    for axes in (panel, below):
        axes.margins(y=0.1)
        whole_numbers(axes)


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
