"""Linear classifiers of scikit-learn as maps: the decision values of the classes are the embedding.

They are the usual choice for labelled text. The intercepts of the decision values are left out. Rows are classified
by their nearest neighbours, as for every other method, not by the largest value.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import sklearn.model_selection
import sklearn.neighbors  # noqa: F401  # else the first fit would import them
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.utils import check_random_state

from flrml.baselines.common import Baseline, ValidatedMetric
from flrml.folds import split_labels
from flrml.metric import POSITIVE_REAL
from flrml.neighbors import knn_accuracy
from flrml.rows import gram
from flrml.rows.wide import is_wide, lift, with_inner_products


class _LinearClassifier(Baseline):
    """A linear classifier whose coefficients are the map: one row per class, a single one for two classes.

    The neighbours of embedded rows are found by cosine or by Euclidean distance, whichever is more accurate on
    validation rows; ``metric_`` says which.
    """

    metric = ValidatedMetric()
    metric_: str

    def _classifier(self, random: np.random.RandomState) -> Any:
        raise NotImplementedError

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Any:
        """Learn the coefficients; rows of one group are held out together."""
        X = self._check_rows(X, reset=True, ensure_min_samples=3)
        X = X[:] if not isinstance(X, np.ndarray) else X  # scikit-learn takes arrays and CSR matrices
        size = np.prod(X.shape)
        if sp.issparse(X) and size <= 2**26 and X.nnz > 0.1 * size:
            X = X.toarray()  # which scikit-learn solves directly, in half the time
        label, random = self._check_classes(X, y), check_random_state(self.random_state)
        # The classifiers depend only on inner products, which scikit-learn forms each time for few wide rows.
        E = with_inner_products(gram(X)) if is_wide(X.shape) else X
        correct = dict.fromkeys(ValidatedMetric.CHOICES, 0.0)
        for rows, validation in split_labels(label, self._check_groups(X, groups), random):
            if len(np.unique(label[rows])) > 1:
                W = self._coefficients(E[rows], label[rows], random).T
                Y, Y_validation = E[rows] @ W, E[validation] @ W
                for metric in correct:
                    accuracy = knn_accuracy(Y, label[rows], Y_validation, label[validation], metric=metric)
                    correct[metric] += len(validation) * accuracy
        self.metric_ = max(correct, key=correct.__getitem__)
        W = self._coefficients(E, label, random)
        if E is not X:
            W = lift(X, E, W.T).T
        self._set_result(W.astype(X.dtype, copy=False))
        return self

    def _coefficients(self, X: Any, label: NDArray, random: np.random.RandomState) -> NDArray:
        return np.atleast_2d(self._classifier(random).fit(X, label).coef_)


@dataclass(eq=False, repr=False)
class RidgeClassifierControl(_LinearClassifier):
    """Decision values of scikit-learn's RidgeClassifier.

    Parameters
    ----------
    alpha : float, default=1.0
        Penalty of scikit-learn's estimator.
    random_state : int, RandomState or None, default=None
        Seed of the validation rows.
    """

    alpha: float = 1.0
    _: KW_ONLY
    random_state: Any = None

    _parameter_constraints: ClassVar[dict] = {**Baseline._parameter_constraints, "alpha": [POSITIVE_REAL]}

    def _classifier(self, random: np.random.RandomState) -> RidgeClassifier:
        return RidgeClassifier(alpha=self.alpha, random_state=random)


@dataclass(eq=False, repr=False)
class LogisticControl(_LinearClassifier):
    """Decision values of scikit-learn's LogisticRegression.

    Parameters
    ----------
    C : float, default=1.0
        Inverse of the penalty of scikit-learn's estimator.
    max_iter : int, default=1000
        Largest number of iterations.
    random_state : int, RandomState or None, default=None
        Seed of the validation rows.
    """

    C: float = 1.0
    _: KW_ONLY
    max_iter: int = 1000
    random_state: Any = None

    def _classifier(self, random: np.random.RandomState) -> LogisticRegression:
        return LogisticRegression(C=self.C, max_iter=self.max_iter)
