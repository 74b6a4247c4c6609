"""Log classifiers to MLflow as models that hold arrays only: loading one runs no code but flrml's own."""

import json
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
from flrml.pipeline.stages.learned_map import LearnedMap
from flrml.pipeline.tracking import classifier
from flrml.pipeline.tracking.classifier import MetricClassifier
from flrml.pipeline.tracking.mlflow_store import Store
from flrml.pipeline.tracking.records import RunRecord

MAX_MODEL_BYTES = 40 * 2**20
MAX_MAP_BYTES = 8 * MAX_MODEL_BYTES  # compression hardly brings a larger map down to the limit
# Of an example at most: MLflow writes it as text, every zero of a sparse row included.
EXAMPLE_ROWS, EXAMPLE_FEATURES = 1, 100_000
PACKAGES = ("flrml", "numpy", "scipy", "scikit-learn")


def log_model(store: Store, run_id: str, record: RunRecord, model: Path, data: Path, *, n_neighbors: int) -> None:
    """Log the classifier that a learned map makes with its training rows, or say in a tag why not.

    Parameters
    ----------
    store : Store
        The tracking store.
    run_id : str
        The run that trained it.
    record : RunRecord
        That run.
    model, data : paths
        The learned map, and the training part of the data set.
    n_neighbors : int
        Neighbours that vote.
    """
    if not data.exists() or not model.exists() or _training_of(model) != record.training:
        store.client.set_tag(run_id, "model", f"not logged: {model} or its data are gone, or of a later training")
        return
    model_id = None
    for leftover in store.models(run_id):  # of a process that was killed
        if leftover.status == LoggedModelStatus.READY:
            model_id = leftover.model_id
        else:
            store.delete_model(leftover)
    model_id = model_id or _upload(store, run_id, record, model, data, n_neighbors)
    if model_id is None:
        return
    outputs = store.client.get_run(run_id).outputs
    if outputs is None or model_id not in {output.model_id for output in outputs.model_outputs}:
        store.client.log_outputs(run_id, [LoggedModelOutput(model_id, 0)])
    metrics = []
    for name, value in record.metrics.items():  # accuracies are measured on the test data
        used = record.datasets["test" if name.startswith("accuracy") else "training"]
        when = int(1000 * record.started)
        metrics.append(Metric(name, float(value), when, 0, model_id, used["name"], used["digest"], run_id))
    store.client.log_batch(run_id, metrics=metrics)


def log_predictions(store: Store, run_id: str, predictions: Path) -> None:
    """Log the predictions of the test rows with confusion matrix, scores of each class, and a picture."""
    if not predictions.exists():
        return
    from flrml.pipeline.report.figures.predictions import describe_predictions  # imports matplotlib

    with tempfile.TemporaryDirectory() as folder:
        describe_predictions(predictions, Path(folder))
        store.client.log_artifacts(run_id, folder, "predictions")
    store.client.log_artifact(run_id, str(predictions), "predictions")


def _upload(store: Store, run_id: str, record: RunRecord, model: Path, data: Path, n_neighbors: int) -> str | None:
    """Make and upload a model; return its id, or None if it is too large."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / classifier.FILE
        size, limit = model.stat().st_size, MAX_MAP_BYTES
        if size <= limit:
            X, y = load_rows(data)
            MetricClassifier(LearnedMap.load(model), n_neighbors).fit(X, y).save(file)
            size, limit = file.stat().st_size, MAX_MODEL_BYTES
        if size > limit:
            why = f"not logged: {size / 2**20:,.0f} MB, the limit is {limit / 2**20:,.0f} MB; the map is in {model}"
            store.client.set_tag(run_id, "model", why)
            return None
        logged = store.client.create_logged_model(
            store.experiment_id,
            name=record.name.replace(" ", "-").replace(".", "_"),
            source_run_id=run_id,
            params={name: str(value) for name, value in record.parameters.items()},
            tags={name: record.tags[name] for name in ("dataset", "method")},
            model_type="nearest neighbours",
        )
        _save(Path(folder) / "model", file, X[:EXAMPLE_ROWS], Model(run_id=run_id, model_id=logged.model_id))
        store.client.log_model_artifacts(logged.model_id, str(Path(folder) / "model"))
    store.client.finalize_logged_model(logged.model_id, LoggedModelStatus.READY)
    return str(logged.model_id)


def _training_of(model: Path) -> str:
    """Return the id of the training that has written a model."""
    with np.load(model, allow_pickle=False) as file:
        return json.loads(str(file["meta"])).get("training", "")


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
