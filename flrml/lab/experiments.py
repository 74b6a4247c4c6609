"""What the rules of the workflow do: train, evaluate, sweep, measure growth. Plain functions of paths and numbers."""

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flrml.baselines.registry import METHODS, build
from flrml.datasets import load_meta, open_split
from flrml.lab.files import provenance, read_json, write_json
from flrml.lab.measure import within_limits
from flrml.lab.models import Metric
from flrml.neighbors import knn_accuracy
from flrml.rows import BinaryRows, on_disk
from flrml.spectrum import Spectrum, decompose
from flrml.triplets import draw_triplets

IN_MEMORY_BYTES = 4 * 2**30
PathLike = str | os.PathLike


def load_rows(path: PathLike) -> tuple[Any, NDArray]:
    """A split of a prepared data set, in memory unless it is large."""
    X, y = open_split(path)
    if isinstance(X, BinaryRows):
        if X.indices.nbytes < IN_MEMORY_BYTES:
            X = BinaryRows(np.array(X.indptr), np.array(X.indices), X.shape[1], X.dtype)
    elif on_disk(X):
        size = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes
        if size < IN_MEMORY_BYTES:
            X = np.array(X) if isinstance(X, np.ndarray) else X.copy()
    return X, np.array(y)


def decompose_dataset(
    data: PathLike, out: PathLike, timing: PathLike, *, max_rank: int, centred: bool, seed: int
) -> None:
    """Decompose the training rows of a prepared data set; write the spectrum, and how long it took."""
    X, _ = load_rows(Path(data) / "train")
    start = time.perf_counter()
    spectrum = decompose(X, max_rank, centred=centred, random_state=seed)
    seconds = time.perf_counter() - start
    spectrum.save(out)
    write_json(timing, {"seconds": seconds, "rank": spectrum.rank, **spectrum.settings, "made_by": provenance()})


def draw_for_dataset(data: PathLike, out: PathLike, *, n_triplets: int, seed: int) -> None:
    """Draw the triplets of a prepared data set."""
    _, y = open_split(Path(data) / "train")
    with open(f"{out}.part", "wb") as file:
        np.save(file, draw_triplets(np.array(y), n_triplets, seed))
    os.replace(f"{out}.part", out)


def train(
    data: PathLike,
    triplets: PathLike,
    spectrum: PathLike | None,
    model: PathLike,
    record: PathLike,
    *,
    run: dict[str, Any],
    minutes: float,
    memory_mb: float,
) -> dict:
    """Train one method within its limits; write the model and a record of the training.

    Parameters
    ----------
    data, triplets, spectrum : paths
        Prepared data set, triplets, and the decomposition where the method takes one.
    model, record : paths
        Where the model (.npz) and the record (.json) go. Both are written whatever the outcome.
    run : dict
        ``dataset``, ``method``, ``seed`` and ``parameters``.
    minutes, memory_mb : float
        Limits.
    """
    made_by = {**run, "started": time.time(), "made_by": provenance()}

    def work() -> dict:
        X, y = load_rows(Path(data) / "train")
        method = METHODS[run["method"]]
        estimator = build(
            run["method"], **_accepted(run["method"], run["parameters"] | {"random_state": run["seed"]})
        )
        arguments = method.fit_arguments(
            triplets=np.load(triplets), spectrum=None if spectrum is None else Spectrum.load(spectrum, X)
        )
        start = time.perf_counter()
        estimator.fit(X, y, **arguments)
        seconds = time.perf_counter() - start
        metric = Metric.of(estimator)
        metric.save(model, made_by)
        return {
            "train_seconds": seconds,
            "n_iter": int(estimator.n_iter_),
            "history": np.asarray(estimator.history_, dtype=float).tolist(),
            "n": X.shape[0],
            "D": X.shape[1],
            "parameters": {k: v for k, v in estimator.get_params().items() if v is not None},
        }

    result = made_by | within_limits(work, minutes=minutes, memory_mb=memory_mb)
    if result["outcome"] != "ok":
        Metric(None, "none").save(model, made_by)
    write_json(record, result)
    return result


