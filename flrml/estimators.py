"""FLRML and M-FLRML as scikit-learn estimators."""

import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from flrml import stiefel
from flrml.exceptions import FlrmlWarning, SpectrumError
from flrml.loss import MarginLoss, softplus
from flrml.rows import BinaryRows, add_product_transposed, gram, on_disk, product, row_means
from flrml.spectrum import RELATIVE_CUT, Spectrum, column_signs, decompose
from flrml.triplets import check_triplets, contrast_matrix, draw_triplets, triplet_counts

PADDING = 10  # a mini-batch has at least so many samples more than directions


class LowRankMetric(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What every learned map x ↦ L x offers: embedding, scores of pairs, and checks of its input."""

    n_components: int
    n_triplets: int
    verbose: int
    n_features_in_: int
    components_: NDArray

    def transform(self, X: Any) -> NDArray:
        """Embed rows: X Lᵀ. Compare the result by cosine.

        Parameters
        ----------
        X : array-like, CSR matrix or BinaryRows of shape (n, D)
            Rows to embed.

        Returns
        -------
        ndarray of shape (n, d)
            In the type of the map, float32 or float64.
        """
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        L = self.components_
        return product(X, L.T).astype(np.result_type(X.dtype, np.float32), copy=False)

    def pair_distance(self, pairs: ArrayLike) -> NDArray:
        """Distance ‖L x − L x'‖ of each pair.

        Parameters
        ----------
        pairs : array-like of shape (p, 2, D)
            Pairs of rows.
        """
        check_is_fitted(self)
        P = check_array(pairs, allow_nd=True, dtype=[np.float64, np.float32])
        if P.ndim != 3 or P.shape[1:] != (2, self.n_features_in_):
            raise ValueError(f"pairs must have the shape (p, 2, {self.n_features_in_}), got {P.shape}")
        return np.linalg.norm((P[:, 0] - P[:, 1]) @ self.components_.T, axis=1)

    def pair_score(self, pairs: ArrayLike) -> NDArray:
        """Minus the distance of each pair: larger means more alike."""
        return -self.pair_distance(pairs)

    def get_mahalanobis_matrix(self) -> NDArray:
        """Return LᵀL, of shape (D, D)."""
        check_is_fitted(self)
        return self.components_.T @ self.components_

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _check_rows(self, X: Any, *, reset: bool, lazy: bool = False, **checks: Any) -> Any:
        """Validate X without copying it; with ``lazy``, values on disk are left unread."""
        if isinstance(X, BinaryRows):
            if reset:
                self.n_features_in_ = X.shape[1]
            elif X.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input"
                )
            return X
        finite = not (lazy and (isinstance(X, np.ndarray) or sp.issparse(X)) and on_disk(X))
        return validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=finite,
            **checks,
        )

    def _triplets(self, X: Any, y: Any, triplets: Any, random: np.random.RandomState) -> NDArray:
        if triplets is not None:
            return check_triplets(triplets, X.shape[0])
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None. "
                "Give labels y, or triplets=."
            )
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        check_classification_targets(y)
        return draw_triplets(y, self.n_triplets, random)

    def _directions(self, most: int, because: str) -> int:
        """Number of directions d, cut with a warning where the data hold fewer."""
        if self.n_components > most:
            warnings.warn(
                f"n_components={self.n_components} is more than {because}; {most} directions are learned",
                FlrmlWarning,
                stacklevel=3,
            )
        return min(self.n_components, most)

    def _say(self, message: str) -> None:
        if self.verbose:
            print(f"[{type(self).__name__}] {message}", flush=True)


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
        Margin of the hinge as a multiple of the mean squared length of the embeddings.
    n_triplets : int, default 5
        Random triplets per sample, where labels are given.
    variant : {"paper", "reference"}, default "paper"
        ``"paper"`` descends on one consistent objective. ``"reference"`` follows the code that the authors of
        the method published, whose line search stops after a few iterations and which takes each sample's mean
        off before the SVD; the accuracies in their paper are this variant's.
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
        Weight s of each direction.
    n_iter_ : int
        Iterations done.
    history_ : ndarray of shape (n_iter_ + 1,)
        Objective at the start and after every iteration.
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

    _parameter_constraints = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "margin_ratio": [Interval(Real, 0, None, closed="neither")],
        "n_triplets": [Interval(Integral, 1, None, closed="left")],
        "variant": [StrOptions({"paper", "reference"})],
        "init": [StrOptions({"top", "random"})],
        "max_rank": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_components: int = 100,
        *,
        margin_ratio: float = 1.0,
        n_triplets: int = 5,
        variant: str = "paper",
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
        self.init = init
        self.max_rank = max_rank
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, triplets: Any = None, spectrum: Spectrum | None = None) -> "FLRML":
        """Learn the map.

        Parameters
        ----------
        X : array-like, CSR matrix or BinaryRows of shape (n, D)
            Training rows. float32 stays float32; a memory map is never copied whole.
        y : array-like of shape (n,)
            Labels, from which triplets are drawn. Not needed with ``triplets``.
        triplets : array-like of shape (m, 3), optional
            Row numbers (i, j, k).
        spectrum : Spectrum, optional
            The decomposition of X, from :func:`flrml.decompose` or an earlier fit.
        """
        X = self._check_rows(X, reset=True, ensure_min_samples=3)
        random = check_random_state(self.random_state)
        T = self._triplets(X, y, triplets, random)
        spectrum = self._spectrum(X, spectrum, random)
        d = self._directions(spectrum.rank, f"the rank {spectrum.rank} of the data")

        contrasts = contrast_matrix(*triplet_counts(T, X.shape[0], X.dtype))
        reference = self.variant == "reference"
        loss = MarginLoss(spectrum, contrasts, self.margin_ratio, reference=reference, random=random)
        P, E = self._start(spectrum, d, random)
        loss.start(E)
        found = stiefel.minimize(loss, P, E=E, max_iter=self.max_iter, tol=self.tol, callback=self._report)

        self.weights_ = loss.s
        self.components_ = spectrum.lift((found.P * np.sqrt(loss.s)).astype(X.dtype)).T
        self.n_iter_ = len(found.steps)
        self.history_ = np.array(found.values)
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
        Margin of the hinge as a multiple of the mean squared length of the batch's embeddings.
    n_triplets : int, default 5
        Random triplets per sample, where labels are given.
    variant : {"paper", "reference"}, default "paper"
        ``"reference"`` follows the code that the authors of the method published: every sample counts as inside
        the margin, and each sample's mean is taken off before a batch is decomposed.
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
        Mean hinge of each mini-batch, before its step, as a multiple of the margin.
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

    _parameter_constraints = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "margin_ratio": [Interval(Real, 0, None, closed="neither")],
        "n_triplets": [Interval(Integral, 1, None, closed="left")],
        "variant": [StrOptions({"paper", "reference"})],
        "batch_triplets": [Interval(Integral, 1, None, closed="left")],
        "n_batches": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_components: int = 100,
        *,
        margin_ratio: float = 1.0,
        n_triplets: int = 5,
        variant: str = "paper",
        batch_triplets: int = 80,
        n_batches: int = 20,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.margin_ratio = margin_ratio
        self.n_triplets = n_triplets
        self.variant = variant
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
        callback: Callable[["MFLRML"], None] | None = None,
    ) -> "MFLRML":
        """Learn the map from ``n_batches`` mini-batches.

        Parameters
        ----------
        X : array-like, CSR matrix or BinaryRows of shape (n, D)
            Training rows. Of a memory map, only the rows of the mini-batches are read.
        y : array-like of shape (n,)
            Labels, from which triplets are drawn. Not needed with ``triplets``.
        triplets : array-like of shape (m, 3), optional
            Row numbers (i, j, k).
        callback : callable, optional
            Called with this estimator after every mini-batch; ``components_`` and ``transform`` are ready then.
        """
        return self._learn(X, y, triplets, self.n_batches, callback, reset=True)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None, *, triplets: Any = None) -> "MFLRML":
        """Learn from one more mini-batch, drawn from the given rows.

        Parameters
        ----------
        X, y, triplets
            As for :meth:`fit`. The rows may differ from those of earlier calls; the number of features may not.
        """
        return self._learn(X, y, triplets, 1, None, reset=not hasattr(self, "n_iter_"))

    def _learn(self, X, y, triplets, n_batches, callback, *, reset) -> "MFLRML":
        X = self._check_rows(X, reset=reset, lazy=True, ensure_min_samples=3)
        if reset:
            self._random = check_random_state(self.random_state)
            d = self._directions(min(X.shape), f"the {X.shape[0]} rows or {X.shape[1]} columns of X")
            # Lᵀ is _scale * _map: forgetting by (1 − ρ) then costs nothing.
            self._map, self._scale = np.zeros((X.shape[1], d), dtype=X.dtype), 1.0
            self.n_iter_, self.history_ = 0, np.empty(0)
        T = self._triplets(X, y, triplets, self._random)
        counts = triplet_counts(T, X.shape[0])
        for batch in range(n_batches):
            rows = self._draw_batch(T, X.shape[0])
            self._step(self._read(X, rows), contrast_matrix(*(c[rows][:, rows] for c in counts)))
            self._say(f"mini-batch {batch + 1}/{n_batches}: mean hinge {self.history_[-1]:.4g} margins")
            if callback is not None:
                self._settle()
                callback(self)
        self._settle()
        return self

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

        self.n_iter_ += 1
        rho = 1 / np.sqrt(self.n_iter_)
        C = V @ ((P_next * np.sqrt(s_next)) / sigma[:, None] ** 2) @ Q.T
        self._average(X, C, means, rho)
        self.weights_ = s_next.astype(self._map.dtype)
        hinge = np.mean(np.maximum(z + margin, 0)) / margin if margin > 0 else 0.0
        self.history_ = np.append(self.history_, hinge)

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
