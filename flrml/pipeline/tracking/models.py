"""Log models to MLflow that take raw input and hold arrays only: loading one runs no code but flrml's own."""

import json
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from mlflow.entities import LoggedModelOutput, LoggedModelStatus, Metric
from mlflow.models import Model, ModelSignature
from mlflow.pyfunc import save_model
from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema, TensorSpec

from flrml.compat import leave_input_to_the_model
from flrml.datasets import open_split
from flrml.pipeline.tracking import classifier
from flrml.pipeline.tracking.classifier import RawInputModel
from flrml.pipeline.tracking.mlflow_store import Store
from flrml.pipeline.tracking.records import RunRecord

MAX_MODEL_BYTES = 40 * 2**20
EXAMPLE_FEATURES = 100_000  # at most: MLflow writes an example as text, every zero of a sparse row included
PACKAGES = ("flrml", "numpy", "scipy", "scikit-learn", "pandas")
KIND_PACKAGES = {"image": ("pillow",), "embedding": ("wordllama",)}  # of raw input


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
        _save(Path(folder) / "model", files, served.encoder, rows, run_id=run_id, model_id=logged.model_id)
        store.client.log_model_artifacts(logged.model_id, str(Path(folder) / "model"))
    store.client.finalize_logged_model(logged.model_id, LoggedModelStatus.READY)
    return str(logged.model_id)


def _training_of(model: Path) -> str:
    """Return the id of the training that has written a model."""
    with np.load(model, allow_pickle=False) as file:
        return json.loads(str(file["meta"])).get("training", "")


def _save(path: Path, files: Path, encoder: Any, rows: Any, *, run_id: str, model_id: str) -> None:
    """Write a model of MLflow that predicts classes of raw input."""
    inputs, example = _describe_input(encoder, rows)
    output = ParamSpec("output", DataType.string, "class")
    signature = ModelSignature(Schema(inputs), Schema([ColSpec("string", "class")]), ParamSchema([output]))
    leave_input_to_the_model(signature)
    # As an argument of save_model, a signature without an example would be warned of.
    described = Model(run_id=run_id, model_id=model_id, signature=signature)
    packages = PACKAGES + KIND_PACKAGES.get(encoder.kind, ())
    save_model(
        path,
        loader_module=classifier.__name__,
        data_path=str(files),
        mlflow_model=described,
        input_example=example,
        pip_requirements=[f"{package}=={version(package)}" for package in packages],
    )


def _describe_input(encoder: Any, rows: Any) -> tuple[list[Any], Any]:
    """Return columns or shape of the raw input of an encoder, and an example, or None if that is too large."""
    example = encoder.example
    if encoder.kind == "table":
        given = {name: encoder.fills.get(name) if value is None else value for name, value in example.items()}
        example = {name: (str if name in encoder.levels else float)(given[name]) for name in encoder.columns}
        types = {str: "string", float: "double"}
        return [ColSpec(types[type(value)], name) for name, value in example.items()], [example]
    if encoder.kind in ("text", "embedding"):
        return [ColSpec("string", encoder.column)], {encoder.column: [example]} if encoder.column else [example]
    if encoder.kind == "image":
        shape = (-1, *encoder.size, *(() if encoder.gray else (3,)))
        pixels = encoder.numbers([example]).reshape(1, *shape[1:]).astype(np.uint8)
        return [TensorSpec(np.dtype("uint8"), shape)], pixels
    n_columns = rows.shape[1]
    example = rows[:1].astype(np.float64)
    if n_columns <= 1000 and sp.issparse(example):
        example = example.toarray()
    return [TensorSpec(np.dtype("float64"), (-1, n_columns))], example if n_columns <= EXAMPLE_FEATURES else None
