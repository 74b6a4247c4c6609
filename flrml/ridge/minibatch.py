"""RidgeMFLRML: the mini-batch form of RidgeFLRML, as a scikit-learn estimator."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from threadpoolctl import threadpool_limits

from flrml.metric import POSITIVE_INTEGER
from flrml.minibatch import MFLRML, read_batch
from flrml.ridge.estimator import RidgeMetric
from flrml.ridge.plane import batch_step, learn
from flrml.ridge.selection import choose
from flrml.ridge.supervision import Supervision, unit_rows
from flrml.rows import add_product_transposed, gram, product
from flrml.spectrum import decompose


class RidgeMFLRML(RidgeMetric, MFLRML):
    """Low-rank metric learning with ridge whitening from mini-batches.

    A first batch of up to ``start_rows`` rows is solved as by :class:`flrml.RidgeFLRML`; every further batch moves
    the map by a step along the triplets inside the margin.

    Parameters
    ----------
    n_components : int, default 100
        Number of directions d; at most the number of rows or columns of X.
    ridge, within, local, rounds : number or "auto", default "auto"
        As for :class:`flrml.RidgeFLRML`; ``"auto"`` is chosen within the first batch.
    margin : float, default 0.1
        Margin of the cosine.
    n_triplets : int, default 5
        Random triplets per sample, from which batches are drawn.
    batch_triplets : int, default 80
        Triplets per mini-batch. Their samples form the batch, filled up with random others to d + 10.
    n_batches : int, default 20
        Mini-batches in one fit.
    start_rows : int, default 2000
        Largest number of rows of the first batch.
    random_state : int, RandomState or None
        Seed for batches and held-out rows.
    verbose : int, default 0
        Print a line per mini-batch if positive.

    Attributes
    ----------
    components_ : ndarray of shape (d, D)
        The map L.
    weights_ : ndarray of shape (d,)
        Weight of each direction.
    ridge_, within_, local_, n_rounds_, best_score_, cv_results_
        As for :class:`flrml.RidgeFLRML`, of the first batch.
    n_iter_ : int
        Mini-batches seen.
    history_ : ndarray of shape (n_iter_,)
        Mean hinge of each mini-batch as a multiple of the margin: of the first after its step, of others before it.
    n_features_in_ : int
        Number of features D.
    """

    _parameter_constraints: ClassVar[dict] = RidgeMetric._parameter_constraints | {
        "n_triplets": [POSITIVE_INTEGER],
        "batch_triplets": [POSITIVE_INTEGER],
        "n_batches": [POSITIVE_INTEGER],
        "start_rows": [POSITIVE_INTEGER],
    }

    def __init__(
        self,
        n_components: int = 100,
        *,
        ridge: float | str = "auto",
        within: float | str = "auto",
        local: float | str = "auto",
        rounds: int | str = "auto",
        margin: float = 0.1,
        n_triplets: int = 5,
        batch_triplets: int = 80,
        n_batches: int = 20,
        start_rows: int = 2000,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.ridge = ridge
        self.within = within
        self.local = local
        self.rounds = rounds
        self.margin = margin
        self.n_triplets = n_triplets
        self.batch_triplets = batch_triplets
        self.n_batches = n_batches
        self.start_rows = start_rows
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        triplets: Any = None,
        groups: Any = None,
        callback: Callable[["RidgeMFLRML"], None] | None = None,
    ) -> "RidgeMFLRML":
        """Learn the map from ``n_batches`` mini-batches; see :meth:`flrml.RidgeFLRML.fit` for the arguments."""
        return self._fit_ridge(X, y, triplets, groups, self.n_batches, callback, reset=True)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None, *, triplets: Any = None, groups: Any = None) -> "RidgeMFLRML":
        """Learn from one more mini-batch, drawn from the given rows."""
        return self._fit_ridge(X, y, triplets, groups, 1, None, reset=not hasattr(self, "n_iter_"))

    def _fit_ridge(self, X, y, triplets, groups, n_batches, callback, *, reset) -> "RidgeMFLRML":
        X = self._check_rows(X, reset=reset, lazy=True, ensure_min_samples=3)
        if reset:
            self._initialize(X.shape, X.dtype)
        T = self._check_triplets(X, y, triplets, self.n_triplets, self._random)
        supervision = self._check_supervision(X, y, triplets, groups)
        for batch in range(n_batches):
            if self.n_iter_ == 0:
                rows = supervision.draw(self.start_rows, self._random)
                self._solve_first(read_batch(X, rows), supervision.subset(rows))
            else:
                rows = self._draw_batch(T, X.shape[0])
                with threadpool_limits(1, user_api="blas"):
                    self._move(read_batch(X, rows), supervision.subset(rows))
            self._log(f"mini-batch {batch + 1}/{n_batches}: mean hinge {self.history_[-1]:.4g} margins")
            if callback is not None:
                self._set_map()
                callback(self)
        self._set_map()
        return self

    def _solve_first(self, X: Any, supervision: Supervision) -> None:
        """Solve a first, larger batch in closed form and by rounds."""
        spectrum = decompose(X, random_state=self._random)
        d = min(self._map.shape[1], spectrum.rank)
        tried = choose(spectrum, supervision, d, self.margin, self._random, self._candidates())
        learned = learn(spectrum, supervision, d, self._set_choice(tried), self.margin, self._random)
        self._map[:, : learned.L_transposed.shape[1]] = learned.L_transposed
        self.weights_ = learned.s
        self.n_iter_ = 1
        self.history_ = np.array([supervision.active_pairs(unit_rows(product(X, self._map)), self.margin)[-1]])

    def _move(self, X: Any, supervision: Supervision) -> None:
        """Move the map along the triplets of a batch that are inside the margin."""
        Y = product(X, self._map).astype(np.float64)
        step = batch_step(gram(X), supervision, Y, self.ridge_, self.margin)
        add_product_transposed(self._map, X, (step.C / np.sqrt(self.n_iter_)).astype(self._map.dtype))
        self.weights_ = np.einsum("ij,ij->j", self._map, self._map)
        self.n_iter_ += 1
        self.history_ = np.append(self.history_, step.hinge)
