"""Sweeps over the margin, the size of mini-batches, and the size of the data."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from flrml.files import write_json
from flrml.methods import METHODS, build
from flrml.neighbors import knn_accuracy
from flrml.pipeline.inputs import PathLike, load_rows
from flrml.pipeline.limits import within_limits
from flrml.pipeline.provenance import provenance
from flrml.pipeline.training import accepted
from flrml.spectrum import Spectrum, decompose


def sweep_margin(
    data: PathLike,
    spectrum: PathLike,
    out: PathLike,
    *,
    run: dict[str, Any],
    ratio: float,
    seeds: Iterable[int],
    minutes: float,
    memory_mb: float,
) -> dict:
    """Accuracy of FLRML at one margin ratio, for several seeds."""
    (X, y), (X_test, y_test) = (load_rows(Path(data) / part) for part in ("train", "test"))
    bound, started = Spectrum.load(spectrum, X), time.time()
    points: list[dict] = []
    for seed in seeds:
        parameters = run["parameters"] | {"margin_ratio": ratio, "random_state": seed}
        estimator = build(run["method"], **accepted(run["method"], parameters))

        def work(estimator: Any = estimator) -> dict:
            start = time.perf_counter()
            estimator.fit(X, y, spectrum=bound)
            seconds = time.perf_counter() - start
            embedded, embedded_test = estimator.transform(X), estimator.transform(X_test)
            accuracy = knn_accuracy(embedded, y, embedded_test, y_test, n_neighbors=run["n_neighbors"])
            return {"accuracy": accuracy, "train_seconds": seconds, "n_iter": int(estimator.n_iter_)}

        points.append({"seed": seed} | within_limits(work, minutes=minutes, memory_mb=memory_mb))
    result = {**run, "margin_ratio": ratio, "points": points, "started": started, "made_by": provenance()}
    write_json(out, result)
    return result


def sweep_batches(
    data: PathLike,
    out: PathLike,
    *,
    run: dict[str, Any],
    batch_triplets: int,
    seeds: Iterable[int],
    minutes: float,
    memory_mb: float,
) -> dict:
    """Accuracy of M-FLRML after every mini-batch, for one size of mini-batch and several seeds."""
    (X, y), (X_test, y_test) = (load_rows(Path(data) / part) for part in ("train", "test"))
    points: list[dict] = []
    started = time.time()
    for seed in seeds:
        parameters = run["parameters"] | {"batch_triplets": batch_triplets, "random_state": seed}
        estimator = build(run["method"], **accepted(run["method"], parameters))

        def work(estimator: Any = estimator) -> dict:
            accuracies: list[float] = []

            def after_batch(model: Any) -> None:
                embedded, embedded_test = model.transform(X), model.transform(X_test)
                accuracies.append(knn_accuracy(embedded, y, embedded_test, y_test, n_neighbors=run["n_neighbors"]))

            estimator.fit(X, y, callback=after_batch)
            return {"accuracies": accuracies, "accuracy": accuracies[-1]}

        points.append({"seed": seed} | within_limits(work, minutes=minutes, memory_mb=memory_mb))
    made = {"batch_triplets": batch_triplets, "points": points, "started": started, "made_by": provenance()}
    result = run | made
    write_json(out, result)
    return result


def summary(points: list[dict]) -> str:
    """How the repeats of a sweep point ended, in a few words."""
    accuracies = [100 * point["accuracy"] for point in points if point["outcome"] == "ok"]
    failed = [f"{point['outcome']}: {point['reason']}" for point in points if point["outcome"] != "ok"]
    return "  ".join([f"mean accuracy {np.mean(accuracies):5.1f} %"] * bool(accuracies) + failed[:1])


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
    """Time and peak memory of training on some rows or columns of a data set, for growing sizes."""
    points: list[dict] = []
    for size in sizes:

        def work(size: int = size) -> dict:
            X, y = load_rows(Path(data) / "train")
            chosen = np.sort(np.random.RandomState(0).permutation(X.shape[0 if axis == "n" else 1])[:size])
            if axis == "n":
                X, y = X[chosen], y[chosen]
            else:
                X = X[:][:, chosen]
            estimator = build(run["method"], **accepted(run["method"], run["parameters"] | {"random_state": 0}))
            arguments = {"spectrum": decompose(X, run["max_rank"])} if METHODS[run["method"]].uses_spectrum else {}
            start = time.perf_counter()
            estimator.fit(X, y, **arguments)
            return {
                "seconds": time.perf_counter() - start,
                "n_iter": int(estimator.n_iter_),
                "shape": list(X.shape),
            }

        points.append({"size": size} | within_limits(work, minutes=minutes, memory_mb=memory_mb))
    result = {**run, "axis": axis, "points": points, "made_by": provenance()}
    write_json(out, result)
    return result
