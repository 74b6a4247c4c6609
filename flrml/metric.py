"""The base class of every learned linear map: embedding, scores of pairs, and checks of the input."""

import warnings
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from flrml.exceptions import FlrmlWarning, NoSolutionError
from flrml.rows import BinaryRows, check_scale, is_dask, on_disk, product
from flrml.triplets import check_triplets, draw_triplets

POSITIVE_INTEGER = Interval(Integral, 1, None, closed="left")
POSITIVE_REAL = Interval(Real, 0, None, closed="neither")


def embed(X: Any, L: NDArray, offset: NDArray | None = None) -> Any:
    """Embed rows: X Lᵀ + offset, in the type of X or in float32, whichever is wider; lazily for a dask array."""
    if is_dask(X):
        from flrml.distributed import embed as embed_blocks

        Y: Any = embed_blocks(X, L)
    else:
        Y = product(X, L.T).astype(np.result_type(X.dtype, np.float32), copy=False)
    return Y if offset is None or not offset.any() else Y + offset.astype(Y.dtype)


class LowRankMetric(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A learned map x ↦ L x, or x ↦ L x + b for a subclass with an offset b (``offset_``).

    A subclass learns L in ``fit`` and hands it to ``_set_result``. ``neighbor_metric`` names how its embedded
    rows are compared: by ``"cosine"``, by ``"euclidean"`` distance, or by the ``"bilinear"`` similarity xᵀ W x'
    with the matrix ``similarity_``.
    """

    neighbor_metric: ClassVar[str] = "cosine"
    takes_dask: ClassVar[bool] = False  # whether ``fit`` takes dask arrays
    _parameter_constraints: ClassVar[dict] = {}  # scikit-learn checks the parameters that a subclass declares here

    n_features_in_: int
    components_: NDArray
    n_iter_: int
    history_: NDArray

    # Called with step and objective while ``fit`` runs.
    _listener: Callable[[int, float], None] | None = None

    def transform(self, X: Any) -> Any:
        """Embed rows: X Lᵀ, plus the offset if there is one.

        Parameters
        ----------
        X : array-like, CSR matrix, BinaryRows or dask array of shape (n, D)
            Rows to embed.

        Returns
        -------
        ndarray of shape (n, d), or dask array if X is one
            In the type of the map, float32 or float64.
        """
        check_is_fitted(self)
        X = X if is_dask(X) else self._check_rows(X, reset=False)
        return embed(X, self.components_, getattr(self, "offset_", None))

    def pair_distance(self, pairs: ArrayLike) -> NDArray:
        """Return the distance ‖L x − L x'‖ of each pair.

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
        """Return minus the distance of each pair: larger means more similar."""
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

    def _check_rows(self, X: Any, *, reset: bool, lazy: bool = False, scale: bool = True, **checks: Any) -> Any:
        """Validate X without copying it; ``lazy`` leaves values on disk unread, ``scale`` checks their size."""
        if is_dask(X):
            raise ValueError(
                f"{type(self).__name__} needs X in memory or in a memory map, got a dask array; "
                "FLRML, MFLRML and RidgeFLRML take dask arrays"
            )
        if isinstance(X, BinaryRows):
            if reset:
                self.n_features_in_ = X.shape[1]
            elif X.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input"
                )
            return X
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
        if reset and scale and not unread:
            check_scale(X)
        return X

    def _check_labels(self, X: Any, y: Any) -> NDArray:
        """Validate labels of the rows of X."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
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


def require_solution(name: str, *parts: NDArray) -> None:
    """Raise NoSolutionError unless every part is finite and has an entry that is not zero."""
    for part in parts:
        if part.size == 0 or not np.any(part):
            raise NoSolutionError(f"{name} ends with a metric that is zero")
        if not np.isfinite(part).all():
            raise NoSolutionError(f"{name} ends with a metric that is not finite")
