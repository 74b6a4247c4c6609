"""A learned metric as the pipeline stores it, and the classifier it makes together with its training data."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin

from flrml.files import read_arrays, write_arrays
from flrml.neighbors import knn_predict
from flrml.rows import in_blocks, is_sparse, product


@dataclass(frozen=True)
class Metric:
    """A map (None: the data as they are), a neighbour rule, and the matrix of a bilinear similarity."""

    components: NDArray | None
    rule: str
    W: NDArray | None = None

    @classmethod
    def of(cls, estimator: Any) -> "Metric":
        """The metric that a fitted estimator of the registry has learned."""
        return cls(
            getattr(estimator, "components_", None),
            getattr(estimator, "neighbor_metric", "cosine"),
            getattr(estimator, "similarity_", None),
        )

    def embed(self, X: Any) -> Any:
        """Rows of X under the map."""
        if self.components is None:
            return X if is_sparse(X) or in_blocks(X) else np.asarray(X)
        if in_blocks(X):
            from flrml.distributed import embed

            return embed(X, self.components)
        return product(X, self.components.T)

    def save(self, path: str | os.PathLike, meta: dict) -> None:
        """Write to an .npz file, with what made it."""
        arrays = {"components": self.components, "W": self.W}
        write_arrays(path, meta | {"rule": self.rule}, **{k: v for k, v in arrays.items() if v is not None})

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Metric":
        """Read what :meth:`save` wrote."""
        meta, arrays = read_arrays(path)
        return cls(arrays.get("components"), meta["rule"], arrays.get("W"))


class MetricClassifier(ClassifierMixin, TransformerMixin, BaseEstimator):
    """k-nearest-neighbour classifier under a learned metric.

    Parameters
    ----------
    metric : Metric
        The learned map and its neighbour rule.
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
            metric=self.metric.rule,
            W=self.metric.W,
        )
