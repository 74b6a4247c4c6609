"""Log classifiers to MLflow as models that hold arrays alone: loading one runs no code but flrml's own."""

import os
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from mlflow.entities import LoggedModelOutput, LoggedModelStatus, Metric
from mlflow.models import Model, ModelSignature
from mlflow.pyfunc import save_model
from mlflow.types import Schema, TensorSpec

from flrml.pipeline.stages.inputs import load_rows
from flrml.pipeline.stages.learned_map import Metric as LearnedMetric
from flrml.pipeline.tracking import classifier
from flrml.pipeline.tracking.classifier import MetricClassifier
from flrml.pipeline.tracking.tracker import RunRecord, Tracker

MAX_MODEL_BYTES = 40 * 2**20
MAX_MAP_BYTES = 8 * MAX_MODEL_BYTES  # compression hardly brings a larger map down to the limit
# Of an example at most: MLflow writes it as text, every zero of a sparse row included.
EXAMPLE_ROWS, EXAMPLE_FEATURES = 1, 100_000
PACKAGES = ("flrml", "numpy", "scipy", "scikit-learn")


def log_model(
    tracker: Tracker, run_id: str, record: RunRecord, model: str | os.PathLike, *, n_neighbors: int
) -> None:
    """Log the classifier that a learned metric makes with its training rows, or say why not.

    Parameters
    ----------
    tracker : Tracker
        The experiment.
    run_id : str
        The run that trained it.
    record : RunRecord
        That run; its training data are read from where the record says.
    model : path
        The learned metric.
    n_neighbors : int
        Neighbours that vote.
    """
    training = next(used for used in record.datasets if used.context == "training")
    if (size := Path(model).stat().st_size) > MAX_MAP_BYTES:
        _leave_out(tracker, run_id, size, model)
        return
    X, y = load_rows(training.source)
    fitted = MetricClassifier(LearnedMetric.load(model), n_neighbors).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / classifier.FILE
        fitted.save(file)
        size = file.stat().st_size
        if size > MAX_MODEL_BYTES:
            _leave_out(tracker, run_id, size, model)
            return
        for leftover in tracker.models(run_id):  # of a process that was killed
            tracker.delete_model(leftover)
        logged = tracker.client.create_logged_model(
            tracker.experiment_id,
            name=record.name.replace(" ", "-").replace(".", "_"),
            source_run_id=run_id,
            params={name: str(value) for name, value in record.parameters.items()},
            tags={name: record.tags[name] for name in ("dataset", "method") if name in record.tags},
            model_type="nearest neighbours",
        )
        _save(Path(folder) / "model", file, X[:EXAMPLE_ROWS], Model(run_id=run_id, model_id=logged.model_id))
        tracker.client.log_model_artifacts(logged.model_id, str(Path(folder) / "model"))
    tracker.client.finalize_logged_model(logged.model_id, LoggedModelStatus.READY)
    tracker.client.log_outputs(run_id, [LoggedModelOutput(logged.model_id, 0)])
    _log_metrics(tracker, run_id, record, logged.model_id)


def _leave_out(tracker: Tracker, run_id: str, size: int, model: str | os.PathLike) -> None:
    """Say in a tag of the run that its model is too large."""
    limit = f"{MAX_MODEL_BYTES / 2**20:,.0f} MB"
    why = f"not logged: {size / 2**20:,.0f} MB, the limit is {limit}; the map is in {model}"
    tracker.client.set_tag(run_id, "model", why)


def _save(path: Path, file: Path, rows: Any, description: Model) -> None:
    """Write a model of MLflow that predicts classes of rows."""
    example = rows.toarray() if hasattr(rows, "toarray") and rows.shape[1] <= 1000 else rows
    inputs = TensorSpec(np.dtype(example.dtype), (-1, rows.shape[1]))
    signature = ModelSignature(Schema([inputs]), Schema([TensorSpec(np.dtype("int64"), (-1,))]))
    save_model(
        path,
        loader_module=classifier.__name__,
        data_path=str(file),
        mlflow_model=description,
        signature=signature,
        input_example=example if rows.shape[1] <= EXAMPLE_FEATURES else None,
        pip_requirements=[f"{package}=={version(package)}" for package in PACKAGES],
    )


def _log_metrics(tracker: Tracker, run_id: str, record: RunRecord, model_id: str) -> None:
    """Log the metrics of a run as those of its model too, the accuracies as measured on the test data."""
    test = next((used for used in record.datasets if used.context == "test"), None)
    training = next(used for used in record.datasets if used.context == "training")
    when = int(1000 * record.started)
    metrics = []
    for name, value in record.metrics.items():
        used = test if name.startswith("accuracy") and test is not None else training
        metrics.append(Metric(name, float(value), when, 0, model_id, used.name, used.digest, run_id))
    tracker.client.log_batch(run_id, metrics=metrics)
