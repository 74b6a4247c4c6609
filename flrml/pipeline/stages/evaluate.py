"""Evaluate trained models by their nearest neighbours and as retrieval."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from flrml.datasets.store import load_meta
from flrml.files import PathLike, read_json, write_json
from flrml.neighbors import majority_vote
from flrml.pipeline.naming import METRICS, MODEL, TRAINING
from flrml.pipeline.stages.inputs import connection
from flrml.pipeline.stages.learned_map import LearnedMap
from flrml.pipeline.stages.scores import PreparedRows
from flrml.reference.vote import farthest_vote


def evaluate(
    folder: PathLike, *, data: PathLike, n_neighbors: int = 5, scheduler: str | None = None
) -> dict[str, Any]:
    """Measure a trained model by nearest neighbours and as retrieval; write it with what the training says.

    Parameters
    ----------
    folder : path
        Folder with ``model.npz`` and ``training.json``; ``metrics.json`` is written to it.
    data : path
        Prepared data set.
    n_neighbors : int, default 5
        Neighbours that vote.
    scheduler : str, optional
        Address of a Dask scheduler whose workers search.
    """
    result = read_json(Path(folder) / TRAINING)
    if result["outcome"] == "ok":
        learned = LearnedMap.load(Path(folder) / MODEL)
        with connection(scheduler) as open_rows:
            result |= _scores(learned, PreparedRows.load(data, n_neighbors, open_rows))
    result["data"] = describe_parts(data, load_meta(data))
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


def _scores(learned: LearnedMap, rows: PreparedRows) -> dict:
    """Return accuracies by the method's own metric and by cosine, retrieval scores, and the seconds taken."""
    start = time.perf_counter()
    embedded = rows.embedded(learned.embed)
    result: dict[str, Any] = {}
    own = learned.metric
    # Unchanged rows have unit length, so that cosine and distance agree on their neighbours.
    for name in (own,) if learned.components is None else dict.fromkeys((own, "cosine")):
        labels, distances = embedded.neighbours(name, learned.W)
        result[f"accuracy_{name}"] = float(np.mean(majority_vote(labels, distances) == rows.y_test))
        if name == own == "cosine":
            result["accuracy_reference_vote"] = float(np.mean(farthest_vote(labels, distances) == rows.y_test))
    result |= {"accuracy": result[f"accuracy_{own}"], "metric": own, "n_test": len(rows.y_test)}
    result |= embedded.retrieval(own, learned.W) | {"new_classes": rows.new_classes}
    result["evaluate_seconds"] = time.perf_counter() - start
    return result


def summary(result: dict) -> str:
    """Return one line about a finished run."""
    head = f"{result['dataset']:>14} {result['label']:<18} seed {result['seed']}"
    if result["outcome"] != "ok":
        return f"{head}  {result['outcome']}: {result['reason']}"
    return (
        f"{head}  accuracy {100 * result['accuracy']:5.1f} %  training {result['train_seconds']:7.2f} s  "
        f"peak {result['peak_mb']:,.0f} MB"
    )
