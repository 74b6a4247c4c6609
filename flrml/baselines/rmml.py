"""RMML: the metric half-way on the geodesic between similar and dissimilar pairs."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context

from flrml.baselines.common import ReducedBaseline, psd_factor
from flrml.baselines.kissme import inverse, pair_covariances
from flrml.extras import require
from flrml.metric import POSITIVE_REAL, UNIT_INTERVAL
from flrml.spectrum import Spectrum


@dataclass(eq=False, repr=False)
class RMML(ReducedBaseline):
    """Riemannian metric learning (Zhu et al., IJCAI 2018), for vectors.

    Minimises Σ d_M over similar pairs plus Σ d_{M⁻¹} over dissimilar ones, with a pull to the identity. The
    minimiser lies on the geodesic between (S + λI)⁻¹ and D + λI at t = 1/2. Computed on the reduced data Z.

    Pairs come from triplets (i, j, k): (i, j) is similar, (i, k) dissimilar. S and D are means over the pairs here,
    sums in other implementations; that only changes the scale of λ, whose published value is unknown. λ and the
    cut to ``n_components`` directions, those in which the embedded training data are longest, are ours.

    Parameters
    ----------
    n_components : int, default=100
        Largest rank of the map.
    lam : float, default=1e-2
        Pull λ to the identity, as a multiple of the mean eigenvalue of the dissimilar pairs' D.
    t : float, default=0.5
        Place on the geodesic: 0 heeds only similar pairs, 1 only dissimilar ones.
    n_triplets, max_rank, random_state
        As for :class:`flrml.FLRML`.
    """

    n_components: int = 100
    _: KW_ONLY
    lam: float = 1e-2
    t: float = 0.5
    n_triplets: int = 5
    max_rank: int = 3000
    random_state: Any = None

    _parameter_constraints: ClassVar[dict] = {
        **ReducedBaseline._parameter_constraints,
        "lam": [POSITIVE_REAL],
        "t": [UNIT_INTERVAL],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, triplets: Any = None, spectrum: Spectrum | None = None) -> "RMML":
        """Learn the metric from labels or triplets; see :meth:`flrml.FLRML.fit` for the arguments."""
        T, reduced, _ = self._reduce_triplets(X, y, triplets, spectrum)
        S, D = pair_covariances(reduced.Z, T)
        M = geodesic_metric(S, D, self.lam * np.trace(D) / len(D), self.t)
        Lz = reduced.strongest(psd_factor(M), self.n_components)
        self._set_result(reduced.lift(Lz.astype(reduced.Z.dtype)))
        return self


def geodesic_metric(S: NDArray, D: NDArray, lam: float, t: float = 0.5) -> NDArray:
    """Return (S + λI)⁻¹ #_t (D + λI), the point t of the geodesic between positive definite matrices."""
    geodesic_riemann = require("pyriemann.geometry.geodesic", extra="baselines", needed_by="RMML").geodesic_riemann
    eye = np.eye(len(S))
    S_inverse = inverse(S + lam * eye)
    M = geodesic_riemann((S_inverse + S_inverse.T) / 2, D + lam * eye, alpha=t)
    return (M + M.T) / 2
