"""The k-nearest-neighbour classifier of a learned metric, and its format on disk, which holds arrays alone.

MLflow loads it through :func:`_load_pyfunc`. Small classifiers are stored as float32. In large ones numbers have 11
significant bits, each row with a scale of its own: the file is half as large, and a prediction may differ where
votes are close.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin

from flrml.files import atomic_write, read_arrays
from flrml.neighbors import knn_predict
from flrml.pipeline.stages.learned_map import Metric
from flrml.rows import BinaryRows, normalize

FILE = "classifier.npz"
PRECISE_BYTES = 4 * 2**20


class MetricClassifier(ClassifierMixin, TransformerMixin, BaseEstimator):
    """k-nearest-neighbour classifier under a learned metric.

    Parameters
    ----------
    metric : Metric
        The learned map, and the metric of its neighbours.
    n_neighbors : int, default 5
        Neighbours that vote.
    """

    def __init__(self, metric: Metric, n_neighbors: int = 5):
        self.metric = metric
        self.n_neighbors = n_neighbors

    def fit(self, X: Any, y: Any) -> "MetricClassifier":
        """Embed and keep the training rows."""
        self.embedded_, self.y_ = self.metric.embed(X), np.asarray(y)
        self.classes_ = np.unique(self.y_)
        return self

    def transform(self, X: Any) -> Any:
        """Embed rows."""
        return self.metric.embed(X)

    def predict(self, X: Any) -> NDArray:
        """Return the class of each row by a majority of its nearest training rows."""
        return knn_predict(
            self.embedded_,
            self.y_,
            self.metric.embed(X),
            n_neighbors=self.n_neighbors,
            metric=self.metric.metric,
            W=self.metric.W,
        )

    def save(self, path: str | os.PathLike) -> None:
        """Write to an .npz file that :meth:`load` reads."""
        meta = {"metric": self.metric.metric, "n_neighbors": self.n_neighbors}
        parts = {"embedded": self.embedded_, "components": self.metric.components, "W": self.metric.W}
        given = {name: part for name, part in parts.items() if part is not None}
        dtype = np.float32 if 4 * sum(_size(part) for part in given.values()) <= PRECISE_BYTES else np.float16
        arrays = {"y": self.y_}
        if self.metric.offset is not None:
            arrays["offset"] = self.metric.offset
        for name, part in given.items():
            arrays |= _pack(name, part, dtype)
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, meta=np.array(json.dumps(meta)), **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: str | os.PathLike) -> "MetricClassifier":
        """Read what :meth:`save` wrote."""
        meta, arrays = read_arrays(path)
        metric = Metric(_unpack("components", arrays), meta["metric"], _unpack("W", arrays), arrays.get("offset"))
        classifier = cls(metric, meta["n_neighbors"])
        classifier.embedded_, classifier.y_ = _unpack("embedded", arrays), arrays["y"]
        classifier.classes_ = np.unique(classifier.y_)
        return classifier


class RawRowsModel:
    """The classifier as MLflow's pyfunc calls it: rows are scaled to unit length, as prepared data sets are."""

    def __init__(self, classifier: MetricClassifier):
        self.classifier = classifier

    def predict(self, X: Any, params: dict[str, Any] | None = None) -> NDArray:
        """Return the class of each row of an array, a CSR matrix or a data frame."""
        rows = X if sp.issparse(X) else np.asarray(X)
        return self.classifier.predict(normalize(rows.astype(np.float32, copy=False)))


def _load_pyfunc(path: str) -> RawRowsModel:
    """Load the classifier that a model of MLflow names as its data."""
    file = Path(path)
    return RawRowsModel(MetricClassifier.load(file / FILE if file.is_dir() else file))


def _size(values: Any) -> int:
    return int(values.nnz if hasattr(values, "nnz") else values.size)


def _pack(name: str, values: Any, dtype: type) -> dict[str, NDArray]:
    """Return the arrays that a file keeps of a dense or sparse matrix."""
    if isinstance(values, BinaryRows):
        values = values[:]
    if sp.issparse(values):
        rows = values.tocsr()
        # Differences of column numbers are small, and so compress well.
        steps = np.diff(rows.indices, prepend=rows.indices.dtype.type(0))
        parts = {"steps": steps, "indptr": rows.indptr, "data": rows.data, "shape": np.array(rows.shape)}
        return {f"{name}.{part}": array for part, array in parts.items()}
    dense = np.asarray(values, dtype=np.float32)
    if dtype == np.float32:
        return {name: dense}
    scale = np.abs(dense).max(axis=1, keepdims=True, initial=0)
    scale[scale == 0] = 1
    return {f"{name}.scale": scale, name: (dense / scale).astype(dtype)}


def _unpack(name: str, arrays: dict[str, NDArray]) -> Any:
    """Return the matrix that :func:`_pack` has packed, or None if there is none."""
    if name in arrays:
        return arrays[name].astype(np.float32, copy=False) * arrays.get(f"{name}.scale", np.float32(1))
    if f"{name}.steps" not in arrays:
        return None
    steps, indptr, data, shape = (arrays[f"{name}.{part}"] for part in ("steps", "indptr", "data", "shape"))
    return sp.csr_matrix((data, np.cumsum(steps, dtype=steps.dtype), indptr), shape=tuple(shape))
