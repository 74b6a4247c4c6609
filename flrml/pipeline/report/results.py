"""Read result files for figures, tables and claims."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from flrml.files import read_json


def read_sweep(paths: Iterable[str], axis: str) -> list[dict[str, Any]]:
    """Return the results of a sweep in the order of its axis, without repeats that did not finish."""
    results = [read_json(path) for path in paths]
    for result in results:
        result["points"] = [point for point in result["points"] if point["outcome"] == "ok"]
    return sorted((result for result in results if result["points"]), key=lambda result: result[axis])


def mean(runs: Iterable[dict[str, Any]], quantity: str) -> float | None:
    """Return the mean of a quantity over the runs that finished; None if there is none."""
    values = [run[quantity] for run in runs if run["outcome"] == "ok" and quantity in run]
    return float(np.mean(values)) if values else None


def growth_curve(growth: dict[str, Any], quantity: str = "seconds") -> tuple[list[int], list[float]]:
    """Return the sizes of the data, and a quantity of the trainings that ended; seconds count per iteration."""
    points = [point for point in growth["points"] if point["outcome"] == "ok"]
    values = [point[quantity] / (max(point["n_iter"], 1) if quantity == "seconds" else 1) for point in points]
    return [point["size"] for point in points], values


def exponent(growth: dict[str, Any], quantity: str = "seconds") -> float | None:
    """Return the fitted exponent of a quantity in the size of the data; see :func:`growth_curve`."""
    sizes, values = growth_curve(growth, quantity)
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0]) if len(sizes) > 1 else None
