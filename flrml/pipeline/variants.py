"""Follow FLRML, its reference form and RidgeFLRML on a data set: accuracy and objective per iteration."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from flrml import stiefel
from flrml.datasets.store import open_groups
from flrml.files import PathLike, write_json
from flrml.flrml import FLRML
from flrml.methods import METHODS, build
from flrml.neighbors import knn_accuracy
from flrml.pipeline.inputs import bind_spectrum, load_rows
from flrml.pipeline.limits import within_limits
from flrml.pipeline.provenance import provenance
from flrml.pipeline.training import accepted


class RetractedFLRML(FLRML):
    """FLRML by projection and retraction, the search that the paper compares its own with."""

    search = staticmethod(stiefel.retract)


DESCENTS = ("flrml", "flrml-reference")
ROUNDS = (0, 1, 2, 4, 7, 10)


def compare_variants(
    data: PathLike,
    spectra: dict[str, PathLike],
    out: PathLike,
    *,
    run: dict[str, Any],
    ridges: Iterable[float],
    minutes: float,
    memory_mb: float,
) -> dict:
    """Follow the three methods on one data set and write what they reach.

    Parameters
    ----------
    data, out : paths
        Prepared data set, and where the record (.json) goes.
    spectra : dict of paths
        Decompositions of the training rows, ``"plain"`` and ``"centered"``.
    run : dict
        ``dataset``, ``parameters`` and ``n_neighbors``.
    ridges : iterable of float
        Values of g at which RidgeFLRML is fitted.
    minutes, memory_mb : float
        Limits of all the trainings together.
    """
    started = time.time()

    def work() -> dict:
        (X, y), (X_test, y_test) = (load_rows(Path(data) / part) for part in ("train", "test"))
        groups = open_groups(Path(data) / "train")
        bound = {kind: bind_spectrum(path, X, kind) for kind, path in spectra.items()}

        def accuracy(model: Any) -> float:
            embedded, embedded_test = (rows if model is None else model.transform(rows) for rows in (X, X_test))
            return knn_accuracy(embedded, y, embedded_test, y_test, n_neighbors=run["n_neighbors"])

        def make(method: str, **more: Any) -> Any:
            return build(method, **accepted(method, run["parameters"] | {"random_state": 0} | more))

        def descend(method: str) -> dict:
            model, accuracies = make(method), []
            spectrum = bound[METHODS[method].spectrum_kind]
            model.fit(X, y, spectrum=spectrum, callback=lambda model: accuracies.append(accuracy(model)))
            return {"accuracies": accuracies, "objective": np.asarray(model.history_, dtype=float).tolist()}

        def by_retraction() -> list[float]:
            model = RetractedFLRML(**make("flrml", tol=0).get_params())
            return model.fit(X, y, spectrum=bound["plain"]).history_.tolist()

        def ridge(**more: Any) -> Any:
            return make("flrml-ridge", **more).fit(X, y, groups=groups)

        chosen = ridge()
        form = {"within": chosen.within_, "local": chosen.local_}
        rounds = [ridge(ridge=chosen.ridge_, **form, rounds=number) for number in ROUNDS]
        return {
            "cosine": accuracy(None),
            "variants": {method: descend(method) for method in DESCENTS}
            | {
                "flrml-ridge": {
                    "steps": list(ROUNDS),
                    "accuracies": [accuracy(model) for model in rounds],
                    "objective": rounds[-1].history_.tolist(),
                    "choice": form | {"ridge": chosen.ridge_, "rounds": chosen.n_rounds_},
                }
            },
            "retraction": by_retraction(),
            "ridges": [[g, accuracy(ridge(ridge=g, **form, rounds=chosen.n_rounds_))] for g in ridges],
        }

    result = {**run, "started": started, "made_by": provenance()}
    result |= within_limits(work, minutes=minutes, memory_mb=memory_mb)
    write_json(out, result)
    return result
