"""RidgeFLRML as a scikit-learn estimator."""

import functools
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from flrml.metric import POSITIVE_INTEGER, POSITIVE_REAL, UNIT_INTERVAL, LowRankMetric
from flrml.ridge.candidates import Settings
from flrml.ridge.policy import SearchPolicy
from flrml.ridge.selection import SEARCHED, Trial, select
from flrml.ridge.solver import Solver, scaled_for
from flrml.ridge.supervision import Contrasts, Labels, NewClasses, Supervision, Triplets
from flrml.rows import is_dask, take_rows
from flrml.rows.threads import one_blas_thread
from flrml.spectrum import column_signs
from flrml.triplets import check_triplets

AUTO = StrOptions({"auto"})
MIN_NEW_CLASSES = 4  # so that three are known if one is held out


@dataclass(eq=False, repr=False)
class RidgeFLRML(LowRankMetric):
    """Low-rank metric learning with ridge whitening, solved in closed form.

    The model is that of :class:`flrml.FLRML`, fitted differently: the data are whitened with a ridge penalty,
    triplets are taken in expectation instead of being drawn, the directions come from an eigenproblem, and rounds
    of nearest neighbours can refine them. The method needs products with X only, no decomposition. Parameters left
    at ``"auto"`` are chosen by 5-NN on validation rows, or by retrieval among classes that are held out.

    Rows of X should have unit length (:class:`sklearn.preprocessing.Normalizer`); rows of zeros are allowed.

    Parameters
    ----------
    n_components : int or "auto", default=100
        Number of directions d; at most the rank of the data. "auto" is the smallest power of two within a standard
        error of the best.
    ridge : float or "auto", default="auto"
        γ = ridge × the mean squared length of a row (after scaling of the features) is added to the squared
        singular values before whitening. A value close to 0 whitens the data, a large one keeps their geometry.
    within : float or "auto", default="auto"
        Share ω of the scatter between classes that is left out when the data are whitened. 0 whitens by the total
        scatter, 1 by the scatter within classes.
    local : float or "auto", default="auto"
        Share β of positives that are the sample itself, the nearest of all. 0 uses classes only and gives at most
        as many directions as there are classes; 1 uses no labels.
    rounds : int or "auto", default="auto"
        Number of rounds, each of which finds neighbours in the learned metric and moves the map along the triplets
        inside the margin. "auto" makes 10 for the unsupervised form (``local`` = 1), up to 30 with more than 10,000
        groups, as many or none for discriminants (``local`` < 1), and none for ``new_classes``.
    scale : float or "auto", default="auto"
        Power of its root mean square by which each feature is divided before the ridge is added: 0 keeps the
        features as they are, 1 makes all of them equal. "auto" tries 0 and 0.5 for discriminants; the
        unsupervised form takes the better one.
    fit_intercept : bool or "auto", default="auto"
        Whether the map has an intercept. "auto" fits one for discriminants.
    margin : float, default=0.1
        Margin of the cosine in the rounds.
    new_classes : bool, default=False
        Whether the map is to embed classes that are not among those in y. The search then holds out each fifth of
        the classes, scores candidates by how well its rows find one another among all rows, the mean of recall at
        1 and MAP@R, and tries more values of ``local``, but neither rounds nor the unsupervised form.
    max_samples : int or None, default=None
        Largest number of training rows, drawn at random; None uses all.
    policy : SearchPolicy or None, default=None
        Limits and thresholds of the search; None is ``flrml.ridge.SearchPolicy()``.
    random_state : int, RandomState or None, default=None
        Seed for validation rows, random columns of the subspace and the rows of the rounds.
    verbose : int, default=0
        Print a line per candidate if positive.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map L.
    intercept_ : ndarray of shape (n_components,)
        The intercept, which is added to L x; zeros if none is fitted.
    weights_ : ndarray of shape (n_components,)
        Weight s of each direction; 0 if a direction is not useful.
    ridge_, within_, local_, scale_ : float
        The values used.
    fit_intercept_ : bool
        Whether an intercept was fitted.
    n_rounds_ : int
        The number of rounds used.
    best_params_ : dict
        ``ridge``, ``within``, ``local``, ``scale``, ``rounds`` and ``n_components`` as used.
    best_score_ : float
        Score of ``best_params_`` on validation rows, the accuracy of 5-NN, or the mean of recall at 1 and MAP@R
        with ``new_classes``; nan if all of them were given.
    cv_results_ : dict of ndarrays
        One entry per candidate: the chosen one first, the others by score. ``params`` is a list of dicts;
        ``param_ridge``, ``param_within`` and so on hold their values. ``mean_test_score`` is the score on
        validation rows and ``rank_test_score`` its rank. ``std_test_score`` is the standard deviation over folds,
        nan with a single fold. ``standard_error`` is that of the score, over groups.
    n_iter_ : int
        1 for the closed form and 1 for each round.
    history_ : ndarray of shape (n_rounds,)
        Mean hinge as a multiple of the margin, before every round, on the rows of the round; see
        :class:`flrml.metric.LowRankMetric`.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    flrml.FLRML : The paper's method, a descent on the SVD of the data.
    flrml.MFLRML : The paper's method from mini-batches.
    flrml.ridge.SearchPolicy : How the parameters are chosen.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from flrml import RidgeFLRML, knn_accuracy
    >>> X, y = load_digits(return_X_y=True)
    >>> X = normalize(X)
    >>> model = RidgeFLRML(n_components=30, random_state=0).fit(X[:1000], y[:1000])
    >>> accuracy = knn_accuracy(model.transform(X[:1000]), y[:1000], model.transform(X[1000:]), y[1000:])
    >>> bool(accuracy > 0.95)
    True
    """

    n_components: int | str = 100
    _: KW_ONLY
    ridge: float | str = "auto"
    within: float | str = "auto"
    local: float | str = "auto"
    rounds: int | str = "auto"
    scale: float | str = "auto"
    fit_intercept: bool | str = "auto"
    margin: float = 0.1
    new_classes: bool = False
    max_samples: int | None = None
    policy: SearchPolicy | None = None
    random_state: Any = None
    verbose: int = 0

    takes_dask = True
    _parameter_constraints: ClassVar[dict] = {
        "n_components": [POSITIVE_INTEGER, AUTO],
        "ridge": [POSITIVE_REAL, AUTO],
        "within": [UNIT_INTERVAL, AUTO],
        "local": [UNIT_INTERVAL, AUTO],
        "rounds": [Interval(Integral, 0, None, closed="left"), AUTO],
        "scale": [UNIT_INTERVAL, AUTO],
        "fit_intercept": ["boolean", AUTO],
        "margin": [POSITIVE_REAL],
        "new_classes": ["boolean"],
        "max_samples": [POSITIVE_INTEGER, None],
        "policy": [SearchPolicy, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        triplets: Any = None,
        groups: Any = None,
        callback: Callable[["RidgeFLRML"], None] | None = None,
    ) -> "RidgeFLRML":
        """Learn the map.

        Parameters
        ----------
        X : array-like, CSR matrix, BinaryRows or dask array of shape (n_samples, n_features)
            Training rows. float32 stays float32; a memory map is never copied whole.
        y : array-like or dask array of shape (n_samples,)
            Labels. Not needed with ``triplets``.
        triplets : array-like of shape (n_triplets, 3), default=None
            Row numbers (i, j, k), in place of labels; not for dask arrays.
        groups : array-like of shape (n_samples,), default=None
            Rows of one group show the same object, such as the poses of one model: they are not positives of one
            another in the rounds, and are held out together.
        callback : callable, default=None
            Called with this estimator after the closed form and after every round of the final solution;
            ``components_`` and ``transform`` are ready then.

        Returns
        -------
        RidgeFLRML
            This estimator.
        """
        if is_dask(X):
            from flrml.distributed import fit_ridge

            return fit_ridge(self, X, y, triplets, groups, callback)
        X = self._check_rows(X, reset=True, ensure_min_samples=3)
        random = check_random_state(self.random_state)
        supervision = self._check_supervision(X, y, triplets, groups)
        if self.max_samples is not None and self.max_samples < X.shape[0]:
            rows = supervision.draw(self.max_samples, random)
            X, supervision = take_rows(X, rows), supervision.subset(rows)
        with one_blas_thread():
            self._solve(X, supervision, random, callback)
        return self

    def _solve(
        self,
        X: Any,
        supervision: Contrasts,
        random: np.random.RandomState,
        callback: Callable[["RidgeFLRML"], None] | None,
    ) -> None:
        """Choose a candidate, solve it on all rows, and keep the map."""
        policy = SearchPolicy() if self.policy is None else self.policy
        settings = Settings(
            policy.max_components if self.n_components == "auto" else int(self.n_components),
            None if self.fit_intercept == "auto" else bool(self.fit_intercept),
            self.margin,
        )
        given = {name: getattr(self, name) for name in SEARCHED}
        scaled = functools.cache(lambda basis: scaled_for(X, basis, settings))
        trials = select(X, scaled, supervision, settings, given, random, policy=policy, report=self._report)
        self._set_choice(trials)
        candidate = trials[0].candidate
        rows = scaled(candidate.basis)
        solver = Solver(rows, supervision, None, candidate.form.unsupervised, settings, random)
        self.fit_intercept_ = rows.constant > 0

        def set_map(C: NDArray, weights: NDArray, hinges: list[float]) -> None:
            L_transposed, intercept = solver.lift(C)
            signs = column_signs(L_transposed)
            L_transposed *= signs
            self.weights_, self.intercept_ = weights.astype(X.dtype), (intercept * signs).astype(X.dtype)
            self._set_result(L_transposed.astype(X.dtype, copy=False).T, hinges, 1 + len(hinges))
            if callback is not None:
                callback(self)

        found = solver.solve(candidate, random, None if callback is None else set_map)
        if callback is None:
            set_map(*found)

    def _check_supervision(self, X: Any, y: Any, triplets: Any, groups: Any) -> Supervision:
        """Return the given triplets, else the labels, as supervision."""
        groups = self._check_groups(X, groups)
        if triplets is not None:
            if self.new_classes:
                raise ValueError("new_classes=True holds out classes; give y in place of triplets")
            return Triplets(check_triplets(triplets, X.shape[0]), X.shape[0], groups)
        labels = self._labels_type(self._check_labels(X, y), groups)
        check_classes(
            labels.n_classes, np.unique(labels.label[labels.anchors]).size, groups is not None, self.new_classes
        )
        return labels

    @property
    def _labels_type(self) -> type[Labels]:
        return NewClasses if self.new_classes else Labels

    def _set_choice(self, trials: list[Trial]) -> None:
        """Keep the first of the trials as the choice, and the scores of all."""
        params = [trial.params for trial in trials]
        self.best_params_, self.best_score_ = params[0], trials[0].score
        self.ridge_, self.within_, self.local_, self.scale_, self.n_rounds_, _ = params[0].values()
        scores = np.array([trial.score for trial in trials])
        self.cv_results_ = {
            "params": params,
            **{f"param_{name}": np.array([each[name] for each in params]) for name in SEARCHED},
            "mean_test_score": scores,
            "std_test_score": np.array([trial.fold_std for trial in trials]),
            "rank_test_score": 1 + np.array([int(np.sum(scores > score)) for score in scores]),
            "standard_error": np.array([trial.standard_error for trial in trials]),
        }

    def _report(self, trial: Trial) -> None:
        c = trial.candidate
        self._log(
            f"ridge {c.ridge:.3g}, within {c.form.within}, local {c.form.local}, scale {c.scale}, "
            f"rounds {c.rounds}, {c.n_components} directions: {trial.score:.4f} ± {trial.standard_error:.4f}"
        )


def check_classes(n_classes: int, with_positives: int, has_groups: bool, new_classes: bool) -> None:
    """Raise ValueError if labels give no triplets, or too few classes have positives to hold some out."""
    if n_classes == 1:
        raise ValueError("y has 1 class: at least two classes are needed, so that every sample has a negative")
    if not with_positives:
        place = "of its class outside its group" if has_groups else "in its class"
        raise ValueError(f"no sample has another one {place}, so none has a positive")
    if new_classes and with_positives < MIN_NEW_CLASSES:
        raise ValueError(
            f"new_classes=True holds out a part of the classes, but y has {with_positives} with two "
            f"{'groups' if has_groups else 'rows'} or more; give at least {MIN_NEW_CLASSES}, or new_classes=False"
        )
