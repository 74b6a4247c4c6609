"""M-FLRML by workers that average their maps now and then, compared with one worker.

    FLRML_PREPARED=FOLDER python -m benchmarks.scaling averaging

FOLDER has the prepared data sets mnist, ng20 and m10-16. The workers are simulated one after the other: it is the
accuracy after the same number of mini-batches that counts, and what they would send.
"""

import copy
import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from flrml import MFLRML, draw_triplets, knn_accuracy
from flrml.pipeline.stages.inputs import load_rows
from flrml.triplets import TripletsByAnchor

NAMES = ("ng20", "m10-16", "mnist")
# Workers, and the mini-batches that each learns between two averages.
SCHEMES = ((2, 1), (2, 5), (4, 5), (8, 2))
SEEDS, TOTALS, TESTED = (0, 1), (20, 80), 3000


class Worker:
    """Some rows, and triplets among them."""

    def __init__(self, X: Any, y: np.ndarray, seed: int):
        self.X, self.triplets = X, draw_triplets(y, 5, np.random.RandomState(seed))
        self.by_anchor = TripletsByAnchor(self.triplets)

    def learn(self, model: MFLRML) -> None:
        """Learn one mini-batch."""
        drawn = model._draw_batch(self.triplets, self.X.shape[0], first=True)
        model._learn_batch(model._read_batch(self.X, self.by_anchor, *drawn))


def averaged(X: Any, y: np.ndarray, scheme: tuple[int, int], total: int, seed: int) -> MFLRML:
    """Return a model after a number of mini-batches of all workers together; the first is one worker's."""
    count, steps = scheme
    parts = np.array_split(np.random.RandomState(seed).permutation(X.shape[0]), count)
    workers = [Worker(X[np.sort(part)], y[np.sort(part)], seed * 100 + i) for i, part in enumerate(parts)]
    model = MFLRML(100, random_state=seed)
    model._initialize(X.shape, X.dtype)
    model.n_features_in_ = X.shape[1]
    workers[0].learn(model)
    model._apply_scale()
    done = 1
    while done < total:
        maps = []
        for i, worker in enumerate(workers):
            worker_model = copy.deepcopy(model)
            worker_model._random = np.random.RandomState(seed * 1000 + i * 77 + done)
            for _ in range(steps):
                worker.learn(worker_model)
            worker_model._apply_scale()
            maps.append(worker_model._map)
        model = worker_model
        model._map = np.mean(maps, axis=0)
        done += count * steps
    model._set_map()
    return model


def sent_per_batch(X: Any, scheme: tuple[int, int]) -> dict[str, float]:
    """Return the bytes that are sent for a mini-batch: of maps that are averaged, and of its rows."""
    stored = X.data.nbytes + X.indices.nbytes if sp.issparse(X) else X.nbytes
    return {"maps": 2 * 4 * X.shape[1] * 100 / scheme[1], "rows": 240 * stored / X.shape[0]}


def study_averaging() -> dict[str, Any]:
    """Accuracies in percent, and bytes for a mini-batch."""
    folder, found = Path(os.environ["FLRML_PREPARED"]), {}
    for name in NAMES:
        train, test = load_rows(folder / name / "train"), load_rows(folder / name / "test")
        chosen = np.random.RandomState(0).choice(test[0].shape[0], min(TESTED, test[0].shape[0]), replace=False)

        def accuracy(model: MFLRML, train: Any = train, test: Any = test, chosen: Any = chosen) -> float:
            embedded = model.transform(train[0]), model.transform(test[0][chosen])
            return round(100 * knn_accuracy(embedded[0], train[1], embedded[1], test[1][chosen]), 1)

        runs = []
        for seed in SEEDS:
            for total in TOTALS:
                run = {"seed": seed, "batches": total}
                run["local"] = accuracy(MFLRML(100, n_batches=total, random_state=seed).fit(*train))
                for scheme in SCHEMES:
                    run["{}×{}".format(*scheme)] = accuracy(averaged(*train, scheme, total, seed))
                runs.append(run)
        found[name] = {"runs": runs, "sent": sent_per_batch(train[0], (4, 5))}
    return found
