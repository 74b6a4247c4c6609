"""RidgeFLRML as a scikit-learn estimator."""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from flrml.metric import POSITIVE_INTEGER, POSITIVE_REAL, LowRankMetric
from flrml.ridge.plane import Choice, learn
from flrml.ridge.selection import Candidates, choose
from flrml.ridge.supervision import Labels, Supervision, Triplets
from flrml.spectrum import Spectrum, decompose
from flrml.triplets import check_triplets

SHARE = Interval(Real, 0, 1, closed="both")
AUTO = StrOptions({"auto"})


class RidgeMetric(LowRankMetric):
    """Common parts of RidgeFLRML and its mini-batch form: the supervision, and how a choice is shown."""

    _parameter_constraints: ClassVar[dict] = {
        "n_components": [POSITIVE_INTEGER],
        "ridge": [POSITIVE_REAL, AUTO],
        "within": [SHARE, AUTO],
        "local": [SHARE, AUTO],
        "rounds": [Interval(Integral, 0, None, closed="left"), AUTO],
        "margin": [POSITIVE_REAL],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    ridge: float | str
    within: float | str
    local: float | str
    rounds: int | str

    def _check_supervision(self, X: Any, y: Any, triplets: Any, groups: Any) -> Supervision:
        """Return the given triplets, else the labels, as supervision."""
        groups = self._check_groups(X, groups)
        if triplets is not None:
            return Triplets(check_triplets(triplets, X.shape[0]), X.shape[0], groups)
        labels = Labels(np.unique(self._check_labels(X, y), return_inverse=True)[1], groups)
        if labels.label.max() == 0:
            raise ValueError("y has 1 class: at least two classes are needed, so that every sample has a negative")
        if len(labels.anchors) == 0:
            where = "in its class" if groups is None else "of its class outside its group"
            raise ValueError(f"no sample has another one {where}, so none has a positive")
        return labels

    def _candidates(self) -> Candidates:
        return Candidates.of(self.ridge, self.within, self.local, self.rounds)

    def _set_choice(self, tried: list[Choice]) -> Choice:
        """Keep the first of the choices, and the scores of all."""
        best = tried[0]
        self.ridge_, self.within_, self.local_ = best.ridge, best.form.within, best.form.local
        self.n_rounds_, self.best_score_ = best.rounds, best.score
        self.cv_results_ = {
            "ridge": np.array([choice.ridge for choice in tried]),
            "within": np.array([choice.form.within for choice in tried]),
            "local": np.array([choice.form.local for choice in tried]),
            "rounds": np.array([choice.rounds for choice in tried]),
            "score": np.array([choice.score for choice in tried]),
        }
        return best


class RidgeFLRML(RidgeMetric):
    """Low-rank metric learning with ridge whitening, solved in closed form.

    The model is that of :class:`flrml.FLRML`, fitted differently: the data are whitened no more than they can
    bear, triplets count in expectation instead of being drawn, the directions come from an eigenproblem, and
    rounds of nearest neighbours refine them. Parameters left at ``"auto"`` are chosen by 5-NN on held-out rows.

    Rows of X should have unit length (:class:`sklearn.preprocessing.Normalizer`); rows of zeros are allowed.

    Parameters
    ----------
    n_components : int, default 100
        Number of directions d; at most the rank of the data.
    ridge : float or "auto", default "auto"
        γ = ridge × mean σ² is added to the squared singular values before whitening. Close to 0, the data are
        whitened; a large one keeps their own geometry.
    within : float or "auto", default "auto"
        Share ω of the scatter between classes that does not count when the data are whitened. 0 whitens by the
        total scatter, 1 by the scatter within classes.
    local : float or "auto", default "auto"
        Share β of positives that are the sample itself, the nearest of all. 0 uses classes alone and has no more
        directions than those, 1 uses no labels.
    rounds : int or "auto", default "auto"
        Number of rounds, each of which finds neighbours in the learned metric and moves the map along the triplets
        inside the margin.
    margin : float, default 0.1
        Margin of the cosine in the rounds.
    max_rank : int, default 3000
        Largest rank of the SVD.
    random_state : int, RandomState or None
        Seed for the held-out rows and the rows of the rounds.
    verbose : int, default 0
        Print a line per candidate if positive.

    Attributes
    ----------
    components_ : ndarray of shape (d, D)
        The map L.
    weights_ : ndarray of shape (d,)
        Weight s of each direction; 0 if a direction is of no use.
    ridge_, within_, local_ : float
        The values used.
    n_rounds_ : int
        The number of rounds used.
    best_score_ : float
        Accuracy on held-out rows of the values used; nan if nothing had to be chosen.
    cv_results_ : dict of ndarrays
        ``ridge``, ``within``, ``local``, ``rounds`` and ``score`` of every candidate, best first.
    n_iter_ : int
        1 for the closed form and 1 for each round.
    history_ : ndarray of shape (n_rounds_,)
        Mean hinge before every round, as a multiple of the margin.
    spectrum_ : Spectrum
        The SVD, without reference to X; pass it to another fit on the same data to save time.
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

    _parameter_constraints: ClassVar[dict] = RidgeMetric._parameter_constraints | {"max_rank": [POSITIVE_INTEGER]}

    def __init__(
        self,
        n_components: int = 100,
        *,
        ridge: float | str = "auto",
        within: float | str = "auto",
        local: float | str = "auto",
        rounds: int | str = "auto",
        margin: float = 0.1,
        max_rank: int = 3000,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.ridge = ridge
        self.within = within
        self.local = local
        self.rounds = rounds
        self.margin = margin
        self.max_rank = max_rank
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        triplets: Any = None,
        spectrum: Spectrum | None = None,
        groups: Any = None,
    ) -> "RidgeFLRML":
        """Learn the map.

        Parameters
        ----------
        X : array-like, CSR matrix or BinaryRows of shape (n, D)
            Training rows. float32 stays float32; a memory map is never copied whole.
        y : array-like of shape (n,)
            Labels. Not needed with ``triplets``.
        triplets : array-like of shape (m, 3), optional
            Row numbers (i, j, k), in place of labels.
        spectrum : Spectrum, optional
            The decomposition of X, from :func:`flrml.decompose` or an earlier fit.
        groups : array-like of shape (n,), optional
            Rows of one group show the same object, such as the poses of one model: they are not positives of one
            another, and are held out together.
        """
        X = self._check_rows(X, reset=True, ensure_min_samples=3)
        random = check_random_state(self.random_state)
        supervision = self._check_supervision(X, y, triplets, groups)
        if spectrum is None:
            self._log(f"decomposing {X.shape[0]} × {X.shape[1]}")
            spectrum = decompose(X, self.max_rank, random_state=random)
        elif not spectrum.is_bound_to(X):
            spectrum = spectrum.bind(X)
        d = self._check_directions(self.n_components, spectrum.rank, f"the rank {spectrum.rank} of the data")
        tried = choose(
            spectrum,
            supervision,
            d,
            self.margin,
            random,
            self._candidates(),
            report=lambda choice: self._log(str(choice)),
        )
        learned = learn(spectrum, supervision, d, self._set_choice(tried), self.margin, random)
        self.weights_: NDArray = learned.s
        self._set_result(learned.L_transposed.T, learned.hinges, 1 + self.n_rounds_)
        self.spectrum_ = spectrum.unbind()
        return self
