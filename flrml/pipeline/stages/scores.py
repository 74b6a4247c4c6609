"""Score the rows of a prepared data set, or their embeddings: by nearest neighbours, and as retrieval."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flrml.datasets.store import open_groups
from flrml.files import PathLike
from flrml.neighbors import majority_vote, nearest
from flrml.pipeline.stages.inputs import load_rows
from flrml.retrieval import retrieval_scores
from flrml.rows import is_dask, take_rows

DEPTHS = (1, 10)  # numbers of rows found, for recall and precision


@dataclass(frozen=True)
class PreparedRows:
    """Training and test rows of a prepared data set, in memory unless they are large, or their embeddings.

    Test rows find training rows. If their classes are new, as with ``split: classes``, they find one another, but
    not themselves and rows of their own group.
    """

    X: Any
    y: NDArray
    X_test: Any
    y_test: NDArray
    groups: NDArray | None = None
    test_groups: NDArray | None = None
    n_neighbors: int = 5
    test_rows: NDArray | None = None  # numbers of the test rows if they are a sample

    @classmethod
    def load(cls, data: PathLike, n_neighbors: int, open_rows: Callable = load_rows) -> "PreparedRows":
        """Load both parts."""
        train, test = Path(data) / "train", Path(data) / "test"
        (X, y), (X_test, y_test) = open_rows(train), open_rows(test)
        return cls(X, y, X_test, y_test, open_groups(train), open_groups(test), n_neighbors)

    @property
    def new_classes(self) -> bool:
        """Whether no class of the test rows is among those of the training rows."""
        return not np.isin(self.y_test, self.y).any()

    def sampled(self, size: int | None) -> "PreparedRows":
        """Return a random sample of the test rows with all training rows; all test rows if these are not more."""
        n = len(self.y_test)
        if size is None or size >= n:
            return self
        rows = np.sort(np.random.RandomState(0).choice(n, size, replace=False))
        X_test, groups = take_rows(self.X_test, rows), self.test_groups
        groups = None if groups is None else groups[rows]
        return replace(self, X_test=X_test, y_test=self.y_test[rows], test_groups=groups, test_rows=rows)

    def embedded(self, embed: Callable[[Any], Any]) -> "PreparedRows":
        """Return both parts embedded."""
        return replace(self, X=embed(self.X), X_test=embed(self.X_test))

    def neighbours(self, metric: str = "cosine", W: NDArray | None = None) -> tuple[NDArray, NDArray]:
        """Return labels and squared distances of the nearest rows of each test row."""
        k = self.n_neighbors
        if not self.new_classes:
            indices, distances = nearest(self.X, self.X_test, k, metric=metric, W=W)
            return self.y[indices], distances
        groups, largest = self._groups()
        indices, distances = nearest(self.X_test, self.X_test, k + largest, metric=metric, W=W)
        is_own = groups[indices] == groups[:, None]
        others = np.argsort(is_own, axis=1, kind="stable")[:, : min(k, len(groups) - largest)]
        return self.y_test[np.take_along_axis(indices, others, 1)], np.take_along_axis(distances, others, 1)

    def retrieval(self, metric: str = "cosine", W: NDArray | None = None) -> dict[str, float]:
        """Return the retrieval scores; see :func:`flrml.retrieval_scores`."""
        X, X_test = (rows.compute() if is_dask(rows) else rows for rows in (self.X, self.X_test))
        if not self.new_classes:
            k = [depth for depth in DEPTHS if depth <= len(self.y)]
            return retrieval_scores(X_test, self.y_test, X, self.y, k=k, metric=metric, W=W)
        groups, largest = self._groups()
        k = [depth for depth in DEPTHS if depth <= len(groups) - largest]
        return retrieval_scores(X_test, self.y_test, k=k, groups=groups, metric=metric, W=W)

    def accuracy(self, model: Any = None) -> float:
        """Return the accuracy of nearest neighbours under a fitted model, or on the rows as they are."""
        rows = self if model is None else self.embedded(model.transform)
        return float(np.mean(majority_vote(*rows.neighbours()) == self.y_test))

    def _groups(self) -> tuple[NDArray, int]:
        """Return the groups of the test rows, one per row if there are none, and the size of the largest."""
        groups = np.arange(len(self.y_test)) if self.test_groups is None else np.asarray(self.test_groups)
        return groups, int(np.unique(groups, return_counts=True)[1].max())
