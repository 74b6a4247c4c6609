"""M-FLRML: the same model from mini-batches, as a scikit-learn estimator."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement

from flrml import stiefel
from flrml.batches import INDEPENDENT_RATIO, Batch, SampleBasis, SingularBasis, read_rows
from flrml.flrml import warn_if_close
from flrml.loss import softplus
from flrml.metric import LowRankMetric, require_solution
from flrml.rows import add_product_transposed, check_scale, gram, is_dask, product
from flrml.rows.threads import one_ahead, one_blas_thread
from flrml.rows.wide import is_wide, lift, with_inner_products
from flrml.triplets import TripletsByAnchor

PADDING = 10  # a mini-batch has at least this many samples more than directions


@dataclass(eq=False, repr=False)
class MFLRML(LowRankMetric):
    """Fast low-rank metric learning from mini-batches (Liu, Han, Liu, Gu, NeurIPS 2019).

    Each step reads a few hundred rows of X, so X may be larger than memory; besides the batch only the D × d map
    is held. A step decomposes the batch, makes one projected gradient step on it, and averages the result into the
    map with weight 1/√(number of the step). If X has so few and wide rows that the mini-batches would read each of
    them several times, all inner products are formed first, and the steps use those.

    Rows of X should have unit length; rows of zeros are allowed.

    Parameters
    ----------
    n_components : int, default=100
        Number of directions d; at most the number of rows or columns of X.
    margin_ratio : float, default=1.0
        Margin of the hinge as a multiple of the mean squared length of the batch's embeddings.
    n_triplets : int, default=5
        Random triplets per sample, if labels are given.
    batch_triplets : int, default=80
        Triplets per mini-batch, N_t. Their samples form the batch, filled up with random others to d + 10.
    n_batches : int, default=20
        Mini-batches in one fit, T.
    random_state : int, RandomState or None, default=None
        Seed for triplets, batches and start.
    verbose : int, default=0
        Print a line per mini-batch if positive.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map L.
    weights_ : ndarray of shape (n_components,)
        Weight of each direction in the last mini-batch.
    n_iter_ : int
        Mini-batches seen.
    history_ : ndarray of shape (n_iter,)
        Mean hinge of each mini-batch before its step, as a multiple of the margin; see
        :class:`flrml.metric.LowRankMetric`.
    n_features_in_ : int
        Number of features D.

    See Also
    --------
    flrml.FLRML : The same model on the SVD of all data.
    flrml.reference.ReferenceMFLRML : The method of the authors' published code.
    flrml.RidgeFLRML : A more accurate method with the same model.

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

    n_components: int = 100
    _: KW_ONLY
    margin_ratio: float = 1.0
    n_triplets: int = 5
    batch_triplets: int = 80
    n_batches: int = 20
    random_state: Any = None
    verbose: int = 0

    _map: NDArray = field(init=False)
    _scale: float = field(init=False)

    takes_dask = True
    by_inner_products: ClassVar[bool] = True  # whether the map depends only on inner products of rows

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        triplets: Any = None,
        callback: Callable[["MFLRML"], None] | None = None,
    ) -> "MFLRML":
        """Learn the map from ``n_batches`` mini-batches.

        Parameters
        ----------
        X : array-like, CSR matrix, BinaryRows or dask array of shape (n_samples, n_features)
            Training rows. From a memory map, only the rows of the mini-batches are read.
        y : array-like of shape (n_samples,)
            Labels, from which triplets are drawn. Not needed with ``triplets``.
        triplets : array-like of shape (n_triplets, 3), optional
            Row numbers (i, j, k).
        callback : callable, optional
            Called with this estimator after every mini-batch; ``components_`` and ``transform`` are ready then.

        Returns
        -------
        MFLRML
            This estimator.
        """
        return self._fit(X, y, triplets, self.n_batches, callback, reset=True)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None, *, triplets: Any = None) -> "MFLRML":
        """Learn from one more mini-batch, drawn from the given rows.

        Parameters
        ----------
        X, y, triplets
            As for :meth:`fit`. The rows may differ from those of earlier calls; the number of features may not.

        Returns
        -------
        MFLRML
            This estimator.
        """
        return self._fit(X, y, triplets, 1, None, reset=not hasattr(self, "n_iter_"))

    def _fit(self, X, y, triplets, n_batches, callback, *, reset) -> "MFLRML":
        if is_dask(X):
            from flrml.distributed import RemoteRows, on_client

            # This process learns; workers keep the rows and send those of the mini-batches.
            with RemoteRows.for_fit(self, X, reset=reset) as rows:
                return self._learn(rows.by_thread(), on_client(y), triplets, n_batches, callback, reset=reset)
        # The scale of a batch is checked when it is read; that of all rows would take longer than learning.
        X = self._check_rows(X, reset=reset, lazy=True, scale=False, ensure_min_samples=3)
        if reset:
            warn_if_close(min(X.shape), X.shape[0], type(self).__name__)
        least = n_batches * (self.n_components + PADDING)  # rows that the mini-batches read
        if self.by_inner_products and reset and callback is None and is_wide(X.shape) and X.shape[0] <= least:
            return self._learn_from_few(X, y, triplets, n_batches)
        return self._learn(X, y, triplets, n_batches, callback, reset=reset)

    def _learn_from_few(self, X, y, triplets, n_batches) -> "MFLRML":
        """Learn from few wide rows: form their inner products once, not for every mini-batch."""
        self._check_directions(self.n_components, X.shape[0], f"the {X.shape[0]} rows of X")
        check_scale(X)
        G = gram(X)
        if not np.isfinite(np.trace(G)):
            raise ValueError("Input X contains NaN or infinity")
        E = with_inner_products(G)
        self._learn(E, y, triplets, n_batches, None, reset=True)
        self._map = lift(X, E, self._map)
        self.weights_: NDArray = self.weights_.astype(X.dtype)
        self._set_map()
        return self

    def _learn(self, X, y, triplets, n_batches, callback, *, reset) -> "MFLRML":
        """Learn from mini-batches of rows that have been checked."""
        if reset:
            self._initialize(X.shape, X.dtype)
        T = self._check_triplets(X, y, triplets, self.n_triplets, self._random)
        by_anchor = TripletsByAnchor(T)

        def read(drawn: tuple[NDArray, NDArray | None]) -> Batch:
            return self._read_batch(X, by_anchor, *drawn)

        with one_blas_thread():
            drawn = (self._draw_batch(T, X.shape[0], first=number == 0) for number in range(n_batches))
            for number, batch in enumerate(one_ahead(read, drawn), 1):
                self._learn_batch(batch)
                hinge = f"mean hinge {self.history_[-1]:.4g} margins"
                self._log(f"mini-batch {number}/{n_batches}: {hinge}", self.history_)
                if callback is not None:
                    self._set_map()
                    callback(self)
        self._set_map()
        return self

    def _initialize(self, shape: tuple[int, int], dtype: Any) -> None:
        """Start from an empty map Lᵀ, kept as ``_scale * _map``: forgetting by (1 − ρ) then costs nothing."""
        n, n_features = shape
        self._random = check_random_state(self.random_state)
        d = self._check_directions(self.n_components, min(shape), f"the {n} rows or {n_features} columns of X")
        self._map, self._scale = np.zeros((n_features, d), dtype=dtype), 1.0
        self.n_iter_, self.history_ = 0, np.empty(0)

    def _draw_batch(self, T: NDArray, n: int, *, first: bool) -> tuple[NDArray, NDArray | None]:
        """Return the samples of some random triplets and random others up to d + 10, and noise for the start."""
        # RandomState.choice would permute all triplets.
        chosen = sample_without_replacement(len(T), min(self.batch_triplets, len(T)), random_state=self._random)
        rows = np.unique(T[chosen])
        missing = min(self._map.shape[1] + PADDING, n) - len(rows)
        if missing > 0:
            others = np.setdiff1d(np.arange(n), rows, assume_unique=True)
            rows = np.sort(np.concatenate((rows, self._random.choice(others, missing, replace=False))))
        start = first and self.n_iter_ == 0
        return rows, self._random.standard_normal((self._map.shape[1], len(rows))) if start else None

    def _read_batch(self, X: Any, triplets: TripletsByAnchor, rows: NDArray, noise: NDArray | None) -> Batch:
        """Read the rows of a mini-batch and compute all that does not depend on the map."""
        batch = read_rows(X, rows)
        return Batch(batch, triplets.contrasts(rows), self._decompose_batch(batch, start=noise is not None), noise)

    def _learn_batch(self, batch: Batch) -> None:
        """Make one projected gradient step on a mini-batch, and average its map into the map."""
        X, contrasts, basis = batch.X, batch.contrasts, batch.basis
        if batch.noise is not None and isinstance(basis, SingularBasis):
            # As if L were Gaussian noise, of which only the embedding of the batch matters.
            B = basis.random(batch.noise).T
        else:
            B = basis.coordinates(product(X, self._map).astype(np.float64) * self._scale).T
        Q, P, s = self._weighted_directions(B)

        E = basis.images(P)
        M = contrasts @ E
        Z = E * M
        margin = self.margin_ratio * float(s.sum()) / len(E)
        z = -(Z @ s)
        active = self._active(z, margin)[:, None]
        G = -basis.coordinates(contrasts.T @ (active * E) + active * M) * s
        P = self._retract(P - stiefel.project(P, G))
        s = softplus(active.ravel() @ Z)

        C = basis.dual(P * np.sqrt(s)) @ Q.T
        hinge = float(np.mean(np.maximum(z + margin, 0)) / margin) if margin > 0 else 0.0
        self._average(*self._lift(X, C))
        self.weights_ = s.astype(self._map.dtype)
        self.history_ = np.append(self.history_, hinge)

    def _decompose_batch(self, X: Any, *, start: bool) -> SingularBasis | SampleBasis:
        """Return coordinates of a batch: its singular vectors, or its samples if they serve."""
        G = gram(X)
        samples = None if start else SampleBasis.find(G)
        return SingularBasis(G, f"zero (n_features={X.shape[1]})") if samples is None else samples

    def _weighted_directions(self, B: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """Factor the embedding B = Q diag(√s) Pᵀ of the batch; return Q, P and s."""
        s, Q = np.linalg.eigh(B @ B.T)  # a third of the time of an SVD
        if s[0] > INDEPENDENT_RATIO * s[-1]:
            Q, s = Q[:, ::-1], s[::-1]
            return Q, (B.T @ Q) / np.sqrt(s), s
        Q, root_s, Pt = np.linalg.svd(B, full_matrices=False)
        return Q, Pt.T, root_s**2

    def _active(self, z: NDArray, margin: float) -> NDArray:
        """Return λ: 1 if a sample is inside the margin, else 0."""
        return (z + margin > 0).astype(np.float64)

    def _retract(self, target: NDArray) -> NDArray:
        """Return the nearest matrix with orthonormal columns."""
        return stiefel.polar(target)

    def _lift(self, X: Any, C: NDArray) -> tuple[Any, NDArray]:
        """Return rows and coefficients whose product is the map Xᵀ C of the batch."""
        return X, C

    def _average(self, X: Any, C: NDArray) -> None:
        """Lᵀ ← (1 − ρ) Lᵀ + ρ Xᵀ C with ρ = 1/√(number of the step), touching only the features that occur in X."""
        self.n_iter_ += 1
        rho = 1 / np.sqrt(self.n_iter_)
        self._scale *= 1 - rho
        if self._scale < 1e-6:
            self._apply_scale()
        add_product_transposed(self._map, X, (rho / self._scale * C).astype(self._map.dtype))

    def _apply_scale(self) -> None:
        if self._scale != 1:
            self._map *= np.asarray(self._scale, dtype=self._map.dtype)
            self._scale = 1.0

    def _set_map(self) -> None:
        """Make the map the fitted one."""
        self._apply_scale()
        require_solution(type(self).__name__, self._map)
        self.components_ = self._map.T
