"""RidgeFLRML as a scikit-learn estimator."""

import functools
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from flrml.metric import POSITIVE_INTEGER, POSITIVE_REAL, LowRankMetric
from flrml.ridge.selection import Trial, mean, select
from flrml.ridge.solver import Settings, Solver, scaled_for
from flrml.ridge.supervision import Contrasts, Labels, Supervision, Triplets
from flrml.rows import is_dask, take_rows
from flrml.spectrum import column_signs
from flrml.threads import one_blas_thread
from flrml.triplets import check_triplets

SHARE = Interval(Real, 0, 1, closed="both")
AUTO = StrOptions({"auto"})


class RidgeFLRML(LowRankMetric):
    """Low-rank metric learning with ridge whitening, solved in closed form.

    The model is that of :class:`flrml.FLRML`, fitted differently: the data are whitened no more than they can
    bear, triplets count in expectation instead of being drawn, the directions come from an eigenproblem, and
    rounds of nearest neighbours can refine them. The data enter through products with X alone: no decomposition is
    needed. Parameters left at ``"auto"`` are chosen by 5-NN on held-out rows.

    Rows of X should have unit length (:class:`sklearn.preprocessing.Normalizer`); rows of zeros are allowed.

    Parameters
    ----------
    n_components : int, default 100
        Number of directions d; at most the rank of the data.
    ridge : float or "auto", default "auto"
        γ = ridge × the mean square of a row (its squared length, of features as scaled) is added to the squared
        singular values before whitening. Close to 0, the data are whitened; a large one keeps their own geometry.
    within : float or "auto", default "auto"
        Share ω of the scatter between classes that does not count when the data are whitened. 0 whitens by the
        total scatter, 1 by the scatter within classes.
    local : float or "auto", default "auto"
        Share β of positives that are the sample itself, the nearest of all. 0 uses classes alone and has no more
        directions than those, 1 uses no labels.
    rounds : int or "auto", default "auto"
        Number of rounds, each of which finds neighbours in the learned metric and moves the map along the triplets
        inside the margin. "auto" tries none and 10; of more than 10,000 groups, up to 30 are made.
    scale : float or "auto", default "auto"
        Power of its root mean square by which each feature is divided before the ridge is added: 0 takes features
        as they are, 1 makes all of them equal. "auto" is 0.5 for discriminants (``local`` < 1), and 0 for the
        data's own geometry (``local`` = 1).
    offset : bool or "auto", default "auto"
        Whether the map has an offset. "auto" uses one for discriminants.
    margin : float, default 0.1
        Margin of the cosine in the rounds.
    max_samples : int or None, default None
        Largest number of rows to learn from, drawn at random; None uses all.
    random_state : int, RandomState or None
        Seed for held-out rows, random columns of the subspace and the rows of the rounds.
    verbose : int, default 0
        Print a line per candidate if positive.

    Attributes
    ----------
    components_ : ndarray of shape (d, D)
        The map L.
    offset_ : ndarray of shape (d,)
        The offset, which is added to L x; zeros if none is used.
    weights_ : ndarray of shape (d,)
        Weight s of each direction; 0 if a direction is of no use.
    ridge_, within_, local_, scale_ : float
        The values used.
    n_rounds_ : int
        The number of rounds used.
    best_score_ : float
        Accuracy on held-out rows of the values used; nan if nothing had to be chosen.
    cv_results_ : dict of ndarrays
        ``ridge``, ``within``, ``local``, ``rounds``, ``score``, ``std_error`` and ``support``, the share of
        neighbours of the right class, of every candidate: the chosen one first, the others by score.
    n_iter_ : int
        1 for the closed form and 1 for each round.
    history_ : ndarray of shape (rounds,)
        Mean hinge before every round, as a multiple of the margin.
    n_features_in_ : int
        Number of features D.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from flrml import RidgeFLRML, knn_accuracy
    >>> X, y = load_digits(return_X_y=True)
    >>> X = normalize(X)
    >>> model = RidgeFLRML(n_components=20, random_state=0).fit(X[:1000], y[:1000])
    >>> accuracy = knn_accuracy(model.transform(X[:1000]), y[:1000], model.transform(X[1000:]), y[1000:])
    >>> bool(accuracy > 0.95)
    True
    """

    takes_dask = True
    _parameter_constraints: ClassVar[dict] = {
        "n_components": [POSITIVE_INTEGER],
        "ridge": [POSITIVE_REAL, AUTO],
        "within": [SHARE, AUTO],
        "local": [SHARE, AUTO],
        "rounds": [Interval(Integral, 0, None, closed="left"), AUTO],
        "scale": [SHARE, AUTO],
        "offset": ["boolean", AUTO],
        "margin": [POSITIVE_REAL],
        "max_samples": [POSITIVE_INTEGER, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_components: int = 100,
        *,
        ridge: float | str = "auto",
        within: float | str = "auto",
        local: float | str = "auto",
        rounds: int | str = "auto",
        scale: float | str = "auto",
        offset: bool | str = "auto",
        margin: float = 0.1,
        max_samples: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.ridge = ridge
        self.within = within
        self.local = local
        self.rounds = rounds
        self.scale = scale
        self.offset = offset
        self.margin = margin
        self.max_samples = max_samples
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, triplets: Any = None, groups: Any = None) -> "RidgeFLRML":
        """Learn the map.

        Parameters
        ----------
        X : array-like, CSR matrix, BinaryRows or dask array of shape (n, D)
            Training rows. float32 stays float32; a memory map is never copied whole.
        y : array-like or dask array of shape (n,)
            Labels. Not needed with ``triplets``.
        triplets : array-like of shape (m, 3), optional
            Row numbers (i, j, k), in place of labels; not for dask arrays.
        groups : array-like of shape (n,), optional
            Rows of one group show the same object, such as the poses of one model: they are not positives of one
            another in the rounds, and are held out together.
        """
        if is_dask(X):
            from flrml.distributed import fit_ridge

            return fit_ridge(self, X, y, triplets, groups)
        X = self._check_rows(X, reset=True, ensure_min_samples=3)
        random = check_random_state(self.random_state)
        supervision = self._check_supervision(X, y, triplets, groups)
        if self.max_samples is not None and self.max_samples < X.shape[0]:
            rows = supervision.draw(self.max_samples, random)
            X, supervision = take_rows(X, rows), supervision.subset(rows)
        with one_blas_thread():
            self._solve(X, supervision, random)
        return self

    def _solve(self, X: Any, supervision: Contrasts, random: np.random.RandomState) -> None:
        """Choose a candidate, solve it on all rows, and keep the map."""
        settings = Settings(
            self.n_components,
            None if self.scale == "auto" else float(self.scale),
            None if self.offset == "auto" else bool(self.offset),
            self.margin,
        )
        given = {name: getattr(self, name) for name in ("ridge", "within", "local", "rounds")}
        scaled = functools.cache(lambda own: scaled_for(X, own, settings))
        trials = select(X, scaled, supervision, settings, given, random, self._report)
        self._set_choice(trials)
        candidate = trials[0].candidate
        own = candidate.form.local == 1
        solver = Solver(scaled(own), supervision, None, own, settings, random)
        rank = solver.plane.rank
        self._check_directions(self.n_components, rank, f"the {rank} directions of the data")
        C, weights, hinges = solver.solve(candidate, random)
        self.scale_, self.weights_ = scaled(own).scale, weights.astype(X.dtype)
        L_transposed, offset = solver.lift(C)
        signs = column_signs(L_transposed)
        self.offset_: NDArray = (offset * signs).astype(X.dtype)
        L_transposed *= signs
        self._set_result(L_transposed.astype(X.dtype, copy=False).T, hinges, 1 + candidate.rounds)

    def _check_supervision(self, X: Any, y: Any, triplets: Any, groups: Any) -> Supervision:
        """Return the given triplets, else the labels, as supervision."""
        groups = self._check_groups(X, groups)
        if triplets is not None:
            return Triplets(check_triplets(triplets, X.shape[0]), X.shape[0], groups)
        labels = Labels(self._check_labels(X, y), groups)
        check_classes(labels.label.max() + 1, len(labels.anchors) > 0, groups is not None)
        return labels

    def _set_choice(self, trials: list[Trial]) -> None:
        """Keep the first of the trials as the choice, and the scores of all."""
        candidates = [trial.candidate for trial in trials]
        self.ridge_, self.n_rounds_ = candidates[0].ridge, candidates[0].rounds
        self.within_, self.local_ = candidates[0].form.within, candidates[0].form.local
        self.best_score_ = trials[0].score
        self.cv_results_ = {
            "ridge": np.array([candidate.ridge for candidate in candidates]),
            "within": np.array([candidate.form.within for candidate in candidates]),
            "local": np.array([candidate.form.local for candidate in candidates]),
            "rounds": np.array([candidate.rounds for candidate in candidates]),
            "score": np.array([trial.score for trial in trials]),
            "std_error": np.array([trial.std_error for trial in trials]),
            "support": np.array([mean(trial.support) for trial in trials]),
        }

    def _report(self, trial: Trial) -> None:
        c = trial.candidate
        self._log(
            f"ridge {c.ridge:.3g}, within {c.form.within}, local {c.form.local}, rounds {c.rounds}: "
            f"{trial.score:.4f} ± {trial.std_error:.4f}"
        )


def check_classes(n_classes: int, has_positives: bool, has_groups: bool) -> None:
    """Raise ValueError if labels give no triplets."""
    if n_classes == 1:
        raise ValueError("y has 1 class: at least two classes are needed, so that every sample has a negative")
    if not has_positives:
        where = "of its class outside its group" if has_groups else "in its class"
        raise ValueError(f"no sample has another one {where}, so none has a positive")
