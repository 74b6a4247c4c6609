"""Sweeps over a parameter of a method, and over the size of the data."""

import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from flrml.files import PathLike, write_json
from flrml.methods import METHODS, build
from flrml.neighbors import knn_accuracy
from flrml.pipeline.report.results import NOISE
from flrml.pipeline.stages.inputs import bind_spectrum, load_rows
from flrml.pipeline.stages.limits import within_limits
from flrml.pipeline.stages.progress import Progress
from flrml.pipeline.stages.provenance import provenance
from flrml.pipeline.stages.train import accepted
from flrml.rows import gram
from flrml.spectrum import decompose
from flrml.triplets import draw_triplets


@dataclass(frozen=True)
class Sweep:
    """A figure that sweeps one parameter.

    Attributes
    ----------
    parameter : str
        The parameter of the method.
    values : str
        Key of its values in the figure's settings.
    parse : type
        Type of the values.
    along : bool
        Whether accuracy is measured along the mini-batches, or at the end alone.
    """

    parameter: str
    values: str
    parse: type
    along: bool = False


SWEEPS = {
    "margin": Sweep("margin_ratio", "ratios", float),
    "batches": Sweep("batch_triplets", "sizes", int, along=True),
}


def run_sweep_point(
    data: PathLike,
    spectrum: PathLike | None,
    out: PathLike,
    *,
    run: dict[str, Any],
    sweep: str,
    value: float,
    seeds: Iterable[int],
    minutes: float,
    memory_mb: float,
) -> dict:
    """Measure the accuracy of a method at one value of a swept parameter, for several seeds.

    Parameters
    ----------
    data, spectrum, out : paths
        Prepared data set, its decomposition if the method takes one, and where the record (.json) goes.
    run : dict
        ``dataset``, ``method``, ``parameters`` and ``n_neighbors``.
    sweep : {"margin", "batches"}
        The sweep.
    value : number
        Value of its parameter.
    seeds : iterable of int
        One training each.
    minutes, memory_mb : float
        Limits of each training.
    """
    swept, method = SWEEPS[sweep], METHODS[run["method"]]
    (X, y), (X_test, y_test) = (load_rows(Path(data) / part) for part in ("train", "test"))
    run = run | {"sweep": sweep, "started": time.time(), "training": uuid.uuid4().hex}
    arguments = {}
    if spectrum is not None:
        arguments["spectrum"] = bind_spectrum(spectrum, X, method.spectrum_kind)

    def accuracy(model: Any) -> float:
        embedded, embedded_test = model.transform(X), model.transform(X_test)
        return knn_accuracy(embedded, y, embedded_test, y_test, n_neighbors=run["n_neighbors"])

    def train(seed: int) -> dict:
        parameters = run["parameters"] | {swept.parameter: value, "random_state": seed}
        estimator = build(run["method"], **accepted(run["method"], parameters))
        if swept.along:
            steps = batches_to_judge(estimator.n_batches)
            accuracies: list[float] = []

            def judge(model: Any) -> None:
                if model.n_iter_ in steps:
                    accuracies.append(accuracy(model))

            estimator.fit(X, y, callback=judge, **arguments)
            return {"steps": steps, "accuracies": accuracies, "accuracy": accuracies[-1]}
        start = time.perf_counter()
        estimator.fit(X, y, **arguments)
        seconds = time.perf_counter() - start
        return {"accuracy": accuracy(estimator), "train_seconds": seconds, "n_iter": int(estimator.n_iter_)}

    limits = {"minutes": minutes, "memory_mb": memory_mb}
    with Progress(Path(out).parent, run) as progress:
        points = []
        for seed in seeds:
            points.append({"seed": seed} | within_limits(partial(train, seed), **limits))
            if points[-1]["outcome"] == "ok":
                progress.metrics(seed, accuracy_by_seed=points[-1]["accuracy"])
        record = {swept.parameter: value, "points": points}
        if swept.along:
            record["batch"] = describe_batch(X, y, int(value))
        result = {**run, **record, "made_by": provenance()}
        write_json(out, result)
        ended = any(point["outcome"] == "ok" for point in points)
        progress.end("trained" if ended else "failed", points[-1].get("reason"))
    return result


def batches_to_judge(n_batches: int) -> list[int]:
    """Return the mini-batches after which accuracy is measured: the first five, every fifth, and the last."""
    return [step for step in range(1, n_batches + 1) if step <= 5 or step % 5 == 0 or step == n_batches]


def describe_batch(X: Any, y: Any, n_triplets: int) -> dict[str, int]:
    """Count the singular values of a mini-batch, and those below 1 % of the largest: noise."""
    random = np.random.RandomState(0)
    triplets = draw_triplets(y, random_state=random)
    rows = np.unique(triplets[random.choice(len(triplets), min(n_triplets, len(triplets)), replace=False)])
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(gram(X[rows]).astype(np.float64)), 0))
    return {"singular_values": len(rows), "noise": int(np.sum(values < NOISE * values[-1]))}


def summary(result: dict) -> str:
    """Return one line about a sweep point."""
    parameter = SWEEPS[result["sweep"]].parameter
    accuracies = [100 * point["accuracy"] for point in result["points"] if point["outcome"] == "ok"]
    failed = [f"{point['outcome']}: {point['reason']}" for point in result["points"] if point["outcome"] != "ok"]
    outcome = "  ".join([f"mean accuracy {np.mean(accuracies):5.1f} %"] * bool(accuracies) + failed[:1])
    return f"{result['dataset']:>14} {result['method']:<18} {parameter} = {result[parameter]:<5g} {outcome}"


def measure_growth(
    data: PathLike,
    out: PathLike,
    *,
    run: dict[str, Any],
    axis: str,
    sizes: list[int],
    minutes: float,
    memory_mb: float,
) -> dict:
    """Measure time and peak memory of training on some rows or columns of a data set, for growing sizes."""

    def train(size: int) -> dict:
        X, y = load_rows(Path(data) / "train")
        chosen = np.sort(np.random.RandomState(0).permutation(X.shape[0 if axis == "n" else 1])[:size])
        if axis == "n":
            X, y = X[chosen], y[chosen]
        else:
            X = X[:][:, chosen]
        # All iterations are made: trainings that stop early would be compared by what they take to start.
        parameters = run["parameters"] | {"random_state": 0, "tol": 0}
        estimator = build(run["method"], **accepted(run["method"], parameters))
        arguments = {"spectrum": decompose(X, run["max_rank"])} if METHODS[run["method"]].uses_spectrum else {}
        start = time.perf_counter()
        estimator.fit(X, y, **arguments)
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "n_iter": int(estimator.n_iter_), "shape": list(X.shape)}

    points = [
        {"size": size} | within_limits(partial(train, size), minutes=minutes, memory_mb=memory_mb) for size in sizes
    ]
    result = {**run, "axis": axis, "points": points, "made_by": provenance()}
    write_json(out, result)
    return result
