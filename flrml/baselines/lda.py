"""Linear discriminant analysis, by scikit-learn, on the reduced data."""

from numbers import Real
from typing import Any

from sklearn.base import _fit_context
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from flrml.baselines.common import ReducedBaseline
from flrml.spectrum import Spectrum


class LDA(ReducedBaseline):
    """Linear discriminant analysis with shrinkage, as scikit-learn has it.

    Learns at most one direction fewer than there are classes.

    Parameters
    ----------
    n_components : int, default 100
        Largest number of directions.
    shrinkage : float, "auto" or None, default 0.3
        Weight of the mean variance in the covariance within classes.
    max_rank : int, default 3000
        Largest number of singular directions.
    random_state : int, RandomState or None
        Seed of the randomized SVD, where that is used.

    Attributes
    ----------
    components_ : ndarray of shape (d, D)
        The map.
    n_iter_ : int
        1; the solution is closed-form.
    history_ : ndarray of shape (0,)
        Empty.
    """

    _parameter_constraints: dict = {
        name: ReducedBaseline._parameter_constraints[name] for name in ("n_components", "max_rank", "random_state")
    } | {"shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"}), None]}

    def __init__(
        self,
        n_components: int = 100,
        *,
        shrinkage: float | str | None = 0.3,
        max_rank: int = 3000,
        random_state: Any = None,
    ):
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.max_rank = max_rank
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, spectrum: Spectrum | None = None) -> "LDA":
        """Learn the directions from labels; see :meth:`flrml.FLRML.fit` for the arguments."""
        X = self._check_rows(X, reset=True, ensure_min_samples=3)
        label = self._labels(X, y)
        reduced = self._reduce(X, spectrum, check_random_state(self.random_state))
        d = min(self.n_components, int(label.max()), reduced.rank)
        solver = LinearDiscriminantAnalysis(solver="eigen", shrinkage=self.shrinkage, n_components=d)
        solver.fit(reduced.Z, label)
        Lz = solver.scalings_[:, :d].T
        self._found(reduced.lift(Lz.astype(reduced.Z.dtype)))
        return self
