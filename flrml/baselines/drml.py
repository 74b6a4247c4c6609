"""DRML: a subspace and a metric in it, by conjugate gradients on their manifold."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from flrml import stiefel
from flrml.baselines.common import Baseline, Reduced, laplacian, pairs_of, squared_distances
from flrml.exceptions import NoSolutionError
from flrml.extras import require
from flrml.loss import softplus
from flrml.metric import POSITIVE_REAL
from flrml.rows import product, product_transposed
from flrml.spectrum import decompose


@dataclass(eq=False, repr=False)
class DRML(Baseline):
    """Dimensionality reduction and metric learning in one (Harandi, Salzmann & Hartley, ICML 2017).

    d²(x, x') = (x − x')ᵀ W M Wᵀ (x − x') with orthonormal W (D × d) and symmetric positive definite M (d × d).
    Minimises the mean over pairs of log(1 + exp(y (d² − u))) plus λ (tr M − log det M − d), where y is +1 for
    similar and −1 for dissimilar pairs, by Riemannian conjugate gradients (pymanopt) on the product of both
    manifolds. Works on X itself, sparse or not.

    Pairs come from triplets (i, j, k): (i, j) is similar, (i, k) dissimilar. The geometry is the published one;
    loss and regulariser are to the best of our knowledge. Threshold u, λ, the number of iterations and the start,
    W = the leading singular vectors of X and M = a multiple of I that gives the median dissimilar pair the distance
    u, are ours.

    Parameters
    ----------
    n_components : int, default=100
        Dimension d of the subspace.
    threshold : float, default=1.0
        Squared distance u that separates similar from dissimilar pairs.
    lam : float, default=1e-3
        Weight λ of the pull of M to the identity.
    init : {"svd", "random"}, default="svd"
        Start W in the leading singular vectors or in random directions; on text the latter shrink all distances to
        almost nothing, and so the gradient.
    tol : float, default=1e-6
        Norm of the gradient below which the search stops.
    max_iter, n_triplets, random_state, verbose
        As for :class:`flrml.FLRML`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map L = M^½ Wᵀ.
    """

    n_components: int = 100
    _: KW_ONLY
    threshold: float = 1.0
    lam: float = 1e-3
    init: str = "svd"
    max_iter: int = 30
    tol: float = 1e-6
    n_triplets: int = 5
    random_state: Any = None
    verbose: int = 0

    _parameter_constraints: ClassVar[dict] = {
        **Baseline._parameter_constraints,
        "threshold": [POSITIVE_REAL],
        "init": [StrOptions({"svd", "random"})],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, triplets: Any = None) -> "DRML":
        """Learn the map from labels or triplets; see :meth:`flrml.MFLRML.fit` for the arguments."""
        X = self._check_rows(X, reset=True, ensure_min_samples=3)
        random = check_random_state(self.random_state)
        T = self._check_triplets(X, y, triplets, self.n_triplets, random)
        W = self._start(X, random)
        Y = product(X, W)
        spread = float(np.median(squared_distances(Y, T[:, 0], T[:, 2])))
        if not spread > 0:
            raise NoSolutionError("DRML starts with all samples in one place")
        problem = Objective(X, *pairs_of(T), self.threshold, self.lam)
        start = [W, np.eye(W.shape[1]) * (self.threshold / spread)]
        (W, M), history = _conjugate_gradients(problem, start, self.max_iter, self.tol, self.verbose)
        if not np.isfinite(M).all():
            raise NoSolutionError("DRML ends with a metric that is not finite")
        values, H = scipy.linalg.eigh(M)
        L = (np.sqrt(np.maximum(values, 0))[:, None] * H.T) @ W.T
        self._set_result(L.astype(X.dtype), history, len(history) - 1)
        return self

    def _start(self, X: Any, random: np.random.RandomState) -> NDArray[np.float64]:
        limit = f"the {X.shape[0]} rows or {X.shape[1]} columns of X"
        d = self._check_directions(self.n_components, min(X.shape), limit)
        if self.init == "random":
            return stiefel.random_point(X.shape[1], d, random)
        reduced = Reduced.of(decompose(X, d, random_state=random), d)
        if reduced.rank < d:
            d = self._check_directions(self.n_components, reduced.rank, f"the rank {reduced.rank} of the data")
        U = reduced.lift(np.eye(reduced.rank, dtype=reduced.Z.dtype)).T.astype(np.float64)
        return stiefel.polar(U)


@dataclass
class Objective:
    """Value and Euclidean gradients at (W, M) for pairs (a, b) with signs y; X is used only in products."""

    X: Any
    a: NDArray
    b: NDArray
    signs: NDArray
    threshold: float
    lam: float
    _last: tuple | None = None

    def value(self, W: NDArray, M: NDArray) -> float:
        """Return f."""
        pull = np.trace(M) - np.linalg.slogdet(M)[1] - len(M)
        return float(np.mean(softplus(self._arguments(W, M)[1])) + self.lam * pull)

    def gradient(self, W: NDArray, M: NDArray) -> tuple[NDArray, NDArray]:
        """Return the derivatives with respect to W and M."""
        Y, argument = self._arguments(W, M)
        K = laplacian(self.a, self.b, self.signs * expit(argument) / len(argument), self.X.shape[0])
        KY = K @ Y
        G_M = Y.T @ KY + self.lam * (np.eye(len(M)) - np.linalg.inv(M))
        return 2 * product_transposed(self.X, KY) @ M, (G_M + G_M.T) / 2

    def _arguments(self, W: NDArray, M: NDArray) -> tuple[NDArray, NDArray]:
        # The optimiser evaluates value and gradient at the same point in turn.
        if self._last is None or self._last[0] is not W or self._last[1] is not M:
            Y = product(self.X, W)
            root = np.linalg.cholesky((M + M.T) / 2)
            distance = squared_distances(Y @ root, self.a, self.b)
            self._last = (W, M, Y, self.signs * (distance - self.threshold))
        return self._last[2], self._last[3]


def _conjugate_gradients(
    problem: Objective, start: list[NDArray], max_iter: int, tol: float, verbose: int
) -> tuple[list[NDArray], list[float]]:
    pymanopt = require("pymanopt", extra="baselines", needed_by="DRML")
    manifolds = pymanopt.manifolds
    manifold = manifolds.Product(
        [manifolds.Stiefel(*start[0].shape), manifolds.SymmetricPositiveDefinite(len(start[1]))]
    )

    @pymanopt.function.numpy(manifold)
    def cost(W: NDArray, M: NDArray) -> float:
        return problem.value(W, M)

    @pymanopt.function.numpy(manifold)
    def gradient(W: NDArray, M: NDArray) -> tuple[NDArray, NDArray]:
        return problem.gradient(W, M)

    solver = pymanopt.optimizers.ConjugateGradient(
        max_iterations=max_iter,
        max_time=np.inf,
        min_gradient_norm=tol,
        verbosity=2 if verbose else 0,
        log_verbosity=1,
    )
    try:
        result = solver.run(pymanopt.Problem(manifold, cost, euclidean_gradient=gradient), initial_point=start)
    except np.linalg.LinAlgError as error:
        raise NoSolutionError(f"DRML: the metric is no longer positive definite ({error})") from error
    return list(result.point), [float(value) for value in result.log["iterations"]["cost"]]
