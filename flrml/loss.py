"""The margin loss of FLRML on the embedding E = V P, without any r × r matrix.

Symbols: M = Aᵀ E holds each sample's mean positive minus mean negative, Z = E ∘ M, s the weights of the
directions, z = −Z s, λ_i = 1 where z_i + margin > 0, k = Zᵀ λ.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit

from flrml.rows import product
from flrml.spectrum import Spectrum

MARGIN_SAMPLES = 100  # the "reference" variant takes the margin from so many samples
INITIAL_ROUNDS = 10


def softplus(x: NDArray) -> NDArray:
    """μ(x) = log(1 + eˣ), the smooth form of max(0, x)."""
    return np.logaddexp(0, x)


def objective(k: NDArray, margin: float, n_active: float) -> float:
    """f = −½ Σ μ(k_a) k_a + margin · (number of active samples)."""
    k = k.astype(np.float64)
    return float(-0.5 * (softplus(k) @ k) + margin * n_active)


def slope(k: NDArray) -> NDArray:
    """q = ∂f/∂k = −½ (μ(k) + k σ(k))."""
    return -0.5 * (softplus(k) + k * expit(k))


class MarginLoss:
    """The loss as a problem that :func:`flrml.stiefel.minimize` solves.

    Parameters
    ----------
    spectrum : Spectrum
        V, bound to its data.
    contrasts : csr_matrix of shape (n, n)
        Aᵀ, from :func:`flrml.triplets.contrast_matrix`.
    margin_ratio : float
        Margin as a multiple of the mean squared length of the embeddings.
    reference : bool
        Follow the authors' code: the gradient belongs to the active set before the step; the value that trials
        are compared with is the hinge sum, from the first step on; and the margin comes from a few samples.
    random : RandomState
        Chooses those samples.

    Attributes
    ----------
    s : ndarray of shape (d,)
        Weights of the directions.
    margin : float
        Set by :meth:`start`, constant from then on.
    active : ndarray of shape (n,)
        λ: 1 where a sample is inside the margin, else 0.
    """

    def __init__(
        self,
        spectrum: Spectrum,
        contrasts: sp.csr_matrix,
        margin_ratio: float = 1.0,
        *,
        reference: bool = False,
        random: np.random.RandomState | None = None,
    ):
        self.spectrum, self.contrasts, self.contrasts_transposed = spectrum, contrasts, contrasts.T.tocsr()
        self.margin_ratio, self.reference = margin_ratio, reference
        n = contrasts.shape[0]
        self._margin_rows: Any = slice(None)
        if reference and n > MARGIN_SAMPLES:
            self._margin_rows = (random or np.random.RandomState()).choice(n, MARGIN_SAMPLES, replace=False)
        self._trial: tuple[NDArray, NDArray] | None = None

    def start(self, E: NDArray) -> None:
        """Find the first weights: s ← μ(k) with the margin following s, until the hinge sum settles within 1 %."""
        Z = E * self._differences(E)
        lengths = E[self._margin_rows] ** 2
        self.s, self._at_start = np.ones(E.shape[1], dtype=E.dtype), True
        for _ in range(INITIAL_ROUNDS):
            self.margin = self.margin_ratio * float(np.mean(lengths @ self.s))
            self._activate(Z)
            before = self._hinge()
            self.s = softplus(self.active @ Z)
            self._activate(Z)
            if abs(self._hinge() - before) <= 0.01 * abs(before):
                break

    def image(self, P: NDArray) -> NDArray:
        """E = V P."""
        return self.spectrum @ P.astype(self.contrasts.dtype, copy=False)

    def value(self, E: NDArray) -> float:
        """f at a trial point, for the active set of the last accepted one."""
        M = self._differences(E)
        self._trial = (E, M)
        return objective(self._k(E, M), self.margin, self.active.sum())

    def along(self, E: NDArray, EQ: NDArray) -> Callable[[NDArray, NDArray], float]:
        """f at E a + EQ b: k is a quadratic form in (a, b), so that no further trial touches the n samples."""
        M, MQ = self._differences(E), self._differences(EQ)
        active = self.active[:, None]
        E, EQ, n_active = active * E, active * EQ, self.active.sum()
        H = np.block([[E.T @ M, E.T @ MQ], [EQ.T @ M, EQ.T @ MQ]])

        def value(a: NDArray, b: NDArray) -> float:
            C = np.vstack((a, b))
            return objective(np.einsum("ij,ij->j", C, H @ C), self.margin, n_active)

        return value

    def accept(self, E: NDArray) -> tuple[float, Callable[[], NDArray]]:
        """Refresh weights and active set at E; return the value that trials meet, and the gradient on demand."""
        M = self._trial[1] if self._trial is not None and self._trial[0] is E else self._differences(E)
        self._trial = None
        Z, before = E * M, self.active
        k = before @ Z
        self.s = softplus(k)
        if self.reference:
            gradient = partial(self._gradient, E, M, k, before)
            if self._at_start:
                self._at_start = False
                return objective(k, self.margin, before.sum()), gradient
            self._activate(Z)
            return self._hinge(), gradient
        self._activate(Z)
        k = self.active @ Z
        self.s = softplus(k)
        return objective(k, self.margin, self.active.sum()), partial(self._gradient, E, M, k, self.active)

    def _differences(self, E: NDArray) -> NDArray:
        return product(self.contrasts, E)

    def _k(self, E: NDArray, M: NDArray) -> NDArray:
        return np.einsum("ij,ij,i->j", E, M, self.active)

    def _activate(self, Z: NDArray) -> None:
        self._z = -(Z @ self.s)
        self.active = (self._z + self.margin > 0).astype(Z.dtype)

    def _hinge(self) -> float:
        return float(np.sum(np.maximum(self._z + self.margin, 0), dtype=np.float64))

    def _gradient(self, E: NDArray, M: NDArray, k: NDArray, active: NDArray) -> NDArray:
        """G = Vᵀ R diag(q) with R = A (λ ∘ E) + λ ∘ M."""
        R = product(self.contrasts_transposed, active[:, None] * E)
        R += active[:, None] * M
        R *= slope(k)
        return self.spectrum.transposed_matmul(R).astype(np.float64)
