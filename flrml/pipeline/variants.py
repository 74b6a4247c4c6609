"""What the variants of FLRML do on a data set: accuracy and objective per iteration, accuracy against the ridge."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from flrml.datasets import open_groups
from flrml.files import write_json
from flrml.methods import build
from flrml.neighbors import knn_accuracy
from flrml.pipeline.inputs import PathLike, load_rows
from flrml.pipeline.limits import within_limits
from flrml.pipeline.provenance import provenance
from flrml.pipeline.training import accepted
from flrml.search import ROUNDS
from flrml.spectrum import Spectrum

VARIANTS = {"flrml": "plain", "flrml-reference": "centred"}


def explain(
    data: PathLike,
    spectra: dict[str, PathLike],
    out: PathLike,
    *,
    run: dict[str, Any],
    ridges: Iterable[float],
    minutes: float,
    memory_mb: float,
) -> dict:
    """Follow the variants on one data set and write what they reach.

    Parameters
    ----------
    data, out : paths
        Prepared data set, and where the record (.json) goes.
    spectra : dict of paths
        Decompositions of the training rows, ``"plain"`` and ``"centred"``.
    run : dict
        ``dataset``, ``parameters`` and ``n_neighbors``.
    ridges : iterable of float
        Values of g at which the ridge variant is fitted.
    minutes, memory_mb : float
        Limits of all the trainings together.
    """
    started = time.time()
    # The run is that of the ridge variant; the other methods bring their own variant.
    parameters = {name: value for name, value in run["parameters"].items() if name != "variant"}

    def work() -> dict:
        (X, y), (X_test, y_test) = (load_rows(Path(data) / part) for part in ("train", "test"))
        groups = open_groups(Path(data) / "train")
        bound = {kind: Spectrum.load(path, X) for kind, path in spectra.items()}

        def accuracy(model: Any) -> float:
            embedded, embedded_test = (rows if model is None else model.transform(rows) for rows in (X, X_test))
            return knn_accuracy(embedded, y, embedded_test, y_test, n_neighbors=run["n_neighbors"])

        def make(method: str, **more: Any) -> Any:
            return build(method, **accepted(method, parameters | {"random_state": 0} | more))

        def follow(method: str, spectrum: Spectrum) -> dict:
            model, accuracies = make(method), []
            model.fit(X, y, spectrum=spectrum, callback=lambda model: accuracies.append(accuracy(model)))
            return {"accuracies": accuracies, "objective": np.asarray(model.history_, dtype=float).tolist()}

        def ridge(**more: Any) -> Any:
            return make("flrml-ridge", **more).fit(X, y, spectrum=bound["plain"], groups=groups)

        chosen = ridge().choice_
        form = {"within": chosen.within, "local": chosen.local}
        rounds = [ridge(ridge=chosen.ridge, **form, rounds=number) for number in range(ROUNDS + 1)]
        return {
            "cosine": accuracy(None),
            "variants": {method: follow(method, bound[kind]) for method, kind in VARIANTS.items()}
            | {
                "flrml-ridge": {
                    "accuracies": [accuracy(model) for model in rounds],
                    "objective": rounds[-1].history_.tolist(),
                    "choice": [chosen.ridge, chosen.within, chosen.local, chosen.rounds],
                }
            },
            "ridges": [[g, accuracy(ridge(ridge=g, **form, rounds=chosen.rounds))] for g in ridges],
        }

    result = {**run, "started": started, "made_by": provenance()}
    result |= within_limits(work, minutes=minutes, memory_mb=memory_mb)
    write_json(out, result)
    return result
