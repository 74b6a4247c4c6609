"""Describe the predictions of a model: confusion matrix, scores of each class, and a picture of both."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from flrml.pipeline.report.figures import style

MAX_NAMED = 30  # classes whose names fit
MAX_COUNTED = 12  # classes whose counts fit into the confusion matrix
MAX_NAME = 16  # characters


def describe_predictions(predictions: Path, folder: Path) -> None:
    """Write ``confusion.csv``, ``classes.csv`` and ``predictions.png`` to an existing folder."""
    with open(predictions, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows:
        return
    y, predicted = (np.array([row[column] for row in rows]) for column in ("class", "predicted"))
    classes = sorted({*y.tolist(), *predicted.tolist()})
    confusion = confusion_matrix(y, predicted, labels=classes)
    table = [(name, *counts) for name, counts in zip(classes, confusion.tolist(), strict=True)]
    style.write_numbers(folder / "confusion", ["class \\ predicted", *classes], table)
    *scores, counts = precision_recall_fscore_support(y, predicted, labels=classes, zero_division=0)
    columns = (counts.tolist(), *(np.round(score, 4).tolist() for score in scores))
    numbers = zip(classes, *columns, strict=True)
    style.write_numbers(folder / "classes", ["class", "rows", "precision", "recall", "f1"], numbers)
    shown = np.array([row["x"] != "" for row in rows])
    n_panels = 2 if shown.any() else 1
    with style.panels(folder / "predictions", n_panels, size=(3.6, 3.3), suffixes=(".png",)) as axes:
        _draw_confusion(axes[0], classes, confusion)
        if shown.any():
            places = np.array([(row["x"], row["y"]) for row in rows if row["x"]], dtype=float)
            _draw_places(axes[1], places, np.searchsorted(classes, y[shown]), (y == predicted)[shown], classes)


def _draw_confusion(panel: Axes, classes: list[str], confusion: NDArray) -> None:
    """Draw the share of each class that is predicted as each class, with the counts if there is room."""
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    panel.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    panel.grid(False)
    panel.set(xlabel="predicted class", ylabel="class", title="test rows")
    if len(classes) <= MAX_NAMED:
        names = [_short(name) for name in classes]
        panel.set_xticks(range(len(classes)), names, rotation=90, fontsize=6)
        panel.set_yticks(range(len(classes)), names, fontsize=6)
    if len(classes) <= MAX_COUNTED:
        for line, column in np.argwhere(confusion):
            colour = "white" if shares[line, column] > 0.5 else "black"
            count = str(confusion[line, column])
            panel.text(column, line, count, ha="center", va="center", fontsize=6, color=colour)


def _draw_places(panel: Axes, places: NDArray, y: NDArray, is_right: NDArray, classes: list[str]) -> None:
    """Draw rows in the plane, coloured by class; those with another predicted class as crosses."""
    colours = np.array(style.COLOURS)[y % len(style.COLOURS)]
    for marker, chosen in ((".", is_right), ("x", ~is_right)):
        x, height = places[chosen].T
        panel.scatter(x, height, s=14, marker=marker, color=colours[chosen], linewidths=0.6)
    panel.set(xlabel="first principal component", ylabel="second", title="embedding (× wrong)")
    panel.set(xticks=[], yticks=[])
    if len(classes) <= MAX_NAMED:
        look: Any = {"fontsize": 6, "bbox": {"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 1}}
        for number in np.unique(y):
            x, height = np.median(places[y == number], axis=0)
            panel.text(x, height, _short(classes[number]), ha="center", va="center", **look)


def _short(name: str) -> str:
    return name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + "…"
