"""The common style of the figures: panels, colours, legends, and the numbers behind a figure."""

import csv
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

from flrml.files import atomic_write

# Okabe and Ito's colours: told apart by the colour-blind, and in grey together with the markers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
MARKERS = "osD^vP*X<>h"
DISTINCT = len(COLOURS) * len(MARKERS)  # as the two numbers have no common factor
# A method has one colour and one marker in all figures; those of a method that is not listed follow from its name.
METHODS_IN_ORDER = (
    "flrml", "flrml-reference", "flrml-ridge", "mflrml", "mflrml-reference", "kissme", "cosine", "ridge-classifier",
    "svd", "whitened-svd", "lda-tuned", "oasis", "rmml", "lmnn", "lrsml", "frml", "scml", "drml", "sgdinc", "lda",
    "logistic", "nca",
)  # fmt: skip
REFERENCE: Any = {"color": "grey", "linestyle": ":", "linewidth": 1}  # of a line to compare with
POINT: Any = {"markersize": 5, "markeredgecolor": "black", "markeredgewidth": 0.4, "linestyle": ""}
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
METADATA: dict[str, Any] = {".pdf": {"CreationDate": None}, ".png": {"Software": None}}  # left out


def method_style(method: str) -> dict[str, Any]:
    """Return the colour and the marker of a method."""
    if method in METHODS_IN_ORDER:
        return numbered_style(METHODS_IN_ORDER.index(method))
    listed = len(METHODS_IN_ORDER)
    return numbered_style(listed + crc32(method.encode()) % (DISTINCT - listed))


def dataset_style(position: int) -> dict[str, Any]:
    """Return the colour and the marker of a data set; those of FLRML in its three forms come last."""
    return numbered_style(position + 3)


def numbered_style(number: int) -> dict[str, Any]:
    """Return the colour and the marker of a line by its number."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}


@contextmanager
def panels(
    stem: str | Path,
    n: int = 1,
    columns: int = 3,
    size: tuple[float, float] = (2.6, 2.1),
    suffixes: tuple[str, ...] = (".pdf", ".png"),
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
            for suffix in suffixes:
                with atomic_write(f"{stem}{suffix}") as temporary:
                    figure.savefig(temporary, format=suffix[1:], metadata=METADATA[suffix])
        finally:
            plt.close(figure)


def write_numbers(stem: str | Path, head: list[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write the numbers behind a figure to ``stem``.csv."""
    with atomic_write(f"{stem}.csv") as temporary, temporary.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def band(panel: Axes, x: Any, values: Any, label: str, look: dict[str, Any]) -> Iterator[tuple]:
    """Draw the mean of the values at each x with a band of one standard deviation; return x, both and counts."""
    mean, deviation, count = (np.array([measure(each) for each in values]) for measure in (np.mean, np.std, len))
    panel.plot(x, mean, label=label, **look)
    panel.fill_between(x, mean - deviation, mean + deviation, color=look["color"], alpha=0.15, linewidth=0)
    return zip(x, mean, deviation, count, strict=True)


def legend_above(axes: list[Axes]) -> None:
    """Draw one legend for all panels, above them, clear of the curves; the figure grows by its lines."""
    handles: dict[Any, Any] = {}
    for panel in axes:
        lines, labels = panel.get_legend_handles_labels()
        handles |= {label: line for label, line in zip(labels, lines, strict=True) if label not in handles}
    if handles:
        figure: Any = axes[0].figure
        widest = 0.45 + 0.075 * max(len(str(label)) for label in handles)  # inches of line and text
        columns = max(1, min(len(handles), int(figure.get_figwidth() / widest)))
        figure.set_figheight(figure.get_figheight() + 0.2 * -(-len(handles) // columns))
        figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=columns)


def plain_ticks(panel: Axes, sizes: Iterable[int]) -> None:
    """Set ticks in plain figures on logarithmic axes, at the sizes below and few at the side."""
    few_ticks(panel.xaxis)
    panel.xaxis.set_major_locator(FixedLocator(sorted(sizes)))
    few_ticks(panel.yaxis)


def few_ticks(axis: Axis) -> None:
    """Set few ticks, in plain figures, on a logarithmic axis.

    The axis spans at least a factor of four, so that a change of a per cent looks like one.
    """
    low, high = axis.get_view_interval()
    if high < 4 * low:
        low, high = np.sqrt(low * high) / 2, np.sqrt(low * high) * 2
        (axis.axes.set_xlim if axis is axis.axes.xaxis else axis.axes.set_ylim)(low, high)
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,), numticks=6))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}")


def whole_numbers(panel: Axes) -> None:
    """Set ticks of the axis below at whole numbers."""
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
