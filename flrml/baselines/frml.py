"""FRML: descent over positive semi-definite matrices of a fixed rank."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import sklearn.neighbors  # noqa: F401  # else the first fit would import it
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import _fit_context

from flrml.baselines.common import (
    ReducedBaseline,
    laplacian,
    neighbors_outside,
    neighbors_within,
    squared_distances,
)
from flrml.loss import softplus
from flrml.metric import POSITIVE_INTEGER
from flrml.spectrum import Spectrum
from flrml.stiefel import SUFFICIENT_DECREASE


@dataclass(eq=False, repr=False)
class FRML(ReducedBaseline):
    """Fixed-rank supervised metric learning on a Riemannian manifold (Mu, AAAI 2016).

    Minimises f(W) = λ/2 ‖W‖² + mean_i μ(1 + mean_j d_W(i, j) − mean_k d_W(i, k)) over the positive semi-definite
    W = Q diag(s) Qᵀ of rank d on the reduced data Z, with μ(x) = log(1 + eˣ), by steepest descent on the manifold
    with a second-order retraction. j runs over the nearest samples of i's class and k over the nearest of other
    classes.

    Geometry, retraction and smooth hinge are the published ones; how samples are weighed in the objective is not
    known to us with certainty. Neighbours, λ and the stopping rule are ours, and so is the start: the leading
    singular directions, scaled so that the median neighbour of the same class has distance 1. Other scales of the
    start end in the same place.

    Parameters
    ----------
    n_components : int, default=100
        Rank d.
    lam : float, default=1e-6
        Weight λ of the squared norm.
    n_neighbors : int, default=5
        Neighbours within and outside the class.
    max_iter, tol, max_rank, random_state, verbose
        As for :class:`flrml.FLRML`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map L = diag(√s) Qᵀ Uᵀ.
    """

    n_components: int = 100
    _: KW_ONLY
    lam: float = 1e-6
    n_neighbors: int = 5
    max_iter: int = 100
    tol: float = 1e-4
    max_rank: int = 3000
    random_state: Any = None
    verbose: int = 0

    _parameter_constraints: ClassVar[dict] = {
        **ReducedBaseline._parameter_constraints,
        "n_neighbors": [POSITIVE_INTEGER],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, spectrum: Spectrum | None = None) -> "FRML":
        """Learn the metric from labels; see :meth:`flrml.FLRML.fit` for the arguments."""
        label, reduced, _ = self._reduce_labels(X, y, spectrum)
        Z = reduced.Z
        d = self._check_directions(self.n_components, reduced.rank, f"the rank {reduced.rank} of the data")
        problem = Objective.of_labels(Z, label, self.n_neighbors, self.lam)
        Q = np.eye(reduced.rank, d, dtype=Z.dtype)
        distance = float(np.median(squared_distances(Z[:, :d], *problem.near)))
        s = np.full(d, 1 / max(distance, 1e-12), dtype=Z.dtype)

        value, GQ = problem.value_gradient(Q, s)
        history, step = [value], np.inf
        for iteration in range(1, self.max_iter + 1):
            xi = Tangent.of(Q, GQ)
            if xi.squared_norm() == 0:
                break
            longest = float(np.linalg.norm(s)) / xi.squared_norm() ** 0.5  # moves W by its length
            step = min(step, longest)
            decrease = SUFFICIENT_DECREASE * xi.squared_norm()
            for _ in range(30):
                Q_next, s_next = xi.retract(s, -step)
                trial = problem.value(Q_next, s_next)
                if trial <= value - step * decrease:
                    break
                step /= 2
            else:
                break
            Q, s, step = Q_next, s_next, 4 * step
            previous, (value, GQ) = value, problem.value_gradient(Q, s)
            history.append(value)
            self._log(f"iteration {iteration}/{self.max_iter}: objective {value:.6g}", history)
            if iteration > 1 and previous - value <= self.tol * abs(previous):
                break
        self._set_result(reduced.lift((Q * np.sqrt(s)).T), history, len(history) - 1)
        return self


@dataclass
class Objective:
    """f and its gradient times Q, at W = Q diag(s) Qᵀ; near and far are pairs (i, j) and (i, k)."""

    Z: NDArray
    near: tuple[NDArray, NDArray]
    far: tuple[NDArray, NDArray]
    lam: float

    @classmethod
    def of_labels(cls, Z: NDArray, label: NDArray, k: int, lam: float) -> "Objective":
        """Take the k nearest neighbours of each sample in its class and outside."""
        outside = neighbors_outside(Z, label, k)
        far = (np.repeat(np.arange(len(Z)), outside.shape[1]), outside.ravel())
        return cls(Z, neighbors_within(Z, label, k), far, lam)

    def value(self, Q: NDArray, s: NDArray) -> float:
        """Return f."""
        return self._value(s, self._arguments(self._embed(Q, s)))

    def value_gradient(self, Q: NDArray, s: NDArray) -> tuple[float, NDArray]:
        """Return f and G Q, where G is the gradient with respect to W."""
        argument = self._arguments(self._embed(Q, s))
        c = expit(argument) / len(self.Z)
        a, b = (np.concatenate(parts) for parts in zip(self.near, self.far, strict=True))
        weights = np.concatenate(
            [sign * (c * self._shares(i))[i] for sign, (i, _) in ((1, self.near), (-1, self.far))]
        )
        K = laplacian(a, b, weights.astype(self.Z.dtype), len(self.Z))
        return self._value(s, argument), self.Z.T @ (K @ (self.Z @ Q)) + self.lam * Q * s

    def _embed(self, Q: NDArray, s: NDArray) -> NDArray:
        return self.Z @ (Q * np.sqrt(s))

    def _value(self, s: NDArray, argument: NDArray) -> float:
        return float(self.lam / 2 * np.sum(s.astype(np.float64) ** 2) + np.mean(softplus(argument)))

    def _arguments(self, Y: NDArray) -> NDArray[np.float64]:
        n = len(self.Z)
        means = [
            np.bincount(i, squared_distances(Y, i, j), minlength=n) * self._shares(i)
            for i, j in (self.near, self.far)
        ]
        return 1 + means[0] - means[1]

    def _shares(self, i: NDArray) -> NDArray[np.float64]:
        return 1 / np.maximum(np.bincount(i, minlength=len(self.Z)), 1)


@dataclass
class Tangent:
    """Tangent vector at W: Q A Qᵀ + B Qᵀ + Q Bᵀ with symmetric A and QᵀB = 0."""

    Q: NDArray
    A: NDArray
    B: NDArray

    @classmethod
    def of(cls, Q: NDArray, GQ: NDArray) -> "Tangent":
        """Project a symmetric G, of which only G Q is needed."""
        A = Q.T @ GQ
        return cls(Q, (A + A.T) / 2, GQ - Q @ A)

    def squared_norm(self) -> float:
        """Return ‖·‖²."""
        return float(np.sum(self.A**2) + 2 * np.sum(self.B**2))

    def retract(self, s: NDArray, t: float) -> tuple[NDArray, NDArray]:
        """Return the second-order retraction of W + t·(this), as Q and s.

        It is C diag(1/s) Cᵀ with C = Q (diag(s) + A/2 − A S⁻¹ A / 8) + B (I − S⁻¹ A / 2).
        """
        A, B = t * self.A, t * self.B
        A_over_s = A / s[:, None]  # S⁻¹ A
        C = self.Q @ (np.diag(s) + A / 2 - A @ A_over_s / 8) + B @ (np.eye(len(s), dtype=s.dtype) - A_over_s / 2)
        Q, R = scipy.linalg.qr(C / np.sqrt(s), mode="economic")
        left, root, _ = scipy.linalg.svd(R)
        s_next = root**2
        return Q @ left, np.maximum(s_next, 1e-8 * s_next[0])  # the next retraction divides by it
