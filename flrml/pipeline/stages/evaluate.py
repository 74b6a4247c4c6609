"""Evaluate trained models by their nearest neighbours and as retrieval."""

import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from flrml.datasets.store import load_meta, open_split
from flrml.files import PathLike, atomic_write, read_json, write_json
from flrml.neighbors import majority_vote
from flrml.pipeline.naming import METRICS, MODEL, PREDICTIONS, TRAINING
from flrml.pipeline.stages.inputs import connection, load_rows
from flrml.pipeline.stages.learned_map import LearnedMap
from flrml.pipeline.stages.scores import PreparedRows
from flrml.reference.vote import farthest_vote
from flrml.rows import is_dask, normalize, take_rows

SHOWN_ROWS = 1000  # of the test part, in a picture of the embedding


def evaluate(
    folder: PathLike,
    *,
    data: PathLike,
    n_neighbors: int = 5,
    cosine_rows: int | None = None,
    scheduler: str | None = None,
) -> dict[str, Any]:
    """Measure the model in a folder by nearest neighbours and as retrieval; write it with what the training says.

    The predictions of the test rows are written too: their classes, the predicted ones, and for a sample of the
    rows the first two principal components of the embedding. A method that learns no map is evaluated on a random
    sample of ``cosine_rows`` test rows if given, because comparing all features takes long.
    """
    result, meta = read_json(Path(folder) / TRAINING), load_meta(data)
    rows: list[tuple] = []
    if result["outcome"] == "ok":
        learned = LearnedMap.load(Path(folder) / MODEL)
        with connection(scheduler) as open_rows:

            def load(open_rows: Callable = load_rows) -> PreparedRows:
                prepared = PreparedRows.load(data, n_neighbors, open_rows)
                return prepared.sampled(cosine_rows) if learned.components is None else prepared

            measured, predicted, numbers = _scores(learned, load, open_rows)
        result |= measured | {"n_neighbors": n_neighbors}
        rows = _predictions(learned, Path(data) / "test", predicted, numbers, meta["classes"])
    result["data"] = describe_parts(data, meta)
    with atomic_write(Path(folder) / PREDICTIONS) as path, path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("row", "class", "predicted", "x", "y"), *rows])
    write_json(Path(folder) / METRICS, result)
    return result


def describe_parts(data: PathLike, meta: dict) -> dict[str, dict]:
    """Return name, digest, shape and place of the training and the test part of a data set."""
    return {
        part: {
            "name": f"{meta['name']} {part}",
            "digest": meta["splits"][part]["fingerprint"][:32],
            "rows": meta["splits"][part]["shape"][0],
            "features": meta["splits"][part]["shape"][1],
            "source": str(Path(data) / part),
        }
        for part in ("train", "test")
    }


def _scores(learned: LearnedMap, load: Callable, open_rows: Callable) -> tuple[dict, NDArray, NDArray]:
    """Return accuracies by the method's own metric and by cosine, retrieval scores and seconds in a dict.

    The predictions and the numbers of their test rows are returned too.
    """
    start = time.perf_counter()
    rows = load(open_rows)
    embedded = rows.embedded(learned.embed)
    result: dict[str, Any] = {}
    own = learned.metric
    # Rows that no map changes are compared by the own metric alone.
    for name in (own,) if learned.components is None else dict.fromkeys((own, "cosine")):
        labels, distances = embedded.neighbours(name, learned.W)
        found = majority_vote(labels, distances)
        result[f"accuracy_{name}"] = float(np.mean(found == rows.y_test))
        if name == own:
            predicted = found
        if name == own == "cosine":
            result["accuracy_reference_vote"] = float(np.mean(farthest_vote(labels, distances) == rows.y_test))
    result |= {"accuracy": result[f"accuracy_{own}"], "metric": own, "n_test": len(rows.y_test)}
    # Retrieval is scored in this process: its memory holds embeddings, and opens rows on a cluster by itself.
    searched = load() if learned.components is None and is_dask(rows.X) else embedded
    result |= searched.retrieval(own, learned.W) | {"new_classes": rows.new_classes}
    result["evaluate_seconds"] = time.perf_counter() - start
    return result, predicted, np.arange(len(predicted)) if rows.test_rows is None else rows.test_rows


def _predictions(
    metric: LearnedMap, test: Path, predicted: NDArray, numbers: NDArray, classes: list[str]
) -> list[tuple]:
    """Return number, class, predicted class and place of the test rows; a sample has places if a map is learned."""
    X, labels = open_split(test)
    places = {}
    if metric.components is not None:
        shown = np.sort(np.random.RandomState(0).permutation(len(labels))[:SHOWN_ROWS])
        embedded = metric.embed(take_rows(X, shown))
        points = principal_components(normalize(embedded) if metric.metric == "cosine" else embedded)
        places = dict(zip(shown.tolist(), np.round(points, 5).tolist(), strict=True))
    return [
        (row, classes[own], classes[found], *places.get(row, ("", "")))
        for row, own, found in zip(numbers.tolist(), labels[numbers].tolist(), predicted.tolist(), strict=True)
    ]


def principal_components(rows: NDArray) -> NDArray:
    """Return the first two principal components of rows; zeros for those that the rows do not have."""
    centered = rows - rows.mean(axis=0)
    U, s, _ = randomized_svd(centered, 2, random_state=0)
    points = np.zeros((len(rows), 2))
    points[:, : len(s)] = U * s
    return points


def summary(result: dict) -> str:
    """Return one line about a finished run."""
    head = f"{result['dataset']:>14} {result['label']:<18} seed {result['seed']}"
    if result["outcome"] != "ok":
        return f"{head}  {result['outcome']}: {result['reason']}"
    return (
        f"{head}  accuracy {100 * result['accuracy']:5.1f} %  training {result['train_seconds']:7.2f} s  "
        f"peak {result['peak_mb']:,.0f} MB"
    )
