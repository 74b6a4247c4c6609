"""Neighbourhood components analysis, by scikit-learn, on the reduced data."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from flrml.baselines.common import ReducedBaseline
from flrml.metric import POSITIVE_REAL
from flrml.spectrum import Spectrum


@dataclass(eq=False, repr=False)
class NCA(ReducedBaseline):
    """Neighbourhood components analysis (:class:`sklearn.neighbors.NeighborhoodComponentsAnalysis`).

    Raises the expected share of samples whose randomly chosen neighbour is of their class. It holds several dense
    n × n matrices: some thousand samples are the limit. All defaults are ours, and so is the start, the leading
    singular directions scaled so that the embedded rows have the root mean square length ``scale``: rows of unit
    length are too close together for the neighbour probabilities to distinguish them.

    Parameters
    ----------
    scale : float, default=3.0
        Root mean square length of the embedded rows at the start.
    max_iter : int, default=15
        Largest number of L-BFGS iterations.
    n_components, max_rank, random_state
        As for :class:`flrml.FLRML`.
    """

    n_components: int = 100
    _: KW_ONLY
    scale: float = 3.0
    max_iter: int = 15
    max_rank: int = 200
    random_state: Any = None

    _parameter_constraints: ClassVar[dict] = {**ReducedBaseline._parameter_constraints, "scale": [POSITIVE_REAL]}

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, spectrum: Spectrum | None = None) -> "NCA":
        """Learn the directions from labels; see :meth:`flrml.FLRML.fit` for the arguments."""
        label, reduced, _ = self._reduce_labels(X, y, spectrum)
        d = min(self.n_components, reduced.rank)
        length = np.linalg.norm(reduced.singular_values[:d]) / np.sqrt(len(label))
        start = np.eye(d, reduced.rank) * (self.scale / length)
        solver = NeighborhoodComponentsAnalysis(d, init=start, max_iter=self.max_iter).fit(reduced.Z, label)
        Lz = solver.components_
        self._set_result(reduced.lift(Lz.astype(reduced.Z.dtype)), n_iter=solver.n_iter_)
        return self
