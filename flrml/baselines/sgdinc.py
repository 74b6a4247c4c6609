"""SGDINC: stochastic steps on a metric that is kept in factors."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.utils import check_random_state

from flrml.baselines.common import Baseline, laplacian
from flrml.metric import POSITIVE_REAL, require_solution
from flrml.rows import add_product_transposed, gram, product

ROWS_PER_UPDATE = 2**16
GRAM_CUT = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-10}  # of a Gram matrix's eigenvalues


@dataclass(eq=False, repr=False)
class SGDINC(Baseline):
    """Stochastic gradient descent with low-rank factors of increments (Zhang & Zhang, AAAI 2017).

    Minimises the mean hinge [1 + d_M(i, j) − d_M(i, k)]₊ over triplets plus λ tr(M), over positive semi-definite
    M = Q diag(s) Qᵀ, by proximal steps on mini-batches from M = 0. A step is exact but for the cap on the rank: it
    decomposes M and the batch's low-rank gradient in the span of Q and of the batch's rows, through small Gram
    matrices, and never forms a D × D matrix nor a dense batch. Besides X, only Q (D × d) is held, so a million
    features are no obstacle; works on X itself, sparse or not.

    The factored step is determined by the published method. Ours are all constants, the step η₀/√t, and the cap
    on the rank, which the publication leaves to λ.

    Parameters
    ----------
    n_components : int, default=100
        Largest rank; the leading eigenpairs are kept.
    eta : float, default=100.0
        First step η₀, in units of one over the mean squared distance of the first batch's dissimilar pairs.
    lam : float, default=1e-4
        Weight λ of the trace.
    batch_triplets : int, default=80
        Triplets per step.
    n_steps : int, default=300
        Number of steps.
    n_triplets, random_state, verbose
        As for :class:`flrml.FLRML`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map L = diag(√s) Qᵀ.
    weights_ : ndarray of shape (n_components,)
        Eigenvalues s of M.
    history_ : ndarray of shape (n_iter,)
        Mean hinge of each batch before its step, plus λ tr(M).
    """

    n_components: int = 100
    _: KW_ONLY
    eta: float = 100.0
    lam: float = 1e-4
    batch_triplets: int = 80
    n_steps: int = 300
    n_triplets: int = 5
    random_state: Any = None
    verbose: int = 0

    _parameter_constraints: ClassVar[dict] = {**Baseline._parameter_constraints, "eta": [POSITIVE_REAL]}

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, triplets: Any = None) -> "SGDINC":
        """Learn the map from labels or triplets; of a memory map, only the batches' rows are read.

        See :meth:`flrml.MFLRML.fit` for the arguments.
        """
        X = self._check_rows(X, reset=True, lazy=True, ensure_min_samples=3)
        random = check_random_state(self.random_state)
        T = self._check_triplets(X, y, triplets, self.n_triplets, random)
        metric = FactoredMetric(X.shape[1], min(self.n_components, X.shape[1]), X.dtype)
        history, unit = [], 0.0
        for t in range(1, self.n_steps + 1):
            chosen = T[random.choice(len(T), min(self.batch_triplets, len(T)), replace=False)]
            rows, local = np.unique(chosen, return_inverse=True)
            local = local.reshape(chosen.shape)
            batch = X[rows]
            if t == 1:
                unit = 1 / _mean_squared_distance(batch, local)
            history.append(metric.step(batch, local, self.eta * unit / np.sqrt(t), self.lam))
            if t % 20 == 0:
                self._log(f"step {t}/{self.n_steps}: objective {history[-1]:.6g}, rank {metric.rank}", history)
        require_solution("SGDINC", metric.s)
        self.weights_ = metric.s.astype(X.dtype)
        self._set_result(metric.take_map(), history, self.n_steps)
        return self


class FactoredMetric:
    """M = Q diag(s) Qᵀ of rank at most ``cap``, Q in the first columns of one D × cap array."""

    def __init__(self, n_features: int, cap: int, dtype: Any):
        self._Q = np.zeros((n_features, cap), dtype=dtype)
        self.s = np.zeros(0)

    @property
    def rank(self) -> int:
        """Number of positive eigenvalues."""
        return len(self.s)

    @property
    def Q(self) -> NDArray:
        """Orthonormal D × rank."""
        return self._Q[:, : self.rank]

    def step(self, batch: Any, T: NDArray, eta: float, lam: float) -> float:
        """Set M to the psd part of M − η G − η λ I, G the gradient of the mean hinge over triplets T of the batch.

        Return the objective before the step.
        """
        i, j, k = T.T
        F = product(batch, self.Q).astype(np.float64) if self.rank else np.zeros((batch.shape[0], 0))
        near, far = F[i] - F[j], F[i] - F[k]
        hinge = 1 + (near**2 - far**2) @ self.s
        objective = float(np.maximum(hinge, 0).mean() + lam * self.s.sum())
        i, j, k = T[hinge > 0].T
        weights = np.repeat([eta / len(T), -eta / len(T)], len(i))
        K = laplacian(np.concatenate((i, i)), np.concatenate((j, k)), weights, batch.shape[0]).toarray()

        # In the basis [Q, batchᵀ] with Gram matrix Γ, M − η G is the block matrix N. Γ is taken from Q as it is,
        # not as it should be, so rounding errors do not pile up.
        QtQ = (self.Q.T @ self.Q).astype(np.float64)
        gamma = np.block([[QtQ, F.T], [F, gram(batch)]])
        N = scipy.linalg.block_diag(np.diag(self.s), -K)
        g, H = scipy.linalg.eigh(gamma)
        sound = g > GRAM_CUT[self._Q.dtype] * max(g[-1], 0)
        if not sound.any():
            return objective
        root, H = np.sqrt(g[sound]), H[:, sound]
        values, vectors = scipy.linalg.eigh((H * root).T @ N @ (H * root))
        values, vectors = values[::-1] - eta * lam, vectors[:, ::-1]
        kept = slice(0, min(int(np.sum(values > 0)), self._Q.shape[1]))
        self._move((H / root) @ vectors[:, kept], batch)
        self.s = values[kept]
        return objective

    def _move(self, C: NDArray, batch: Any) -> None:
        """Set Q ← [Q, batchᵀ] C in place, some rows at a time."""
        C = C.astype(self._Q.dtype)
        old, new = self.rank, C.shape[1]
        for start in range(0, len(self._Q), ROWS_PER_UPDATE):
            rows = self._Q[start : start + ROWS_PER_UPDATE]
            rows[:, :new] = rows[:, :old] @ C[:old]
        if new:
            add_product_transposed(self._Q[:, :new], batch, C[old:])

    def take_map(self) -> NDArray:
        """Return L = diag(√s) Qᵀ, in the memory of Q, which is overwritten."""
        L_transposed = self.Q
        L_transposed *= np.sqrt(self.s).astype(self._Q.dtype)
        return L_transposed.T


def _mean_squared_distance(batch: Any, T: NDArray) -> float:
    G = gram(batch)
    lengths = np.diag(G)
    i, _, k = T.T
    return max(float(np.mean(lengths[i] + lengths[k] - 2 * G[i, k])), 1e-12)
