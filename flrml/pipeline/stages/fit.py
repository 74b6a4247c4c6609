"""Fit one method to prepared rows: what training, sweeps and growth have in common."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from flrml.datasets.store import open_groups
from flrml.files import PathLike
from flrml.methods import METHODS, build
from flrml.neighbors import knn_accuracy
from flrml.pipeline.stages.inputs import load_rows


def timed_fit(method: str, parameters: dict[str, Any], X: Any, y: Any, **given: Any) -> tuple[Any, float]:
    """Build the estimator of a method and fit it; return it with the seconds that the fit took.

    Parameters
    ----------
    method : str
        Name of the method.
    parameters : dict
        Parameters, of which those count that the method has.
    X, y : array-like
        Training rows and labels.
    **given
        ``triplets``, ``spectrum`` and ``groups``, passed on if ``fit`` takes them; ``callback``; and ``listener``,
        called with the number and the objective of every iteration.
    """
    known = METHODS[method]
    estimator = build(method, **{name: value for name, value in parameters.items() if name in known.accepts})
    estimator._listener = given.pop("listener", None)
    callback = {"callback": given.pop("callback")} if "callback" in given else {}
    arguments = known.fit_arguments(**given) | callback
    if "groups" in arguments:  # it holds rows out, with a part of scikit-learn whose import is no training
        import sklearn.model_selection  # noqa: F401
    start = time.perf_counter()
    estimator.fit(X, y, **arguments)
    return estimator, time.perf_counter() - start


@dataclass(frozen=True)
class PreparedRows:
    """Training and test rows of a prepared data set, in memory unless they are large."""

    X: Any
    y: NDArray
    X_test: Any
    y_test: NDArray
    groups: NDArray | None
    n_neighbors: int

    @classmethod
    def load(cls, data: PathLike, n_neighbors: int) -> "PreparedRows":
        """Load both parts."""
        train, test = (load_rows(Path(data) / part) for part in ("train", "test"))
        return cls(*train, *test, open_groups(Path(data) / "train"), n_neighbors)

    def accuracy(self, model: Any = None) -> float:
        """Return the accuracy of nearest neighbours under a fitted model, or on the rows as they are."""
        rows = (self.X, self.X_test)
        embedded, embedded_test = rows if model is None else map(model.transform, rows)
        return knn_accuracy(embedded, self.y, embedded_test, self.y_test, n_neighbors=self.n_neighbors)
