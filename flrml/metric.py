"""The base class of every learned linear map: embedding, scores of pairs, and checks of the input."""

import os
import warnings
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_n_features, check_is_fitted, validate_data

from flrml.exceptions import FlrmlWarning, NoSolutionError
from flrml.rows import (
    BinaryRows,
    canonical,
    check_scale,
    check_sparse,
    check_unmasked,
    is_dask,
    is_sparse,
    normalize,
    on_disk,
    product,
    row_products,
)
from flrml.triplets import check_triplets, draw_triplets

POSITIVE_INTEGER = Interval(Integral, 1, None, closed="left")
POSITIVE_REAL = Interval(Real, 0, None, closed="neither")
NONNEGATIVE_REAL = Interval(Real, 0, None, closed="left")
UNIT_INTERVAL = Interval(Real, 0, 1, closed="both")


def embed(X: Any, L: NDArray, intercept: NDArray | None = None) -> Any:
    """Embed rows: X Lᵀ + intercept, in the type of X or in float32, whichever is wider; lazily for a dask array."""
    if is_dask(X):
        from flrml.distributed import embed as embed_blocks

        Y: Any = embed_blocks(X, L)
    else:
        Y = product(X, L.T).astype(np.result_type(X.dtype, np.float32), copy=False)
    return Y if intercept is None or not intercept.any() else Y + intercept.astype(Y.dtype)


