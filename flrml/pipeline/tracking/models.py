"""Log the models of a run to MLflow, and the predictions of its test rows."""

import json
import tempfile
from pathlib import Path

import numpy as np
from mlflow.entities import LoggedModelOutput, LoggedModelStatus, Metric

from flrml.datasets import open_split
from flrml.pipeline.serving.classifier import RawInputModel
from flrml.pipeline.serving.mlflow_model import save_mlflow_model
from flrml.pipeline.tracking.mlflow_store import Store
from flrml.pipeline.tracking.records import RunRecord

MAX_MODEL_BYTES = 40 * 2**20


def log_model(store: Store, run_id: str, record: RunRecord, model: Path, data: Path, *, n_neighbors: int) -> None:
    """Log the model that a learned map makes with its training rows, or say in a tag why not."""
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
        files = Path(folder) / "files"
        files.mkdir()
        size = model.stat().st_size
        if size <= MAX_MODEL_BYTES:
            served = RawInputModel.of_results(model, data, n_neighbors)
            served.save(files)
            size = sum(file.stat().st_size for file in files.iterdir())
        if size > MAX_MODEL_BYTES:
            megabytes, limit = (f"{count / 2**20:,.0f} MB" for count in (size, MAX_MODEL_BYTES))
            why = f"not logged: {megabytes}, the limit is {limit}; the map is in {model}"
            store.client.set_tag(run_id, "model", why)
            return None
        logged = store.client.create_logged_model(
            store.experiment_id,
            name=record.name.replace(" ", "-").replace(".", "_"),
            source_run_id=run_id,
            params={name: str(value) for name, value in record.parameters.items()},
            tags={name: record.tags[name] for name in ("dataset", "method")} | {"mlflow.note.content": record.note},
            model_type="nearest neighbours",
        )
        rows, _ = open_split(data / "train")
        place = Path(folder) / "model"
        save_mlflow_model(place, files, served.encoder, rows, run_id=run_id, model_id=logged.model_id)
        store.client.log_model_artifacts(logged.model_id, str(place))
    store.client.finalize_logged_model(logged.model_id, LoggedModelStatus.READY)
    return str(logged.model_id)


def _training_of(model: Path) -> str:
    """Return the id of the training that has written a model."""
    with np.load(model, allow_pickle=False) as file:
        return json.loads(str(file["meta"])).get("training", "")
