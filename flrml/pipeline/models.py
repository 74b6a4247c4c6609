"""The learned metric as the pipeline stores it, and the classifier that it makes with its training data."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin

from flrml.exceptions import DamagedFileError
from flrml.files import read_arrays, write_arrays
from flrml.metric import embed
from flrml.neighbors import knn_predict
from flrml.rows import is_dask, is_sparse


@dataclass(frozen=True)
class Metric:
    """A map (None: the data as they are), the metric of its neighbours, a bilinear similarity, and an offset."""

    components: NDArray | None
    metric: str
    W: NDArray | None = None
    offset: NDArray | None = None

    @classmethod
    def of(cls, estimator: Any) -> "Metric":
        """Return what a fitted estimator has learned."""
        return cls(
            getattr(estimator, "components_", None),
            estimator.neighbor_metric,
            getattr(estimator, "similarity_", None),
            getattr(estimator, "offset_", None),
        )

    def embed(self, X: Any) -> Any:
        """Embed rows."""
        if self.components is None:
            return X if is_sparse(X) or is_dask(X) else np.asarray(X)
        return embed(X, self.components, self.offset)

    def save(self, path: str | os.PathLike, meta: dict) -> None:
        """Write to an .npz file, with what made it."""
        arrays = {"components": self.components, "W": self.W, "offset": self.offset}
        write_arrays(path, meta | {"metric": self.metric}, **{k: v for k, v in arrays.items() if v is not None})

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Metric":
        """Read what :meth:`save` wrote; a damaged file is deleted, so that the next run makes it again."""
        try:
            meta, arrays = read_arrays(path)
        except DamagedFileError:
            Path(path).unlink(missing_ok=True)
            raise
        return cls(arrays.get("components"), meta["metric"], arrays.get("W"), arrays.get("offset"))


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
        """Class of each row by a majority of its nearest training rows."""
        return knn_predict(
            self.embedded_,
            self.y_,
            self.metric.embed(X),
            n_neighbors=self.n_neighbors,
            metric=self.metric.metric,
            W=self.metric.W,
        )
