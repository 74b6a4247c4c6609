"""Measure the accuracy of a method along one of its parameters."""

import time
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from flrml.files import PathLike, write_json
from flrml.methods import METHODS
from flrml.pipeline.naming import SWEEPS
from flrml.pipeline.stages.fit import timed_fit
from flrml.pipeline.stages.inputs import bind_spectrum
from flrml.pipeline.stages.limits import within_limits
from flrml.pipeline.stages.progress import Progress
from flrml.pipeline.stages.provenance import provenance
from flrml.pipeline.stages.scores import PreparedRows
from flrml.rows import gram
from flrml.triplets import draw_triplets

NOISE = 0.01  # of the largest singular value of a mini-batch: smaller ones are noise


def sweep_point(
    out: PathLike,
    *,
    data: PathLike,
    spectrum: PathLike | None,
    run: dict[str, Any],
    limits: dict[str, float],
) -> dict:
    """Measure the accuracy of a method at one value of a swept parameter, for several seeds.

    ``run`` holds ``dataset``, ``method``, ``parameters``, ``n_neighbors``, the ``sweep``, the ``value`` of its
    parameter and ``repeats``, the number of trainings, each of which has the limits for itself.
    """
    swept, value = SWEEPS[run["sweep"]], run["value"]
    rows = PreparedRows.load(data, run["n_neighbors"])
    point = run | {"started": time.time(), "training": uuid.uuid4().hex}
    bound = None
    if spectrum is not None:
        bound = bind_spectrum(spectrum, rows.X, METHODS[run["method"]].spectrum_kind)

    def train(seed: int) -> dict:
        parameters = run["parameters"] | {swept.parameter: value, "random_state": seed}
        if not swept.along:
            given = {"spectrum": bound, "groups": rows.groups}
            model, seconds = timed_fit(run["method"], parameters, rows.X, rows.y, **given)
            scores = {"accuracy": rows.accuracy(model)}
            if swept.retrieval:
                scores |= rows.embedded(model.transform).retrieval(METHODS[run["method"]].metric)
            return scores | {"train_seconds": seconds, "n_iter": int(getattr(model, "n_iter_", 0))}
        accuracies: dict[int, float] = {}

        def evaluate(model: Any) -> None:
            if model.n_iter_ in batches_to_evaluate(model.n_batches):
                accuracies[model.n_iter_] = rows.accuracy(model)

        timed_fit(run["method"], parameters, rows.X, rows.y, spectrum=bound, callback=evaluate)
        steps, values = list(accuracies), list(accuracies.values())
        return {"steps": steps, "accuracies": values, "accuracy": values[-1]}

    with Progress(Path(out).parent, point) as progress:
        points = []
        for seed in range(run["repeats"]):
            points.append({"seed": seed} | within_limits(partial(train, seed), **limits))
            if points[-1]["outcome"] == "ok":
                progress.metrics(seed, accuracy_by_seed=points[-1]["accuracy"])
        result = point | {swept.parameter: value, "points": points, "made_by": provenance()}
        if swept.along:
            result["batch"] = describe_batch(rows.X, rows.y, int(value))
        write_json(out, result)
        ended = any(point["outcome"] == "ok" for point in points)
        progress.end("trained" if ended else "failed", points[-1].get("reason"))
    return result


def batches_to_evaluate(n_batches: int) -> list[int]:
    """Return the mini-batches after which accuracy is measured: the first five, every fifth, and the last."""
    return [step for step in range(1, n_batches + 1) if step <= 5 or step % 5 == 0 or step == n_batches]


def describe_batch(X: Any, y: Any, n_triplets: int) -> dict[str, float]:
    """Count the singular values of a mini-batch, and those below 1 % of the largest: noise."""
    random = np.random.RandomState(0)
    triplets = draw_triplets(y, random_state=random)
    rows = np.unique(triplets[random.choice(len(triplets), min(n_triplets, len(triplets)), replace=False)])
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(gram(X[rows]).astype(np.float64)), 0))
    return {"singular_values": len(rows), "noise": int(np.sum(values < NOISE * values[-1])), "threshold": NOISE}


def summary(result: dict) -> str:
    """Return one line about a sweep point."""
    parameter = SWEEPS[result["sweep"]].parameter
    accuracies = [100 * point["accuracy"] for point in result["points"] if point["outcome"] == "ok"]
    failed = [f"{point['outcome']}: {point['reason']}" for point in result["points"] if point["outcome"] != "ok"]
    outcome = "  ".join([f"mean accuracy {np.mean(accuracies):5.1f} %"] * bool(accuracies) + failed[:1])
    return f"{result['dataset']:>14} {result['method']:<18} {parameter} = {result[parameter]:<5g} {outcome}"
