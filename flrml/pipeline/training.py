"""Train one method on one data set, within limits and measured."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from flrml.datasets.store import open_groups
from flrml.files import write_json
from flrml.methods import METHODS, build
from flrml.pipeline.inputs import PathLike, bind_spectrum, connection, load_rows
from flrml.pipeline.limits import within_limits
from flrml.pipeline.models import Metric
from flrml.pipeline.provenance import provenance
from flrml.spectrum import Spectrum

DESCENT = ("start_rounds", "null_steps")  # of methods that descend


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
    scheduler: str | None = None,
) -> dict:
    """Train one method within its limits; write the model and a record of the training.

    Parameters
    ----------
    data, triplets, spectrum : paths
        Prepared data set, triplets, and the decomposition if the method takes one.
    model, record : paths
        Where the model (.npz) and the record (.json) go. Both are written whatever the outcome.
    run : dict
        ``dataset``, ``method``, ``seed`` and ``parameters``.
    minutes, memory_mb : float
        Limits; on a cluster, of the process that leads the training.
    scheduler : str, optional
        Address of a Dask scheduler, whose workers train the methods that can.
    """
    made_by = {**run, "started": time.time(), "made_by": provenance()}

    method = METHODS[run["method"]]
    scheduler = scheduler if method.takes_dask else None

    def work() -> dict:
        with connection(scheduler) as open_rows:
            X, y = open_rows(Path(data) / "train")
            if spectrum is None:
                return learn(None, X, y)
            # A decomposition is compared with the data on disk, also if it goes with their blocks.
            rows = X if scheduler is None else load_rows(Path(data) / "train")[0]
            return learn(bind_spectrum(spectrum, rows, method.spectrum_kind), X, y)

    def learn(bound: Spectrum | None, X: Any, y: Any) -> dict:
        estimator = build(
            run["method"], **accepted(run["method"], run["parameters"] | {"random_state": run["seed"]})
        )
        arguments = method.fit_arguments(
            triplets=np.load(triplets),
            spectrum=bound,
            groups=open_groups(Path(data) / "train"),
        )
        start = time.perf_counter()
        estimator.fit(X, y, **arguments)
        seconds = time.perf_counter() - start
        metric = Metric.of(estimator)
        metric.save(model, made_by)
        return {
            "train_seconds": seconds,
            "n_iter": int(getattr(estimator, "n_iter_", 1)),
            **{name: int(getattr(estimator, f"n_{name}_")) for name in DESCENT if hasattr(estimator, f"n_{name}_")},
            "history": np.asarray(getattr(estimator, "history_", ()), dtype=float).tolist(),
            "n": X.shape[0],
            "D": X.shape[1],
            "parameters": {k: v for k, v in estimator.get_params().items() if v is not None},
        }

    result = made_by | within_limits(work, minutes=minutes, memory_mb=memory_mb)
    if result["outcome"] != "ok":
        Metric(None, "none").save(model, made_by)
    write_json(record, result)
    return result


def accepted(method: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return those of the given parameters that a method has."""
    return {name: value for name, value in parameters.items() if name in METHODS[method].accepts}
