"""Classify raw input by the nearest neighbours under a learned map, from files that hold arrays only.

MLflow loads the model through :func:`_load_pyfunc`. Numbers are stored in the type in which they were evaluated, so
that a logged model predicts what was evaluated.
"""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin

from flrml.compat import serve_every_form_of_request
from flrml.datasets import load_encoder, load_meta, open_names
from flrml.datasets.encoders.rows import FILE as ENCODER
from flrml.datasets.encoders.rows import RowsEncoder
from flrml.files import atomic_write, read_arrays
from flrml.neighbors import majority_vote, nearest
from flrml.pipeline.stages.inputs import load_rows
from flrml.pipeline.stages.learned_map import LearnedMap
from flrml.rows import BinaryRows, is_sparse

if TYPE_CHECKING:
    import pandas as pd

FILE = "classifier.npz"


class MetricClassifier(ClassifierMixin, TransformerMixin, BaseEstimator):
    """k-nearest-neighbour classifier under a learned map."""

    def __init__(self, learned: LearnedMap, n_neighbors: int = 5):
        self.learned = learned
        self.n_neighbors = n_neighbors

    def fit(self, X: Any, y: Any, names: NDArray | None = None) -> "MetricClassifier":
        """Embed and keep the training rows, and their names if they have any."""
        self.embedded_, self.names_ = self.learned.embed(X), names
        self.classes_, self.y_ = np.unique(np.asarray(y), return_inverse=True)
        return self

    def transform(self, X: Any) -> Any:
        """Embed rows."""
        return self.learned.embed(X)

    def predict(self, X: Any) -> NDArray:
        """Return the class of each row by a majority of its nearest training rows."""
        labels, distances = self._vote(X)[1:]
        return self.classes_[majority_vote(labels, distances)]

    def predict_proba(self, X: Any) -> NDArray:
        """Return the share of each class among the nearest training rows."""
        labels = self._vote(X)[1]
        votes = np.zeros((len(labels), len(self.classes_)))
        np.add.at(votes, (np.arange(len(labels))[:, None], labels), 1)
        return votes / labels.shape[1]

    def neighbors(self, X: Any) -> "pd.DataFrame":
        """Return the nearest training rows with names or numbers, classes, and similarities; nearest first.

        The similarity is the cosine, minus the distance, or the bilinear similarity, depending on the metric.
        """
        import pandas as pd

        found, labels, distances = self._vote(X)
        convert = {"cosine": lambda d: 1 - d / 2, "euclidean": lambda d: -np.sqrt(d), "bilinear": lambda d: -d}
        similarities = convert[self.learned.metric](distances)
        columns: dict[str, NDArray] = {}
        for k in range(found.shape[1]):
            columns[f"neighbor_{k + 1}"] = found[:, k] if self.names_ is None else self.names_[found[:, k]]
            columns[f"class_{k + 1}"] = self.classes_[labels[:, k]]
            columns[f"similarity_{k + 1}"] = similarities[:, k]
        return pd.DataFrame(columns)

    def _vote(self, X: Any) -> tuple[NDArray, NDArray, NDArray]:
        """Return numbers, class numbers and squared distances of the nearest training rows."""
        embedded, learned = self.learned.embed(X), self.learned
        found, distances = nearest(self.embedded_, embedded, self.n_neighbors, metric=learned.metric, W=learned.W)
        return found, self.y_[found], distances

    def save(self, path: str | os.PathLike) -> None:
        """Write to an .npz file that :meth:`load` reads."""
        meta = {"metric": self.learned.metric, "n_neighbors": self.n_neighbors}
        arrays: dict[str, Any] = (
            self.learned.arrays | {"y": self.y_, "classes": self.classes_} | _pack(self.embedded_)
        )
        arrays |= {} if self.names_ is None else {"names": self.names_}
        # Maps and embeddings hardly compress: that of a large one takes a second and saves a twelfth.
        save = np.savez_compressed if is_sparse(self.embedded_) else np.savez
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            save(file, meta=np.array(json.dumps(meta)), **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "MetricClassifier":
        """Read what :meth:`save` wrote."""
        meta, arrays = read_arrays(path)
        classifier = cls(LearnedMap.of_arrays(path, meta, arrays), meta["n_neighbors"])
        classifier.embedded_, classifier.names_ = _unpack(arrays), arrays.get("names")
        classifier.y_, classifier.classes_ = arrays["y"], arrays["classes"]
        return classifier


class RawInputModel:
    """The way from raw input over encoded rows to classes, probabilities, embeddings or neighbours."""

    def __init__(self, classifier: MetricClassifier, encoder: RowsEncoder):
        self.classifier, self.encoder = classifier, encoder

    @classmethod
    def of_results(cls, model: Path, data: Path, n_neighbors: int) -> "RawInputModel":
        """Return the model that a learned map makes with the training rows of its prepared data set."""
        X, y = load_rows(data / "train")
        classes = np.array(load_meta(data)["classes"])
        classifier = MetricClassifier(LearnedMap.load(model), n_neighbors)
        return cls(classifier.fit(X, classes[y], open_names(data / "train")), load_encoder(data))

    def predict(self, raw: Any, params: dict[str, Any] | None = None) -> Any:
        """Return what the parameter ``output`` names, a row per example; MLflow calls this method.

        ``"class"`` gives names of classes, ``"probabilities"`` a data frame of their shares among the neighbours,
        ``"embedding"`` an array, and ``"neighbors"`` the data frame of :meth:`MetricClassifier.neighbors`.
        """
        output = (params or {}).get("output", "class")
        try:
            if output not in OUTPUTS:
                raise ValueError(f"output must be one of {', '.join(OUTPUTS)}, got {output!r}")
            return OUTPUTS[output](self.classifier, self.encoder.transform(raw))
        except ValueError as error:
            from mlflow.exceptions import MlflowException

            # A server answers with the line of such an error, and with a traceback to any other one.
            raise MlflowException.invalid_parameter_value(str(error)) from error

    def save(self, folder: Path) -> None:
        """Write the files that :func:`_load_pyfunc` reads to a folder."""
        self.classifier.save(folder / FILE)
        self.encoder.save(folder / ENCODER)


def _load_pyfunc(path: str) -> RawInputModel:
    """Load the model in the folder that a model of MLflow names as its data."""
    serve_every_form_of_request()
    return RawInputModel(MetricClassifier.load(Path(path) / FILE), load_encoder(Path(path) / ENCODER))


def _probabilities(classifier: MetricClassifier, X: Any) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(classifier.predict_proba(X), columns=classifier.classes_)


def _embedding(classifier: MetricClassifier, X: Any) -> NDArray:
    if classifier.learned.components is None:
        raise ValueError("the model has no embedding: it compares the rows themselves; choose another output")
    return classifier.transform(X)


OUTPUTS = {
    "class": MetricClassifier.predict,
    "probabilities": _probabilities,
    "embedding": _embedding,
    "neighbors": MetricClassifier.neighbors,
}


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
