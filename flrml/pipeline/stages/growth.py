"""Measure how time and memory of a training grow with the size of the data."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from flrml.files import PathLike, write_json
from flrml.methods import METHODS
from flrml.pipeline.stages.fit import timed_fit
from flrml.pipeline.stages.inputs import load_rows
from flrml.pipeline.stages.limits import within_limits
from flrml.pipeline.stages.provenance import provenance
from flrml.spectrum import decompose


def measure_growth(out: PathLike, *, data: PathLike, run: dict[str, Any], limits: dict[str, float]) -> dict:
    """Measure time and peak memory of training on some rows or columns of a data set, for growing sizes.

    ``run`` holds ``dataset``, ``method``, ``parameters``, ``max_rank``, the ``axis``, "n" or "D", and ``sizes``.
    """

    def train(size: int) -> dict:
        X, y = load_rows(Path(data) / "train")
        by_rows = run["axis"] == "n"
        chosen = np.sort(np.random.RandomState(0).permutation(X.shape[0 if by_rows else 1])[:size])
        X, y = (X[chosen], y[chosen]) if by_rows else (X[:][:, chosen], y)
        spectrum = decompose(X, run["max_rank"]) if METHODS[run["method"]].uses_spectrum else None
        # All iterations are made: trainings that stop early would be compared by what they take to start.
        parameters = run["parameters"] | {"random_state": 0, "tol": 0}
        model, seconds = timed_fit(run["method"], parameters, X, y, spectrum=spectrum)
        return {"seconds": seconds, "n_iter": int(model.n_iter_), "shape": list(X.shape)}

    points = [{"size": size} | within_limits(partial(train, size), **limits) for size in run["sizes"]]
    result = {**run, "points": points, "made_by": provenance()}
    write_json(out, result)
    return result
