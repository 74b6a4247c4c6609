"""Classify by the nearest neighbours under a learned map, from a file that holds arrays only.

MLflow loads the classifier through :func:`_load_pyfunc`. Numbers are stored in the type in which they were
evaluated, so that a logged model predicts what was evaluated.
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
from flrml.pipeline.stages.learned_map import LearnedMap
from flrml.rows import BinaryRows, normalize

FILE = "classifier.npz"


class MetricClassifier(ClassifierMixin, TransformerMixin, BaseEstimator):
    """k-nearest-neighbour classifier under a learned map.

    Parameters
    ----------
    learned : LearnedMap
        The learned map, and the metric of its neighbours.
    n_neighbors : int, default 5
        Neighbours that vote.
    """

    def __init__(self, learned: LearnedMap, n_neighbors: int = 5):
        self.learned = learned
        self.n_neighbors = n_neighbors

    def fit(self, X: Any, y: Any) -> "MetricClassifier":
        """Embed and keep the training rows."""
        self.embedded_, self.y_ = self.learned.embed(X), np.asarray(y)
        self.classes_ = np.unique(self.y_)
        return self

    def transform(self, X: Any) -> Any:
        """Embed rows."""
        return self.learned.embed(X)

    def predict(self, X: Any) -> NDArray:
        """Return the class of each row by a majority of its nearest training rows."""
        return knn_predict(
            self.embedded_,
            self.y_,
            self.learned.embed(X),
            n_neighbors=self.n_neighbors,
            metric=self.learned.metric,
            W=self.learned.W,
        )

    def save(self, path: str | os.PathLike) -> None:
        """Write to an .npz file that :meth:`load` reads."""
        meta = {"metric": self.learned.metric, "n_neighbors": self.n_neighbors}
        learned = {name: getattr(self.learned, name) for name in ("components", "W", "intercept")}
        arrays = {"y": self.y_} | {name: value for name, value in learned.items() if value is not None}
        arrays |= _pack(self.embedded_)
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, meta=np.array(json.dumps(meta)), **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "MetricClassifier":
        """Read what :meth:`save` wrote."""
        meta, arrays = read_arrays(path)
        classifier = cls(LearnedMap.of_arrays(path, meta, arrays), meta["n_neighbors"])
        classifier.embedded_, classifier.y_ = _unpack(arrays), arrays["y"]
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


def _pack(rows: Any) -> dict[str, NDArray]:
    """Return the arrays that a file keeps of dense or sparse rows."""
    if isinstance(rows, BinaryRows):
        rows = rows[:]
    if not sp.issparse(rows):
        return {"rows": np.asarray(rows)}
    rows = rows.tocsr()
    # Differences of column numbers are small, and so compress well.
    steps = np.diff(rows.indices, prepend=rows.indices.dtype.type(0))
    return {"steps": steps, "indptr": rows.indptr, "data": rows.data, "shape": np.array(rows.shape)}


def _unpack(arrays: dict[str, NDArray]) -> Any:
    """Return the rows that :func:`_pack` has packed."""
    if "rows" in arrays:
        return arrays["rows"]
    indices = np.cumsum(arrays["steps"], dtype=arrays["steps"].dtype)
    return sp.csr_matrix((arrays["data"], indices, arrays["indptr"]), shape=tuple(arrays["shape"]))
