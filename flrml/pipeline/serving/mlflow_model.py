"""Write models of MLflow that take raw input and hold arrays only: loading one runs no code but flrml's own."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from mlflow.models import Model, ModelSignature
from mlflow.pyfunc import save_model
from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema, TensorSpec

from flrml.compat import leave_input_to_the_model
from flrml.pipeline.serving import classifier

EXAMPLE_FEATURES = 100_000  # at most: MLflow writes an example as text, every zero of a sparse row included
PACKAGES = ("flrml", "numpy", "scipy", "scikit-learn", "pandas")
KIND_PACKAGES = {"image": ("pillow",), "embedding": ("wordllama",)}  # of raw input


def save_mlflow_model(path: Path, files: Path, encoder: Any, rows: Any, *, run_id: str, model_id: str) -> None:
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
