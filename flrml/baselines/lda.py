"""Linear discriminant analysis on the reduced data: by scikit-learn, and with a shrinkage that is validated."""

from dataclasses import KW_ONLY, dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import sklearn.model_selection
import sklearn.neighbors  # noqa: F401  # else the first fit would import them
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils._param_validation import StrOptions

from flrml.baselines.common import ReducedBaseline, ValidatedMetric, no_solution_if_singular
from flrml.folds import split_labels
from flrml.metric import UNIT_INTERVAL
from flrml.neighbors import knn_accuracy
from flrml.spectrum import Spectrum

SHRINKAGES = (0.01, 0.03, 0.1, 0.3, 0.6, 0.9)


@dataclass(eq=False, repr=False)
class LDA(ReducedBaseline):
    """Linear discriminant analysis with shrinkage, by scikit-learn.

    Learns at most one direction fewer than there are classes. On digits these nine say too little for neighbours:
    5-NN stays some 4 points behind the ``svd`` control with its hundred.

    Parameters
    ----------
    shrinkage : float, "auto" or None, default=0.3
        Weight of the mean variance in the covariance within classes.
    n_components, max_rank, random_state
        As for :class:`flrml.FLRML`.
    """

    n_components: int = 100
    _: KW_ONLY
    shrinkage: float | str | None = 0.3
    max_rank: int = 3000
    random_state: Any = None

    _parameter_constraints: ClassVar[dict] = {
        **ReducedBaseline._parameter_constraints,
        "shrinkage": [UNIT_INTERVAL, StrOptions({"auto"}), None],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, spectrum: Spectrum | None = None) -> "LDA":
        """Learn the directions from labels; see :meth:`flrml.FLRML.fit` for the arguments."""
        label, reduced, _ = self._reduce_labels(X, y, spectrum)
        d = min(self.n_components, int(label.max()), reduced.rank)
        solver = LinearDiscriminantAnalysis(solver="eigen", shrinkage=self.shrinkage, n_components=d)
        with no_solution_if_singular(type(self).__name__):
            solver.fit(reduced.Z, label)
        Lz = solver.scalings_[:, :d].T
        self._set_result(reduced.lift(Lz.astype(reduced.Z.dtype)))
        return self


@dataclass(eq=False, repr=False)
class TunedLDA(ReducedBaseline):
    """Linear discriminant analysis whose shrinkage is chosen by 5-NN on validation rows.

    The validation rows are split off as for :class:`flrml.RidgeFLRML`; groups stay together. They also decide
    between cosine and Euclidean distance: two classes have a single direction, in which the cosine is no more than
    a sign.

    Parameters
    ----------
    n_components, max_rank
        As for :class:`flrml.FLRML`; there is at most one direction fewer than there are classes.
    random_state : int, RandomState or None, default=None
        Seed of the validation rows, and of the randomized SVD.

    Attributes
    ----------
    shrinkage_ : float
        The shrinkage chosen.
    metric_ : {"cosine", "euclidean"}
        How embedded rows are compared.
    """

    n_components: int = 100
    _: KW_ONLY
    max_rank: int = 3000
    random_state: Any = None

    metric = ValidatedMetric()

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, spectrum: Spectrum | None = None, groups: Any = None) -> "TunedLDA":
        """Learn the directions from labels; see :meth:`flrml.FLRML.fit` for the arguments."""
        label, reduced, random = self._reduce_labels(X, y, spectrum)
        Z = reduced.Z
        splits = split_labels(label, self._check_groups(Z, groups), random)
        parts = [(rows, validation, _Scatter(Z[rows], label[rows])) for rows, validation in splits]

        correct = dict.fromkeys(product(SHRINKAGES, ValidatedMetric.CHOICES), 0.0)
        for shrinkage in SHRINKAGES:
            for rows, validation, scatter in parts:
                W = scatter.discriminants(shrinkage, self.n_components)
                Y, Y_validation = Z[rows] @ W, Z[validation] @ W
                for metric in ValidatedMetric.CHOICES:
                    accuracy = knn_accuracy(Y, label[rows], Y_validation, label[validation], metric=metric)
                    correct[shrinkage, metric] += len(validation) * accuracy
        default = (SHRINKAGES[3], ValidatedMetric.CHOICES[0])
        self.shrinkage_, self.metric_ = max(correct, key=correct.__getitem__) if parts else default
        W = _Scatter(Z, label).discriminants(self.shrinkage_, self.n_components)
        self._set_result(reduced.lift(W.T))
        return self


class _Scatter:
    """Scatter of rows within and between classes."""

    def __init__(self, Z: NDArray, label: NDArray):
        size = np.bincount(label)
        sums = np.array([Z[label == k].sum(axis=0) for k in range(len(size))])
        means = sums / np.maximum(size, 1)[:, None]
        roots = np.sqrt(size)[:, None]
        self.within = Z.T @ Z - (roots * means).T @ (roots * means)
        self.between = (roots * (means - Z.mean(axis=0))).T

    def discriminants(self, shrinkage: float, most: int) -> NDArray:
        """Return directions (r × d) in which classes differ, of unit scatter within the classes after shrinkage."""
        A = (1 - shrinkage) * self.within
        A[np.diag_indices_from(A)] += max(shrinkage * np.trace(self.within) / len(A), np.finfo(A.dtype).tiny)
        with no_solution_if_singular("TunedLDA"):
            factor = scipy.linalg.cholesky(A, lower=True, overwrite_a=True, check_finite=False)
        white = scipy.linalg.solve_triangular(factor, self.between, lower=True)
        U, strength, _ = np.linalg.svd(white, full_matrices=False)
        d = min(most, int(np.sum(strength > 1e-4 * strength[0])))
        return scipy.linalg.solve_triangular(factor, U[:, :d], lower=True, trans="T").astype(A.dtype)