def evaluate(data: PathLike, model: PathLike, record: PathLike, out: PathLike, *, n_neighbors: int = 5) -> dict:
    """Measure the 5-NN accuracy of a trained model and write it beside what the training recorded."""
    result = read_json(record)
    if result["outcome"] == "ok":
        metric = Metric.load(model)
        (X, y), (X_test, y_test) = (load_rows(Path(data) / part) for part in ("train", "test"))
        start = time.perf_counter()
        embedded, embedded_test = metric.embed(X), metric.embed(X_test)
        for rule in dict.fromkeys((metric.rule, "cosine", "euclidean")):
            accuracy = knn_accuracy(
                embedded, y, embedded_test, y_test, n_neighbors=n_neighbors, metric=rule, W=metric.W
            )
            result[f"accuracy_{rule}"] = accuracy
        result |= {"accuracy": result[f"accuracy_{metric.rule}"], "rule": metric.rule, "n_test": X_test.shape[0]}
        if metric.rule == "cosine":
            result["accuracy_reference_vote"] = knn_accuracy(
                embedded, y, embedded_test, y_test, n_neighbors=n_neighbors, vote="reference"
            )
        result["evaluate_seconds"] = time.perf_counter() - start
    meta = load_meta(data)
    result["data"] = {"name": meta["name"], "digest": meta["fingerprint"][:32]}
    write_json(out, result)
    return result


def sweep_margin(
    data: PathLike, spectrum: PathLike, out: PathLike, *, run: dict[str, Any], ratio: float, seeds: Iterable[int]
) -> dict:
    """Accuracy of FLRML at one margin ratio, for several seeds."""
    (X, y), (X_test, y_test) = (load_rows(Path(data) / part) for part in ("train", "test"))
    bound, started = Spectrum.load(spectrum, X), time.time()
    points: list[dict] = []
    for seed in seeds:
        parameters = run["parameters"] | {"margin_ratio": ratio, "random_state": seed}
        estimator = build(run["method"], **_accepted(run["method"], parameters))
        start = time.perf_counter()
        estimator.fit(X, y, spectrum=bound)
        seconds = time.perf_counter() - start
        accuracy = knn_accuracy(estimator.transform(X), y, estimator.transform(X_test), y_test)
        points.append(
            {"seed": seed, "accuracy": accuracy, "train_seconds": seconds, "n_iter": int(estimator.n_iter_)}
        )
    result = {**run, "margin_ratio": ratio, "points": points, "started": started, "made_by": provenance()}
    write_json(out, result)
    return result


def sweep_batches(
    data: PathLike, out: PathLike, *, run: dict[str, Any], batch_triplets: int, seeds: Iterable[int]
) -> dict:
    """Accuracy of M-FLRML after every mini-batch, for one size of mini-batch and several seeds."""
    (X, y), (X_test, y_test) = (load_rows(Path(data) / part) for part in ("train", "test"))
    points: list[dict] = []
    started = time.time()
    for seed in seeds:
        accuracies: list[float] = []
        parameters = run["parameters"] | {"batch_triplets": batch_triplets, "random_state": seed}
        estimator = build(run["method"], **_accepted(run["method"], parameters))

        def after_batch(model: Any, accuracies: list[float] = accuracies) -> None:
            accuracies.append(knn_accuracy(model.transform(X), y, model.transform(X_test), y_test))

        estimator.fit(X, y, callback=after_batch)
        points.append({"seed": seed, "accuracies": accuracies, "accuracy": accuracies[-1]})
    result = {
        **run,
        "batch_triplets": batch_triplets,
        "points": points,
        "started": started,
        "made_by": provenance(),
    }
    write_json(out, result)
    return result


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
    """Time and peak memory of training on the first rows or columns of a data set, for growing sizes."""
    points: list[dict] = []
    for size in sizes:

        def work(size: int = size) -> dict:
            X, y = load_rows(Path(data) / "train")
            if axis == "n":
                chosen = np.sort(np.random.RandomState(0).permutation(X.shape[0])[:size])
                X, y = X[chosen], y[chosen]
            else:
                X = X[:][:, :size]
            estimator = build(run["method"], **_accepted(run["method"], run["parameters"] | {"random_state": 0}))
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


def summary(result: dict) -> str:
    """One line about a finished run."""
    head = f"{result['dataset']:>14} {result['method']:<18} seed {result['seed']}"
    if result["outcome"] != "ok":
        return f"{head}  {result['outcome']}: {result['reason']}"
    return (
        f"{head}  accuracy {100 * result['accuracy']:5.1f} %  training {result['train_seconds']:7.2f} s  "
        f"peak {result['peak_mb']:,.0f} MB"
    )


def _accepted(method: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Of parameters common to all methods, those that this one has."""
    return {name: value for name, value in parameters.items() if name in METHODS[method].accepts}
