"""What every learned linear map offers, and how its input is checked."""

import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from flrml.exceptions import FlrmlWarning
from flrml.rows import BinaryRows, in_blocks, on_disk, product
from flrml.supervision import Labels, Supervision, Triplets
from flrml.triplets import check_triplets, draw_triplets

# Parameters of FLRML and M-FLRML alike
FLRML_RANGES: dict[str, list] = {
    "n_components": [Interval(Integral, 1, None, closed="left")],
    "margin_ratio": [Interval(Real, 0, None, closed="neither")],
    "n_triplets": [Interval(Integral, 1, None, closed="left")],
    "variant": [StrOptions({"paper", "reference", "ridge"})],
    "ridge": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
    "within": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
    "local": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
    "rounds": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


class LowRankMetric(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What every learned map x ↦ L x offers: embedding, scores of pairs, and checks of its input."""

    n_components: int
    n_triplets: int
    verbose: int
    n_features_in_: int
    components_: NDArray

    def transform(self, X: Any) -> Any:
        """Embed rows: X Lᵀ. Compare the result by cosine.

        Parameters
        ----------
        X : array-like, CSR matrix, BinaryRows or dask array of shape (n, D)
            Rows to embed.

        Returns
        -------
        ndarray of shape (n, d), or dask array where X is one
            In the type of the map, float32 or float64.
        """
        check_is_fitted(self)
        if in_blocks(X):
            from flrml.distributed import embed

            return embed(X, self.components_)
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
        return draw_triplets(self._checked_labels(X, y), self.n_triplets, random)

    def _supervision(self, X: Any, y: Any, triplets: Any, groups: Any) -> Supervision:
        """What the ridge variant learns from: the triplets where they are given, else labels."""
        if groups is not None:
            groups = column_or_1d(groups)
            check_consistent_length(X, groups)
            groups = np.unique(groups, return_inverse=True)[1]
        if triplets is not None:
            return Triplets(check_triplets(triplets, X.shape[0]), X.shape[0], groups)
        labels = Labels(np.unique(self._checked_labels(X, y), return_inverse=True)[1], groups)
        if labels.label.max() == 0:
            raise ValueError("y has 1 class: at least two classes are needed, so that every sample has a negative")
        if len(labels.anchors) == 0:
            where = "in its class" if groups is None else "of its class outside its group"
            raise ValueError(f"no sample has another one {where}, so none has a positive")
        return labels

    def _checked_labels(self, X: Any, y: Any) -> NDArray:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None. "
                "Give labels y, or triplets=."
            )
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        check_classification_targets(y)
        return y

    def _check_in_blocks(self) -> None:
        """Refuse what a dask array cannot be trained with."""
        if getattr(self, "variant", None) == "ridge":
            raise ValueError(
                "variant='ridge' needs rows in memory or in a memory map; a dask array takes variant='paper' or "
                "'reference'"
            )

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
