"""LMNN: neighbours of the same class are pulled near, samples of other classes pushed a margin farther."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.optimize
import scipy.sparse as sp
import sklearn.neighbors  # noqa: F401  # else the first fit would import it
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions

from flrml.baselines.common import (
    ReducedBaseline,
    laplacian,
    neighbors_outside,
    neighbors_within,
    squared_distances,
    temporary_blocks,
)
from flrml.metric import POSITIVE_INTEGER, UNIT_INTERVAL
from flrml.spectrum import Spectrum


@dataclass(eq=False, repr=False)
class LMNN(ReducedBaseline):
    """Large margin nearest neighbours (Weinberger & Saul, JMLR 2009).

    f(L) = (1 − μ) Σ ‖L(x_i − x_j)‖² + μ Σ [1 + ‖L(x_i − x_j)‖² − ‖L(x_i − x_l)‖²]₊ over the target neighbours j
    of i, its nearest of the same class, and the impostors l of other classes; divided by the number of samples.
    Minimised over L (d × r) on the reduced data Z by L-BFGS. The targets are fixed; the impostors of a sample
    are its nearest samples of other classes under the current L, found again every few iterations.

    The objective is the published one with the hinge squared, as in later versions of the authors' code. Ours
    are: the rank d of L from the start, where the publication learns a full matrix; the start, the leading
    singular directions scaled so that the median target has distance 1; and the number of impostors.

    Parameters
    ----------
    n_targets : int, default=3
        Target neighbours per sample.
    mu : float, default=0.5
        Weight μ of the impostors.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        ``"hinge"`` is the publication's; L-BFGS then works with a subgradient.
    n_impostors : int, default=50
        Impostors that are looked at per sample.
    max_iter : int, default=50
        Largest number of L-BFGS iterations in all.
    refresh : int, default=10
        Iterations after which the impostors are found again.
    tol : float, default=1e-4
        Relative change of the objective over one refresh below which the search stops.
    n_components, max_rank, random_state, verbose
        As for :class:`flrml.FLRML`.
    """

    n_components: int = 100
    _: KW_ONLY
    n_targets: int = 3
    mu: float = 0.5
    loss: str = "squared_hinge"
    n_impostors: int = 50
    max_iter: int = 50
    refresh: int = 10
    tol: float = 1e-4
    max_rank: int = 3000
    random_state: Any = None
    verbose: int = 0

    _parameter_constraints: ClassVar[dict] = {
        **ReducedBaseline._parameter_constraints,
        "n_targets": [POSITIVE_INTEGER],
        "mu": [UNIT_INTERVAL],
        "loss": [StrOptions({"squared_hinge", "hinge"})],
        "n_impostors": [POSITIVE_INTEGER],
        "refresh": [POSITIVE_INTEGER],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, spectrum: Spectrum | None = None) -> "LMNN":
        """Learn the map from labels; see :meth:`flrml.FLRML.fit` for the arguments."""
        label, reduced, _ = self._reduce_labels(X, y, spectrum)
        Z = reduced.Z
        d = self._check_directions(self.n_components, reduced.rank, f"the rank {reduced.rank} of the data")
        targets = neighbors_within(Z, label, self.n_targets)
        L = np.eye(d, reduced.rank, dtype=Z.dtype)
        L /= np.sqrt(max(np.median(squared_distances(Z @ L.T, *targets)), 1e-12))

        history: list[float] = []
        while len(history) <= self.max_iter:
            impostors = neighbors_outside(Z @ L.T, label, self.n_impostors)
            objective = Objective(Z, *targets, impostors, self.mu, self.loss == "squared_hinge")
            started = objective(L.ravel())[0]
            if not history:
                history.append(started)
            budget = min(self.refresh, self.max_iter + 1 - len(history))
            found = scipy.optimize.minimize(
                objective,
                L.ravel().astype(np.float64),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": budget, "maxfun": 3 * budget},
                callback=lambda intermediate_result: history.append(float(intermediate_result.fun)),
            )
            L = found.x.reshape(L.shape).astype(Z.dtype)
            self._log(f"iteration {len(history) - 1}/{self.max_iter}: objective {history[-1]:.6g}", history)
            if started - found.fun <= self.tol * abs(started) or len(history) > self.max_iter:
                break
        self._set_result(reduced.lift(L), history, len(history) - 1)
        return self


@dataclass
class Objective:
    """Value and gradient at vec(L), for targets (i, j) and the impostors in row i of an n × k array."""

    Z: NDArray
    i: NDArray
    j: NDArray
    impostors: NDArray
    mu: float = 0.5
    squared: bool = True

    def __call__(self, L_flat: NDArray) -> tuple[float, NDArray]:
        n, k = self.impostors.shape
        L = L_flat.reshape(-1, self.Z.shape[1]).astype(self.Z.dtype)
        Y = self.Z @ L.T
        near = squared_distances(Y, self.i, self.j).astype(np.float64)
        far = squared_distances(Y, np.repeat(np.arange(n), k), self.impostors.ravel()).reshape(n, k)
        pull = (1 - self.mu) * near.sum()
        w_near, w_far, push = np.full(len(near), 1 - self.mu), np.zeros((n, k)), 0.0
        for edges in temporary_blocks(len(near), k):
            hinge = np.maximum(1 + near[edges, None] - far[self.i[edges]], 0)
            slope = 2 * hinge if self.squared else (hinge > 0).astype(np.float64)
            push += float(np.sum(hinge**2 if self.squared else hinge))
            w_near[edges] += self.mu * slope.sum(axis=1)
            i = self.i[edges]
            w_far -= self.mu * (sp.csr_matrix((np.ones(len(i)), (i, np.arange(len(i)))), shape=(n, len(i))) @ slope)
        a = np.concatenate((self.i, np.repeat(np.arange(n), k)))
        b = np.concatenate((self.j, self.impostors.ravel()))
        K = laplacian(a, b, np.concatenate((w_near, w_far.ravel())).astype(self.Z.dtype), n)
        G = 2 * (self.Z.T @ (K @ Y)).T
        return (pull + self.mu * push) / n, G.ravel().astype(np.float64) / n
