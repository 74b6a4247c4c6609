"""Figures of retrieval: among new classes, and against the number of directions."""

from pathlib import Path
from typing import Any

import numpy as np

from flrml.pipeline.report.figures import style
from flrml.pipeline.report.results import Results, by, title

SCORES = {"recall_at_1": "recall at 1 (%)", "map_at_r": "MAP@R (%)"}


def draw_new_classes(stem: str | Path, results: Results) -> None:
    """Draw MAP@R against recall at 1, a panel per data set and a point per method; lines cross at cosine on X."""
    runs = by(results.studies.finished, "dataset", "method")
    rows = []
    with style.panels(stem, len(runs), size=(2.7, 2.3)) as axes:
        for panel, (dataset, of_dataset) in zip(axes, runs.items(), strict=True):
            for method, found in of_dataset.items():
                scores = [100 * np.array([run[score] for run in found]) for score in SCORES]
                (x, y), (spread_x, spread_y) = ([f(values) for values in scores] for f in (np.mean, np.std))
                look: Any = style.POINT | style.method_style(method)
                panel.errorbar(x, y, spread_y, spread_x, elinewidth=0.8, label=title(method), **look)
                if method == "cosine":
                    panel.axvline(x, **style.REFERENCE)
                    panel.axhline(y, **style.REFERENCE)
                rows.append((dataset, method, x, y, spread_x, spread_y, len(found)))
            panel.set(title=dataset, xlabel=SCORES["recall_at_1"], ylabel=SCORES["map_at_r"])
        style.legend_above(axes)
    head = [f"{kind} {score}" for kind in ("mean", "deviation of") for score in SCORES]
    style.write_numbers(stem, ["dataset", "method", *head, "runs"], rows)


def draw_directions(stem: str | Path, results: Results) -> None:
    """Draw recall at 1 and MAP@R against the number of directions, side by side, for each data set."""
    points = by(results.directions, "dataset", "method")
    cosine = {run["dataset"]: run for run in results.finished if run["method"] == "cosine"}
    rows = []
    with style.panels(stem, 2 * len(points), columns=4, size=(2.6, 2.1)) as axes:
        places = [(dataset, score) for dataset in points for score in SCORES]
        for panel, (dataset, score) in zip(axes, places, strict=True):
            for method, found in points[dataset].items():
                sizes = [result["n_components"] for result in found]
                values = [[100 * point[score] for point in result["points"]] for result in found]
                drawn = style.band(panel, sizes, values, title(method), style.method_style(method))
                rows += [(dataset, method, score, *row[:3]) for row in drawn]
            if dataset in cosine:
                panel.axhline(100 * cosine[dataset][score], label="cosine on X", **style.REFERENCE)
                rows.append((dataset, "cosine", score, "all", 100 * cosine[dataset][score], 0.0))
            panel.set(title=dataset, xlabel="directions d", ylabel=SCORES[score], xscale="log")
            ticks = sorted({result["n_components"] for result in results.directions})
            panel.set_xticks(ticks, [str(size) for size in ticks])
            panel.minorticks_off()
        style.legend_above(axes)
    style.write_numbers(stem, ["dataset", "method", "score", "directions", "mean", "standard deviation"], rows)
