"""Predict the classes of raw files."""

import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from flrml.datasets import load_meta
from flrml.datasets.encoders.rows import RowsEncoder
from flrml.datasets.reading import files_below, reading
from flrml.datasets.registry import FORMATS, format_of
from flrml.datasets.svmlight import read_svmlight
from flrml.datasets.table_files import READERS as TABLES
from flrml.datasets.table_files import read_table
from flrml.files import atomic_write, read_json
from flrml.pipeline.naming import METRICS, MODEL
from flrml.pipeline.serving.classifier import FILE, RawInputModel, _load_pyfunc
from flrml.pipeline.stages.evaluate import describe_parts
from flrml.pipeline.tracking.experiment import tracking_uri

USAGE = "give all three: make predict MODEL=results/runs/… INPUT=new.csv OUTPUT=classes.csv"
Input = tuple[Iterable[Any], Any]  # names of the examples, and the examples


def open_model(address: str) -> RawInputModel:
    """Open the model of a run in a results folder, or of an address of MLflow such as ``models:/m-…``."""
    folder = Path(address)
    if (folder / METRICS).exists():
        return _of_run(folder.resolve())
    if ":" not in address and not (folder / "MLmodel").exists():
        raise ValueError(
            f"{address}: neither a run, such as results/runs/flowers/flrml/seed0, nor a model of MLflow"
        )
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    import mlflow

    mlflow.set_tracking_uri(tracking_uri("sqlite:///mlflow.db"))
    found = next(Path(mlflow.artifacts.download_artifacts(address)).rglob(FILE), None)
    if found is None:
        raise ValueError(f"{address}: not a model that flrml has logged")
    return _load_pyfunc(str(found.parent))


def _of_run(folder: Path) -> RawInputModel:
    metrics = read_json(folder / METRICS)
    if metrics["outcome"] != "ok":
        raise ValueError(f"{folder}: its training ended with {metrics['outcome']}: {metrics['reason']}")
    data = folder.parents[3] / "data" / metrics["dataset"]
    if describe_parts(data, load_meta(data))["train"]["digest"] != metrics["data"]["train"]["digest"]:
        raise ValueError(f"{folder}: its data set has been prepared anew; run the pipeline again")
    return RawInputModel.of_results(folder / MODEL, data, metrics["n_neighbors"])


def read_input(path: Path, encoder: RowsEncoder) -> Input:
    """Read raw input of the kind that an encoder takes; its examples are named by lines, files or numbers."""
    if not path.exists():
        raise ValueError(f"{path}: no such file or folder; correct INPUT")
    return READERS[encoder.kind](path, encoder)


def _read_table(path: Path, encoder: Any) -> Input:
    name = format_of(str(path))
    if name not in TABLES:
        raise ValueError(f"{path}: the model takes a table; give a file that ends with {_endings(*TABLES)}")
    frame = read_table(path, name)
    return frame.index, frame


def _read_texts(path: Path, encoder: Any) -> Input:
    if format_of(str(path)) in TABLES:
        if encoder.column is None:
            raise ValueError(
                f"{path}: the model takes texts; give a folder of text files, or a file of one per line"
            )
        lines, frame = _read_table(path, encoder)
        if encoder.column not in frame:
            raise ValueError(f"{path}: no column {encoder.column!r}, which holds the texts; rename or add it")
        return lines, frame[encoder.column].tolist()
    with reading(path, "UTF-8 text", "save it as UTF-8"):
        if path.is_dir():
            files = files_below(path)
            return _names(files, path), [file.read_text(encoding="utf-8") for file in files]
        texts = path.read_text(encoding="utf-8").splitlines()
    lines = [number for number, text in enumerate(texts, start=1) if text.strip()]
    return lines, [texts[number - 1] for number in lines]


def _read_images(path: Path, encoder: Any) -> Input:
    files = files_below(path) if path.is_dir() else [path]
    return _names(files, path), files


def _read_rows(path: Path, encoder: Any) -> Input:
    name = format_of(str(path))
    if name == "svmlight":
        with tempfile.TemporaryDirectory() as scratch:
            X = sp.csr_matrix(read_svmlight(path, Path(scratch) / "rows")[0], copy=True)
        X.resize(X.shape[0], max(X.shape[1], encoder.n_columns))  # trailing columns may be empty
    elif name in ("npy", "npz"):
        with reading(path, "an array", "save it with numpy.save, or as X with numpy.savez"):
            X = np.load(path, allow_pickle=False)
            if name == "npz":
                X = sp.load_npz(path) if "format" in X else X["X"]
    else:
        wanted = _endings("npy", "npz", "svmlight")
        raise ValueError(f"{path}: the model takes rows of numbers; give a file that ends with {wanted}")
    return range(X.shape[0]), X


READERS: dict[str, Callable[[Path, Any], Input]] = {
    "table": _read_table,
    "text": _read_texts,
    "embedding": _read_texts,
    "image": _read_images,
    "rows": _read_rows,
}


def _endings(*formats: str) -> str:
    return ", ".join(ending for name in formats for ending in FORMATS[name][2])


def _names(files: list[Path], folder: Path) -> list[str]:
    if not files:
        raise ValueError(f"{folder}: the folder is empty; correct INPUT")
    return [str(file.relative_to(folder) if folder.is_dir() else file) for file in files]


def predict(model: str, raw: str, output: str) -> int:
    """Write name, class, share of the vote and nearest training rows of every example to a CSV file."""
    if not (model and raw and output):
        raise ValueError(USAGE)
    served = open_model(model)
    names, examples = read_input(Path(raw), served.encoder)
    rows = served.encoder.encode(examples, raw)
    found = served.classifier.neighbors(rows)
    found.insert(0, "row", list(names))
    found.insert(1, "class", served.classifier.predict(rows))
    found.insert(2, "share", served.classifier.predict_proba(rows).max(axis=1))
    with atomic_write(output) as temporary:
        found.to_csv(temporary, index=False)
    print(f"{output}: classes of {len(found):,} rows of {raw}")
    return 0
