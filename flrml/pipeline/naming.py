"""Name the files of a run and the sweeps: what the stages write, and tracking and report read."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Files of a run, in results/runs/<data set>/<method>/seed<seed>/.
MODEL, TRAINING, METRICS = "model.npz", "training.json", "metrics.json"
PREDICTIONS = "predictions.csv"  # of the test rows
POINT = "point.json"  # of a sweep, in results/sweeps/<sweep>/<data set>/<method>/<value>/


def results_of(config: dict[str, Any]) -> str:
    """Return the results folder of a configuration; without one, a folder named after its data sets."""
    return config.get("results") or f"results/{'-'.join(config['datasets'])[:100]}"


def experiment_of(config: dict[str, Any]) -> str:
    """Return the MLflow experiment of a configuration; without one, it is named after the results folder."""
    return config.get("experiment") or re.sub(r"[^A-Za-z0-9._-]", "-", Path(results_of(config)).name)


@dataclass(frozen=True)
class Sweep:
    """A figure that sweeps one parameter."""

    parameter: str
    values: str  # key of its values in the figure's settings
    parse: type  # of the values
    along: bool = False  # whether accuracy is measured along the mini-batches, or only at the end
    retrieval: bool = False  # whether retrieval is scored too


SWEEPS = {
    "margin": Sweep("margin_ratio", "ratios", float),
    "batches": Sweep("batch_triplets", "sizes", int, along=True),
    "directions": Sweep("n_components", "sizes", int, retrieval=True),
}
