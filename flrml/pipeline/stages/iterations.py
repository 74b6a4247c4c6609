"""Follow FLRML, its reference form and RidgeFLRML on a data set: accuracy and objective per iteration."""

import time
from typing import Any

import numpy as np

from flrml import stiefel
from flrml.files import PathLike, write_json
from flrml.flrml import FLRML
from flrml.methods import METHODS
from flrml.pipeline.stages.fit import timed_fit
from flrml.pipeline.stages.inputs import bind_spectrum
from flrml.pipeline.stages.limits import within_limits
from flrml.pipeline.stages.provenance import provenance
from flrml.pipeline.stages.scores import PreparedRows


class RetractedFLRML(FLRML):
    """FLRML by projection and retraction, the search that the paper compares its own with."""

    search = staticmethod(stiefel.retract)


DESCENTS = ("flrml", "flrml-reference")
ROUNDS = (0, 1, 2, 4, 7, 10)


def follow_methods(
    out: PathLike,
    *,
    data: PathLike,
    triplets: PathLike,
    spectra: dict[str, PathLike],
    run: dict[str, Any],
    limits: dict[str, float],
) -> dict:
    """Follow the three methods on one data set, in the trainings of the tables, and write what they reach.

    ``run`` holds ``dataset``, ``seed``, ``parameters`` by method, ``n_neighbors``, and the ``ridges`` at which
    RidgeFLRML is fitted. The limits are those of all the trainings together.
    """
    started = time.time()

    def work() -> dict:
        rows = PreparedRows.load(data, run["n_neighbors"])
        bound = {kind: bind_spectrum(path, rows.X, kind) for kind, path in spectra.items()}
        drawn = np.load(triplets)

        def fit(method: str, *, callback: Any = None, **more: Any) -> Any:
            given = {"spectrum": bound[METHODS[method].spectrum_kind], "triplets": drawn, "groups": rows.groups}
            given |= {} if callback is None else {"callback": callback}
            parameters = run["parameters"][method] | {"random_state": run["seed"]} | more
            return timed_fit(method, parameters, rows.X, rows.y, **given)[0]

        def descend(method: str) -> dict:
            accuracies: list[float] = []
            model = fit(method, callback=lambda model: accuracies.append(rows.accuracy(model)))
            return {"accuracies": accuracies, "objective": np.asarray(model.history_, dtype=float).tolist()}

        retracted = RetractedFLRML(**run["parameters"]["flrml"] | {"random_state": run["seed"], "tol": 0})
        retracted.fit(rows.X, triplets=drawn, spectrum=bound["plain"])
        chosen = fit("flrml-ridge")
        form = {"within": chosen.within_, "local": chosen.local_, "scale": chosen.scale_}
        rounds = [fit("flrml-ridge", ridge=chosen.ridge_, **form, rounds=number) for number in ROUNDS]
        by_ridge = ((g, fit("flrml-ridge", ridge=g, **form, rounds=chosen.n_rounds_)) for g in run["ridges"])
        return {
            "cosine": rows.accuracy(),
            "methods": {method: descend(method) for method in DESCENTS}
            | {
                "flrml-ridge": {
                    "steps": list(ROUNDS),
                    "accuracies": [rows.accuracy(model) for model in rounds],
                    "objective": rounds[-1].history_.tolist(),
                    "choice": form | {"ridge": chosen.ridge_, "rounds": chosen.n_rounds_},
                }
            },
            "retraction": retracted.history_.tolist(),
            "ridges": [[g, rows.accuracy(model)] for g, model in by_ridge],
        }

    result = {**run, "started": started, "made_by": provenance()} | within_limits(work, **limits)
    write_json(out, result)
    return result