class LowRankMetric(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A learned map x ↦ L x, or x ↦ L x + b for a subclass with an intercept b (``intercept_``).

    A subclass learns L in ``fit`` and passes it to ``_set_result``. Its class attribute ``metric`` names how
    embedded rows are compared: by ``"cosine"``, by ``"euclidean"`` distance, or by the ``"bilinear"`` similarity
    xᵀ W x' with the matrix ``similarity_``.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map L.
    n_iter_ : int
        Number of iterations.
    history_ : ndarray
        Objective before the first iteration and after each one: ``history_[t]`` belongs to the map after t
        iterations. Methods that sample the data evaluate the objective only on the sample of the next iteration,
        so that there is no value after the last one. Empty for closed forms.
    n_features_in_ : int
        Number of features.
    """

    metric: ClassVar[str] = "cosine"
    takes_dask: ClassVar[bool] = False  # whether ``fit`` takes dask arrays
    # Ranges that scikit-learn checks, of parameters that several methods have; a subclass adds those of its own.
    _parameter_constraints: ClassVar[dict] = {
        "n_components": [POSITIVE_INTEGER],
        "margin_ratio": [POSITIVE_REAL],
        "n_triplets": [POSITIVE_INTEGER],
        "batch_triplets": [POSITIVE_INTEGER],
        "n_batches": [POSITIVE_INTEGER],
        "max_rank": [POSITIVE_INTEGER],
        "max_iter": [POSITIVE_INTEGER],
        "n_steps": [POSITIVE_INTEGER],
        "tol": [NONNEGATIVE_REAL],
        "lam": [NONNEGATIVE_REAL],
        "C": [POSITIVE_REAL],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    n_features_in_: int
    components_: NDArray
    similarity_: NDArray
    n_iter_: int
    history_: NDArray

    # Called with step and objective while ``fit`` runs.
    _listener: Callable[[int, float], None] | None = None

    def transform(self, X: Any) -> Any:
        """Embed rows: X Lᵀ, plus the intercept if there is one.

        Parameters
        ----------
        X : array-like, CSR matrix, BinaryRows or dask array of shape (n_samples, n_features)
            Rows to embed.

        Returns
        -------
        ndarray of shape (n_samples, n_components), or dask array if X is one
            Embedded rows, in the type of the map, float32 or float64.
        """
        check_is_fitted(self)
        X = X if is_dask(X) else self._check_rows(X, reset=False)
        return embed(X, self.components_, getattr(self, "intercept_", None))

    def pair_score(self, pairs: Any) -> NDArray:
        """Return the similarity of each pair by the learned metric; larger means more similar.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features), or tuple of two
            Pairs of rows. A tuple has the first and the second rows of all pairs as two matrices of shape
            (n_pairs, n_features), each an array, a CSR matrix or BinaryRows.

        Returns
        -------
        ndarray of shape (n_pairs,)
            The cosine of the embedded rows, 0 if one of them is zero, for ``metric`` ``"cosine"``; minus their
            distance for ``"euclidean"``; xᵀ W x' for ``"bilinear"``.
        """
        first, second = self._embed_pairs(pairs)
        if self.metric == "euclidean":
            return -_distances(first, second)
        if self.metric == "bilinear":
            return row_products(first @ self.similarity_, second)
        return row_products(normalize(first), normalize(second))

    def pair_distance(self, pairs: Any) -> NDArray:
        """Return the distance of each pair by the learned metric.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features), or tuple of two
            Pairs of rows, as for :meth:`pair_score`.

        Returns
        -------
        ndarray of shape (n_pairs,)
            The Euclidean distance of the embedded rows for ``metric`` ``"euclidean"``. For ``"cosine"`` it is that
            of the embedded rows scaled to unit length, √(2 − 2 cos), which is √2 if one of them is zero.

        Raises
        ------
        ValueError
            For ``"bilinear"``: a similarity that is not symmetric has no distance.
        """
        self._require_distance("pair_score")
        first, second = self._embed_pairs(pairs)
        if self.metric == "euclidean":
            return _distances(first, second)
        first, second = normalize(first), normalize(second)
        zero = (row_products(first, first) == 0) | (row_products(second, second) == 0)
        return np.where(zero, np.sqrt(2), _distances(first, second))

    def get_mahalanobis_matrix(self) -> NDArray:
        """Return LᵀL, the matrix of the learned inner product xᵀ LᵀL x' and of the distance ‖L x − L x'‖.

        Cosines are those of this inner product; they do not take account of an intercept.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            In the type of the map.

        Raises
        ------
        MemoryError
            If the matrix is larger than the memory of this machine.
        ValueError
            For ``metric`` ``"bilinear"``, which is not a Mahalanobis distance.
        """
        self._require_distance("similarity_")
        check_is_fitted(self)
        require_square(self.n_features_in_, self.components_.dtype)
        return self.components_.T @ self.components_

    def _require_distance(self, instead: str) -> None:
        if self.metric == "bilinear":
            raise ValueError(f"{type(self).__name__} learns a similarity, which has no distance; use {instead}")

    def _embed_pairs(self, pairs: Any) -> tuple[Any, Any]:
        """Return the embedded first and second rows of pairs."""
        check_is_fitted(self)
        if isinstance(pairs, tuple) and len(pairs) == 2 and all(hasattr(part, "shape") for part in pairs):
            first, second = pairs
            if first.shape != second.shape:
                raise ValueError(f"both matrices of pairs must have one shape, got {first.shape}, {second.shape}")
        else:
            P = check_array(pairs, allow_nd=True, dtype=[np.float64, np.float32])
            if P.ndim != 3 or P.shape[1:] != (2, self.n_features_in_):
                raise ValueError(f"pairs must have the shape (n_pairs, 2, {self.n_features_in_}), got {P.shape}")
            first, second = P[:, 0], P[:, 1]
        first, second = self.transform(first), self.transform(second)
        return first[:] if is_sparse(first) else first, second[:] if is_sparse(second) else second

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _check_rows(self, X: Any, *, reset: bool, lazy: bool = False, scale: bool = True, **checks: Any) -> Any:
        """Validate X without copying it; ``lazy`` leaves values on disk unread, ``scale`` checks their size."""
        if is_dask(X):
            raise ValueError(
                f"{type(self).__name__} needs X in memory or in a memory map, got a dask array; "
                "FLRML, MFLRML and RidgeFLRML take dask arrays"
            )
        if isinstance(X, BinaryRows):
            _check_n_features(self, X, reset=reset)
            return X
        check_sparse(X)
        unread = lazy and (isinstance(X, np.ndarray) or sp.issparse(X)) and on_disk(X)
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=not unread,
            **checks,
        )
        X = canonical(X)
        if reset and scale and not unread:
            check_scale(X)
        return X

    def _check_labels(self, X: Any, y: Any) -> NDArray:
        """Validate labels of the rows of X."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        check_unmasked(y, "y")
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        check_classification_targets(y)
        return y

    def _check_groups(self, X: Any, groups: Any) -> NDArray[np.int64] | None:
        """Validate groups of the rows of X; return them as numbers 0, 1, …."""
        if groups is None:
            return None
        groups = column_or_1d(groups)
        check_consistent_length(X, groups)
        return np.unique(groups, return_inverse=True)[1]

    def _check_triplets(
        self, X: Any, y: Any, triplets: Any, n_triplets: int, random: np.random.RandomState
    ) -> NDArray:
        """Validate given triplets, or draw them from labels."""
        if triplets is not None:
            return check_triplets(triplets, X.shape[0])
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None. "
                "Give labels y, or triplets=."
            )
        return draw_triplets(self._check_labels(X, y), n_triplets, random)

    def _check_directions(self, wanted: int, most: int, limit: str) -> int:
        """Return the number of directions d; warn if the data hold fewer than wanted."""
        if wanted > most:
            warnings.warn(
                f"n_components={wanted} is more than {limit}; {most} directions are learned",
                FlrmlWarning,
                stacklevel=3,
            )
        return min(wanted, most)

    def _set_result(self, L: NDArray, history: Any = (), n_iter: int = 1) -> None:
        """Keep the map L, and how it was found; a map that is zero or not finite raises NoSolutionError."""
        require_solution(type(self).__name__, L)
        self.components_ = L
        self.history_ = np.asarray(history, dtype=np.float64)
        if not np.isfinite(self.history_).all():
            raise NoSolutionError(f"{type(self).__name__} ends with an objective that is not finite")
        self.n_iter_ = int(n_iter)

    def _log(self, message: str, history: Sequence[float] | NDArray = ()) -> None:
        """Print a line if the estimator is verbose; report the last objective of a history to the listener."""
        if len(history) and self._listener is not None:
            self._listener(len(history) - 1, float(history[-1]))
        if getattr(self, "verbose", 0):
            print(f"[{type(self).__name__}] {message}", flush=True)


def require_square(n_features: int, dtype: Any) -> None:
    """Raise MemoryError if a square matrix with a row per feature is larger than the memory of this machine."""
    needed = n_features**2 * np.dtype(dtype).itemsize
    if needed > physical_memory():
        raise MemoryError(
            f"a {n_features} × {n_features} matrix takes {needed / 1e9:,.0f} GB; use components_, pair_score or "
            "pair_distance"
        )


def physical_memory() -> float:
    """Return the bytes of memory of this machine; infinity if the system does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return np.inf


def _distances(first: Any, second: Any) -> NDArray:
    """Return the distance of each row of one matrix to the same row of another."""
    difference = first - second
    return np.sqrt(row_products(difference, difference))


def require_solution(name: str, *parts: NDArray) -> None:
    """Raise NoSolutionError unless every part is finite and has an entry that is not zero."""
    for part in parts:
        if part.size == 0 or not np.any(part):
            raise NoSolutionError(f"{name} ends with a metric that is zero")
        if not np.isfinite(part).all():
            raise NoSolutionError(f"{name} ends with a metric that is not finite")
