"""FLRML: low-rank metric learning on the SVD of the data, as a scikit-learn estimator."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from flrml import ridge, search, stiefel
from flrml.exceptions import SpectrumError
from flrml.loss import MarginLoss
from flrml.metric import FLRML_RANGES, LowRankMetric
from flrml.rows import in_blocks
from flrml.spectrum import Spectrum, decompose
from flrml.supervision import Supervision
from flrml.triplets import contrast_matrix, triplet_counts


class FLRML(LowRankMetric):
    """Fast low-rank metric learning.

    Learns a linear map L (d × D) such that the cosine of L x and L x' tells how alike two samples are, from
    triplets (i, j, k) that say that i is more like j than like k. L is sought among the maps that whiten the
    data and keep d weighted directions of them; the directions are found by a descent over matrices with
    orthonormal columns.

    Rows of X should have unit length (:class:`sklearn.preprocessing.Normalizer`); rows of zeros are allowed.

    Parameters
    ----------
    n_components : int, default 100
        Number of directions d. Where the data have a lower rank, that many are learned, with a warning.
    margin_ratio : float, default 1.0
        Margin of the hinge as a multiple of the mean squared length of the embeddings; of the ridge variant, of
        a cosine of 0.1.
    n_triplets : int, default 5
        Random triplets per sample, where labels are given. The ridge variant takes them all, in expectation.
    variant : {"paper", "reference", "ridge"}, default "paper"
        ``"paper"`` descends on one consistent objective. ``"reference"`` follows the code that the authors of
        the method published, whose line search stops after a few iterations and which takes each sample's mean
        off before the SVD; the accuracies in their paper are this variant's. ``"ridge"`` whitens no more than the
        data bear, takes triplets in expectation, solves in closed form, and refines by rounds; see
        :mod:`flrml.ridge`.
    ridge : float or "auto", default "auto"
        Of the ridge variant: γ = ridge × mean σ² is added to the squared singular values before whitening. Close
        to 0, the data are whitened; a large one keeps their own geometry.
    within : float or "auto", default "auto"
        Of the ridge variant: share ω of the scatter between classes that does not count when the data are whitened.
        0 whitens by the total scatter, 1 by the scatter within classes.
    local : float or "auto", default "auto"
        Of the ridge variant: share β of positives that are the sample itself, the nearest of all. 0 knows only
        classes and has no more directions than those, 1 knows no labels.
    rounds : int or "auto", default "auto"
        Of the ridge variant: how often neighbours are sought in the learned metric, and the map moved along the
        triplets inside the margin. What is ``"auto"`` is chosen by 5-NN on a fifth of the rows;
        of fewer than 2,000 rows, on each fifth in turn.
    init : {"top", "random"}, default "top"
        Start in the d leading singular directions, randomly rotated, or in random ones.
    max_rank : int, default 3000
        Largest rank of the SVD.
    max_iter : int, default 20
        Largest number of iterations.
    tol : float, default 1e-3
        Relative change of the objective below which the descent stops.
    random_state : int, RandomState or None
        Seed for triplets and start.
    verbose : int, default 0
        Print a line per iteration where it is positive.

    Attributes
    ----------
    components_ : ndarray of shape (d, D)
        The map L.
    weights_ : ndarray of shape (d,)
        Weight s of each direction; of the ridge variant 0 where a direction is of no use.
    n_iter_ : int
        Iterations done; of the ridge variant, 1 for the closed form and 1 for each round.
    history_ : ndarray of shape (n_iter_ + 1,)
        Objective at the start and after every iteration. Of the ridge variant, of shape (n_iter_ - 1,): the
        mean hinge before every round, as a multiple of the margin.
    choice_ : Choice
        Of the ridge variant: the ridge, the shares and the number of rounds used, and their score on the rows that
        were held out.
    search_ : list of Choice
        Of the ridge variant: everything that was tried on them, best first.
    spectrum_ : Spectrum
        The SVD, without reference to X; pass it to another fit on the same data to save time.
    n_features_in_ : int
        Number of features D.

    See Also
    --------
    MFLRML : The same model from mini-batches, for data that are too large for an SVD.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from flrml import FLRML, knn_accuracy
    >>> X, y = load_digits(return_X_y=True)
    >>> X = normalize(X)
    >>> model = FLRML(n_components=20, random_state=0).fit(X[:1000], y[:1000])
    >>> accuracy = knn_accuracy(model.transform(X[:1000]), y[:1000], model.transform(X[1000:]), y[1000:])
    >>> bool(accuracy > 0.9)
    True
    """

    _parameter_constraints = FLRML_RANGES | {
        "init": [StrOptions({"top", "random"})],
        "max_rank": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components: int = 100,
        *,
        margin_ratio: float = 1.0,
        n_triplets: int = 5,
        variant: str = "paper",
        ridge: float | str = "auto",
        within: float | str = "auto",
        local: float | str = "auto",
        rounds: int | str = "auto",
        init: str = "top",
        max_rank: int = 3000,
        max_iter: int = 20,
        tol: float = 1e-3,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.margin_ratio = margin_ratio
        self.n_triplets = n_triplets
        self.variant = variant
        self.ridge = ridge
        self.within = within
        self.local = local
        self.rounds = rounds
        self.init = init
        self.max_rank = max_rank
        self.max_iter = max_iter
        self.tol = tol
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
        callback: Callable[["FLRML"], None] | None = None,
    ) -> "FLRML":
        """Learn the map.

        Parameters
        ----------
        X : array-like, CSR matrix, BinaryRows or dask array of shape (n, D)
            Training rows. float32 stays float32; a memory map is never copied whole.
        y : array-like of shape (n,)
            Labels, from which triplets are drawn. Not needed with ``triplets``.
        triplets : array-like of shape (m, 3), optional
            Row numbers (i, j, k).
        spectrum : Spectrum, optional
            The decomposition of X, from :func:`flrml.decompose` or an earlier fit.
        groups : array-like of shape (n,), optional
            Rows of one group show the same thing, as the poses of one model do. The ridge variant then takes its
            positives from other groups and holds out whole groups; the other variants do not use them.
        callback : callable, optional
            Called with this estimator at the start of the descent and after every iteration; ``components_`` and
            ``transform`` are ready then. The ridge variant does not descend and does not call it.
        """
        if in_blocks(X):
            from flrml.distributed import fit_flrml

            self._check_in_blocks()
            return fit_flrml(self, X, y, triplets, spectrum)
        X = self._check_rows(X, reset=True, ensure_min_samples=3)
        random = check_random_state(self.random_state)
        if self.variant == "ridge":
            return self._fit_ridge(X, self._supervision(X, y, triplets, groups), spectrum, random)
        T = self._triplets(X, y, triplets, random)
        spectrum = self._spectrum(X, spectrum, random)
        d = self._directions(spectrum.rank, f"the rank {spectrum.rank} of the data")

        contrasts = contrast_matrix(*triplet_counts(T, X.shape[0], X.dtype))
        reference = self.variant == "reference"
        loss = MarginLoss(spectrum, contrasts, self.margin_ratio, reference=reference, random=random)
        P, E = self._start(spectrum, d, random)
        loss.start(E)

        def keep(P: NDArray) -> None:
            self.weights_ = loss.s
            self.components_ = spectrum.lift((P * np.sqrt(loss.s)).astype(X.dtype)).T

        def after_iteration(iteration: int, state: stiefel.Minimum) -> None:
            self._report(iteration, state)
            if callback is not None:
                keep(state.P)
                callback(self)

        if callback is not None:
            keep(P)
            callback(self)
        found = stiefel.minimize(loss, P, E=E, max_iter=self.max_iter, tol=self.tol, callback=after_iteration)
        keep(found.P)
        self.n_iter_ = len(found.steps)
        self.history_ = np.array(found.values)
        self.spectrum_ = spectrum.unbind()
        return self

    def _fit_ridge(
        self, X: Any, known: Supervision, spectrum: Spectrum | None, random: np.random.RandomState
    ) -> "FLRML":
        spectrum = self._spectrum(X, spectrum, random)
        d = self._directions(spectrum.rank, f"the rank {spectrum.rank} of the data")
        margin, open_choices = ridge.MARGIN * self.margin_ratio, search.Candidates.of(self)
        self.search_ = search.choose(
            spectrum, known, d, margin, random, open_choices, report=lambda choice: self._say(str(choice))
        )
        self.choice_ = self.search_[0]
        learned = ridge.learn(spectrum, known, d, self.choice_, margin, random)
        self.weights_ = learned.s
        self.components_ = learned.L_transposed.T
        self.n_iter_ = 1 + self.choice_.rounds
        self.history_ = np.array(learned.hinges)
        self.spectrum_ = spectrum.unbind()
        return self

    def _spectrum(self, X: Any, spectrum: Spectrum | None, random: np.random.RandomState) -> Spectrum:
        centred = self.variant == "reference"
        if spectrum is None:
            self._say(f"decomposing {X.shape[0]} × {X.shape[1]}")
            return decompose(X, self.max_rank, centred=centred, random_state=random)
        if spectrum.settings["centred"] != centred:
            raise SpectrumError(
                f"variant={self.variant!r} needs a spectrum made with centred={centred}, "
                f"got one with centred={spectrum.settings['centred']}"
            )
        return spectrum if spectrum.X is X else spectrum.bind(X)

    def _start(self, spectrum: Spectrum, d: int, random: np.random.RandomState) -> tuple[NDArray, NDArray]:
        dtype = spectrum.basis.dtype
        if self.init == "random":
            P = stiefel.random_point(spectrum.rank, d, random)
            return P, spectrum @ P.astype(dtype)
        rotation = stiefel.random_point(d, d, random)
        P = np.vstack((rotation, np.zeros((spectrum.rank - d, d))))
        return P, spectrum.top(rotation.astype(dtype))

    def _report(self, iteration: int, state: stiefel.Minimum) -> None:
        self._say(
            f"iteration {iteration}/{self.max_iter}: objective {state.values[-1]:.6g}, step {state.steps[-1]:.2g}"
        )
