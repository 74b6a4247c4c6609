"""Controls: metrics that use no labels."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from flrml.baselines.common import Baseline, ReducedBaseline
from flrml.metric import require_square
from flrml.spectrum import Spectrum


class _Unsupervised:
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.target_tags.required = False
        return tags


class CosineControl(_Unsupervised, Baseline):
    """The data as they are, compared by cosine: ``transform`` returns the rows."""

    metric: ClassVar[str] = "cosine"
    _parameter_constraints: ClassVar[dict] = {}

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> "CosineControl":
        """Check X; nothing is learned."""
        self._check_rows(X, reset=True, lazy=True)
        self.n_iter_, self.history_ = 0, np.empty(0)
        return self

    def transform(self, X: Any) -> Any:
        """Return the rows unchanged, sparse ones sparse."""
        check_is_fitted(self)
        return self._check_rows(X, reset=False, lazy=True)

    def get_mahalanobis_matrix(self) -> NDArray:
        """Return the identity, of shape (n_features, n_features)."""
        check_is_fitted(self)
        require_square(self.n_features_in_, np.float64)
        return np.eye(self.n_features_in_)

    @property
    def _n_features_out(self) -> int:
        return self.n_features_in_


@dataclass(eq=False, repr=False)
class SVDControl(_Unsupervised, ReducedBaseline):
    """The leading singular directions of the data, compared by cosine: latent semantic analysis.

    Parameters
    ----------
    whiten : bool, default=False
        Scale every direction to the same length, as FLRML's start does.
    n_components, random_state
        As for :class:`flrml.FLRML`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map: Uᵀ, or Σ⁻¹Uᵀ if ``whiten`` is set.
    """

    n_components: int = 100
    _: KW_ONLY
    whiten: bool = False
    random_state: Any = None

    metric: ClassVar[str] = "cosine"
    _parameter_constraints: ClassVar[dict] = {**ReducedBaseline._parameter_constraints, "whiten": ["boolean"]}

    @property
    def max_rank(self) -> int:  # type: ignore[override]
        """Directions kept of the SVD."""
        return self.n_components

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, spectrum: Spectrum | None = None) -> "SVDControl":
        """Take the leading directions of X, or of its given spectrum; y is not used."""
        X = self._check_rows(X, reset=True)
        reduced = self._reduce(X, spectrum, check_random_state(self.random_state))
        sigma = reduced.singular_values
        self._set_result(reduced.lift(np.diag(1 / sigma if self.whiten else np.ones_like(sigma))), n_iter=0)
        return self
