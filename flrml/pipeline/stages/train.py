"""Train one method on one data set, within limits and measured."""

import sys
import time
import uuid
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from flrml.datasets.store import open_groups
from flrml.exceptions import FlrmlWarning
from flrml.files import PathLike, write_json
from flrml.methods import METHODS
from flrml.pipeline.naming import MODEL, TRAINING
from flrml.pipeline.stages.fit import timed_fit
from flrml.pipeline.stages.inputs import bind_spectrum, connection, load_rows
from flrml.pipeline.stages.learned_map import LearnedMap
from flrml.pipeline.stages.limits import within_limits
from flrml.pipeline.stages.progress import Progress
from flrml.pipeline.stages.provenance import provenance
from flrml.spectrum import Spectrum

DESCENT = ("start_rounds", "null_steps")  # of methods that descend
# Fitted attributes that are results, not parameters.
NOT_CHOSEN = {"n_iter_", "n_features_in_", "best_score_", *(f"n_{name}_" for name in DESCENT)}


def train(
    folder: PathLike,
    *,
    data: PathLike,
    triplets: PathLike,
    spectrum: PathLike | None,
    run: dict[str, Any],
    limits: dict[str, float],
    scheduler: str | None = None,
) -> dict:
    """Train one method within its limits; write the model and what the training says, whatever the outcome.

    ``run`` holds ``dataset``, ``method``, ``seed`` and ``parameters``. On a cluster, ``limits`` are those of the
    process that leads the training.
    """
    begun = {"label": run["method"], "study": None, **run, "started": time.time(), "training": uuid.uuid4().hex}
    training = begun | {"made_by": provenance()}
    method = METHODS[run["method"]]
    scheduler = scheduler if method.takes_dask else None
    rows = Path(data) / "train"

    def work() -> dict:
        with connection(scheduler) as open_rows:
            X, y = open_rows(rows)
            bound = None
            if spectrum is not None:
                # A decomposition is compared with the data on disk, also if it goes with their blocks.
                bound = bind_spectrum(
                    spectrum, X if scheduler is None else load_rows(rows)[0], method.spectrum_kind
                )
            given = {"triplets": np.load(triplets), "spectrum": bound, "groups": open_groups(rows)}
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", FlrmlWarning)
                estimator, seconds = timed_fit(
                    run["method"],
                    run["parameters"] | {"random_state": run["seed"]},
                    X,
                    y,
                    **given,
                    listener=lambda step, objective: progress.metrics(step, objective=objective),
                )
        for warning in caught:
            print(f"{warning.category.__name__}: {warning.message}", file=sys.stderr)
        LearnedMap.of(estimator).save(Path(folder) / MODEL, training)
        return {
            "train_seconds": seconds,
            "n_iter": int(getattr(estimator, "n_iter_", 1)),
            **{name: int(getattr(estimator, f"n_{name}_")) for name in DESCENT if hasattr(estimator, f"n_{name}_")},
            "warnings": [str(warning.message) for warning in caught if issubclass(warning.category, FlrmlWarning)],
            "history": np.asarray(getattr(estimator, "history_", ()), dtype=float).tolist(),
            "n": X.shape[0],
            "D": X.shape[1],
            **used_parameters(estimator, bound, method.fit_arguments(**given).get("triplets"), X.shape[0]),
        }

    with Progress(folder, begun) as progress:
        result = training | within_limits(work, **limits)
        if result["outcome"] != "ok":
            LearnedMap(None, "none").save(Path(folder) / MODEL, training)
        write_json(Path(folder) / TRAINING, result)
        progress.end("trained" if result["outcome"] == "ok" else "failed", result.get("reason"))
    return result


def used_parameters(estimator: Any, spectrum: Spectrum | None, triplets: Any, n: int) -> dict[str, Any]:
    """Return the parameters that a fitted estimator has used on n rows, and the names of those that it chose.

    A parameter ``"auto"`` has its value in the attribute of the same name with an underscore. A spectrum and
    triplets that it was given count instead of its own ``max_rank`` and ``n_triplets``.
    """
    used = {
        name: value for name, value in estimator.get_params().items() if value is not None and name != "verbose"
    }
    found = {
        name.removesuffix("_").removeprefix("n_"): value
        for name, value in vars(estimator).items()
        if name.endswith("_") and name not in NOT_CHOSEN
    }
    chosen = {
        name: value
        for name, value in found.items()
        if used.get(name, "auto") == "auto" and isinstance(value, float | int)
    }
    used |= chosen
    if spectrum is not None:
        used |= {"max_rank": spectrum.settings["max_rank"], "rank": spectrum.rank}
    if triplets is not None:
        used["n_triplets"] = len(triplets) // n if len(triplets) % n == 0 else round(len(triplets) / n, 2)
    components = getattr(estimator, "components_", None)
    if "n_components" in used and components is not None:
        used["n_components"] = len(components)
    return {"parameters": used, "chosen": sorted(chosen)}
