"""M-FLRML: the same model from mini-batches, as a scikit-learn estimator."""

import functools
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from threadpoolctl import threadpool_limits

from flrml import ridge, search, stiefel
from flrml.loss import softplus
from flrml.metric import FLRML_RANGES, LowRankMetric
from flrml.rows import add_product_transposed, gram, in_blocks, product, row_means
from flrml.spectrum import RELATIVE_CUT, column_signs, decompose
from flrml.supervision import Supervision
from flrml.triplets import contrast_matrix, triplet_counts

PADDING = 10  # a mini-batch has at least so many samples more than directions


class MFLRML(LowRankMetric):
    """Fast low-rank metric learning from mini-batches.

    Each step reads a few hundred rows of X, so X may be larger than memory; beside the batch only the D × d map
    is held. A step decomposes the batch, makes one projected gradient step there, and averages the outcome into
    the map with weight 1/√(number of the step).

    Rows of X should have unit length; rows of zeros are allowed.

    Parameters
    ----------
    n_components : int, default 100
        Number of directions d. Where X has fewer rows or columns, that many are learned, with a warning.
    margin_ratio : float, default 1.0
        Margin of the hinge as a multiple of the mean squared length of the batch's embeddings; of the ridge
        variant, of a cosine of 0.1.
    n_triplets : int, default 5
        Random triplets per sample, where labels are given.
    variant : {"paper", "reference", "ridge"}, default "paper"
        ``"reference"`` follows the code that the authors of the method published: every sample counts as inside
        the margin, and each sample's mean is taken off before a batch is decomposed. ``"ridge"`` solves a first
        batch of up to 2,000 rows as :class:`FLRML` does with this variant; every further batch moves the map by
        a step along the triplets inside the margin.
    ridge, within, local, rounds : number or "auto", default "auto"
        Of the ridge variant, as for :class:`FLRML`; ``"auto"`` is chosen within the first batch.
    batch_triplets : int, default 80
        Triplets per mini-batch. Their samples form the batch, filled up with random others to d + 10.
    n_batches : int, default 20
        Mini-batches in one fit.
    random_state : int, RandomState or None
        Seed for triplets, batches and start.
    verbose : int, default 0
        Print a line per mini-batch where it is positive.

    Attributes
    ----------
    components_ : ndarray of shape (d, D)
        The map L.
    weights_ : ndarray of shape (d,)
        Weight of each direction in the last mini-batch.
    n_iter_ : int
        Mini-batches seen.
    history_ : ndarray of shape (n_iter_,)
        Mean hinge of each mini-batch, before its step, as a multiple of the margin; of the ridge variant's first
        batch, after it.
    choice_ : Choice
        Of the ridge variant: the ridge, the shares and the number of rounds used in the first batch.
    n_features_in_ : int
        Number of features D.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from flrml import MFLRML
    >>> X, y = load_digits(return_X_y=True)
    >>> model = MFLRML(n_components=20, n_batches=5, random_state=0).fit(normalize(X), y)
    >>> model.partial_fit(normalize(X), y).n_iter_
    6
    """

    _map: NDArray
    _scale: float

    _parameter_constraints = FLRML_RANGES | {
        "batch_triplets": [Interval(Integral, 1, None, closed="left")],
        "n_batches": [Interval(Integral, 1, None, closed="left")],
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
        batch_triplets: int = 80,
        n_batches: int = 20,
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
        self.batch_triplets = batch_triplets
        self.n_batches = n_batches
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
        callback: Callable[["MFLRML"], None] | None = None,
    ) -> "MFLRML":
        """Learn the map from ``n_batches`` mini-batches.

        Parameters
        ----------
        X : array-like, CSR matrix, BinaryRows or dask array of shape (n, D)
            Training rows. Of a memory map, only the rows of the mini-batches are read.
        y : array-like of shape (n,)
            Labels, from which triplets are drawn. Not needed with ``triplets``.
        triplets : array-like of shape (m, 3), optional
            Row numbers (i, j, k).
        groups : array-like of shape (n,), optional
            Rows of one group show the same thing; see :meth:`FLRML.fit`.
        callback : callable, optional
            Called with this estimator after every mini-batch; ``components_`` and ``transform`` are ready then.
        """
        return self._learn(X, y, triplets, groups, self.n_batches, callback, reset=True)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None, *, triplets: Any = None, groups: Any = None) -> "MFLRML":
        """Learn from one more mini-batch, drawn from the given rows.

        Parameters
        ----------
        X, y, triplets, groups
            As for :meth:`fit`. The rows may differ from those of earlier calls; the number of features may not.
        """
        return self._learn(X, y, triplets, groups, 1, None, reset=not hasattr(self, "n_iter_"))

    def _learn(self, X, y, triplets, groups, n_batches, callback, *, reset) -> "MFLRML":
        if in_blocks(X):
            from flrml.distributed import fit_mflrml

            self._check_in_blocks()
            return fit_mflrml(self, X, y, triplets, n_batches, callback, reset=reset)
        X = self._check_rows(X, reset=reset, lazy=True, ensure_min_samples=3)
        if reset:
            self._random = check_random_state(self.random_state)
            d = self._directions(min(X.shape), f"the {X.shape[0]} rows or {X.shape[1]} columns of X")
            # Lᵀ is _scale * _map: forgetting by (1 − ρ) then costs nothing.
            self._map, self._scale = np.zeros((X.shape[1], d), dtype=X.dtype), 1.0
            self.n_iter_, self.history_ = 0, np.empty(0)
        T = self._triplets(X, y, triplets, self._random)
        if self.variant == "ridge":
            known = self._supervision(X, y, triplets, groups)
            learn = functools.partial(self._ridge_batch, X, T, known)
        else:
            learn = functools.partial(self._batch, X, T, triplet_counts(T, X.shape[0]))
        for batch in range(n_batches):
            learn()
            self._say(f"mini-batch {batch + 1}/{n_batches}: mean hinge {self.history_[-1]:.4g} margins")
            if callback is not None:
                self._settle()
                callback(self)
        self._settle()
        return self

    def _batch(self, X: Any, T: NDArray, counts: tuple[sp.csr_matrix, sp.csr_matrix]) -> None:
        rows = self._draw_batch(T, X.shape[0])
        # Matrices of a batch are too small for several BLAS threads, which on a busy machine cost dearly.
        with threadpool_limits(1, user_api="blas"):
            self._step(self._read(X, rows), contrast_matrix(*(c[rows][:, rows] for c in counts)))

    def _ridge_batch(self, X: Any, T: NDArray, known: Supervision) -> None:
        if self.n_iter_ == 0:
            rows = known.draw(ridge.START_ROWS, self._random)
            self._ridge_start(self._read(X, rows), known.subset(rows))
        else:
            rows = self._draw_batch(T, X.shape[0])
            with threadpool_limits(1, user_api="blas"):
                self._ridge_step(self._read(X, rows), known.subset(rows))

    def _ridge_start(self, X: Any, known: Supervision) -> None:
        """Solve a first, larger batch in closed form and by rounds."""
        spectrum = decompose(X, random_state=self._random)
        margin, d = ridge.MARGIN * self.margin_ratio, min(self._map.shape[1], spectrum.rank)
        self.choice_ = search.choose(spectrum, known, d, margin, self._random, search.Candidates.of(self))[0]
        learned = ridge.learn(spectrum, known, d, self.choice_, margin, self._random)
        self._map[:, : learned.L_transposed.shape[1]] = learned.L_transposed
        self.weights_ = learned.s
        self._count(known.active_pairs(ridge.unit_rows(product(X, self._map)), margin)[-1])

    def _ridge_step(self, X: Any, known: Supervision) -> None:
        """Move the map along the triplets of a batch that are inside the margin."""
        Y = product(X, self._map).astype(np.float64)
        step = ridge.batch_step(gram(X), known, Y, self.choice_.ridge, ridge.MARGIN * self.margin_ratio)
        add_product_transposed(self._map, X, (step.C / np.sqrt(self.n_iter_)).astype(self._map.dtype))
        self.weights_ = np.einsum("ij,ij->j", self._map, self._map)
        self._count(step.hinge)

    def _count(self, hinge: float) -> None:
        self.n_iter_ += 1
        self.history_ = np.append(self.history_, hinge)

    def _settle(self) -> None:
        """Bring the scale into the map."""
        if self._scale != 1:
            self._map *= np.asarray(self._scale, dtype=self._map.dtype)
            self._scale = 1.0
        self.components_ = self._map.T

    def _draw_batch(self, T: NDArray, n: int) -> NDArray:
        """Rows of the samples of some random triplets, and of random others up to d + 10."""
        chosen = self._random.choice(len(T), min(self.batch_triplets, len(T)), replace=False)
        rows = np.unique(T[chosen])
        missing = min(self._map.shape[1] + PADDING, n) - len(rows)
        if missing > 0:
            others = np.setdiff1d(np.arange(n), rows, assume_unique=True)
            rows = np.sort(np.concatenate((rows, self._random.choice(others, missing, replace=False))))
        return rows

    @staticmethod
    def _read(X: Any, rows: NDArray) -> Any:
        batch = X[rows]
        values = batch.data if sp.issparse(batch) else batch
        if not np.isfinite(values).all():
            raise ValueError("Input X contains NaN or infinity in the rows of a mini-batch")
        return batch

    def _step(self, X: Any, contrasts: sp.csr_matrix) -> None:
        """One projected gradient step on the batch X, averaged into the map."""
        reference, d = self.variant == "reference", self._map.shape[1]
        means = row_means(X) if reference else None
        sigma, V = _batch_svd(X, means)
        if self.n_iter_ == 0:  # as if L were Gaussian noise, of which only the embedding of the batch matters
            B = (self._random.standard_normal((d, len(V))) @ V) * sigma
        else:
            B = (product(X, self._map).astype(np.float64) * self._scale).T @ V
        Q, root_s, Pt = np.linalg.svd(_over_coordinates(B) if reference else B, full_matrices=False)
        P, s = Pt.T, root_s**2

        E = V @ P
        M = contrasts @ E
        Z = E * M
        margin = self.margin_ratio * float(s.sum()) / len(V)
        z = -(Z @ s)
        active = np.ones(len(V)) if reference else (z + margin > 0).astype(np.float64)
        G = -(V.T @ (contrasts.T @ (active[:, None] * E) + active[:, None] * M)) * s
        target = P - stiefel.project(P, G)
        P_next = stiefel.polar(_over_coordinates(target.T).T if reference else target)
        s_next = softplus(active @ Z)

        rho = 1 / np.sqrt(self.n_iter_ + 1)
        C = V @ ((P_next * np.sqrt(s_next)) / sigma[:, None] ** 2) @ Q.T
        self._average(X, C, means, rho)
        self.weights_ = s_next.astype(self._map.dtype)
        self._count(np.mean(np.maximum(z + margin, 0)) / margin if margin > 0 else 0.0)

    def _average(self, X: Any, C: NDArray, means: NDArray | None, rho: float) -> None:
        """Lᵀ ← (1 − ρ) Lᵀ + ρ Xᵀ C, touching only the features that occur in X."""
        self._scale *= 1 - rho
        if self._scale < 1e-6:
            self._settle()
        C = (rho / self._scale * C).astype(self._map.dtype)
        add_product_transposed(self._map, X, C)
        if means is not None:
            self._map -= (means @ C).astype(C.dtype)


def _over_coordinates(B: NDArray) -> NDArray:
    """Take off the mean over the singular coordinates, as the reference code does before each small SVD."""
    return B - B.mean(axis=1, keepdims=True)


def _batch_svd(X: Any, means: NDArray | None) -> tuple[NDArray, NDArray]:
    """Singular values and left singular vectors of a batch, from its Gram matrix."""
    G = gram(X)
    if means is not None:
        G -= X.shape[1] * np.outer(means, means)
    values, V = scipy.linalg.eigh(G)
    kept = values > RELATIVE_CUT**2 * max(values[-1], 0)
    if not kept.any():
        constant = "zero" if means is None else "constant"
        raise ValueError(f"all rows of a mini-batch are {constant} (n_features={X.shape[1]}): nothing to learn")
    V = V[:, kept][:, ::-1]
    return np.sqrt(values[kept][::-1]), V * column_signs(V)
