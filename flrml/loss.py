"""The margin loss of FLRML on the embedding E = V P, without any r × r matrix.

Symbols: M = Aᵀ E holds each sample's mean positive minus mean negative, Z = E ∘ M, s the weights of the
directions, z = −Z s, λ_i = 1 if z_i + margin > 0 (``active``), k = Zᵀ λ.
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit

from flrml.rows import product, product_transposed
from flrml.spectrum import Spectrum
from flrml.stiefel import Problem


def softplus(x: NDArray) -> NDArray:
    """Return μ(x) = log(1 + eˣ), the smooth form of max(0, x)."""
    return np.logaddexp(0, x)


def objective(k: NDArray, margin: float, n_active: float) -> float:
    """Return f = −½ Σ μ(k_a) k_a + margin · (number of active samples)."""
    k = k.astype(np.float64)
    return float(-0.5 * (softplus(k) @ k) + margin * n_active)


def slope(k: NDArray) -> NDArray:
    """Return q = ∂f/∂k = −½ (μ(k) + k σ(k))."""
    return -0.5 * (softplus(k) + k * expit(k))


class Image:
    """E = V P of some rows at one point P; M = Aᵀ E is computed by ``contrast`` on first use."""

    def __init__(self, E: NDArray, contrast: Callable[[NDArray], NDArray]):
        self.E, self._contrast = E, contrast

    @cached_property
    def M(self) -> NDArray:
        """Aᵀ E."""
        return self._contrast(self.E)

    @cached_property
    def Z(self) -> NDArray:
        """E ∘ M."""
        return self.E * self.M


class LossRows:
    """Rows of V in memory, from a spectrum bound to its data, and the sums over them that the loss consists of.

    An image is opaque to the loss: :meth:`map` and :meth:`sum` apply functions to it, which see an object with the
    attributes ``E``, ``M`` and ``Z``.
    """

    def __init__(self, spectrum: Spectrum, contrasts: sp.csr_matrix):
        self.spectrum, self.contrasts, self.contrasts_transposed = spectrum, contrasts, contrasts.T.tocsr()
        self.n, self.rank, self.dtype = contrasts.shape[0], spectrum.rank, spectrum.basis.dtype
        self._contrast = partial(product, contrasts)

    def image(self, P: NDArray) -> Any:
        """Return the image of P."""
        return Image(self.spectrum @ P.astype(self.dtype, copy=False), self._contrast)

    def leading_image(self, rotation: NDArray) -> Any:
        """Return the image of the d leading directions, rotated."""
        return Image(self.spectrum.top(rotation.astype(self.dtype)), self._contrast)

    def combine(self, E: Any, a: NDArray, EQ: Any, b: NDArray) -> Any:
        """Return the image E a + EQ b."""
        combined = product(E.E, a.astype(self.dtype))
        combined += product(EQ.E, b.astype(self.dtype))
        return Image(combined, self._contrast)

    def map(self, function: Callable, *parts: Any) -> Any:
        """Apply a function to every block of rows, here a single one."""
        return function(*parts)

    def sum(self, function: Callable, *parts: Any) -> NDArray:
        """Sum the values of a function over all blocks of rows."""
        return function(*parts)

    def squared_coordinates(self, image: Any, rows: NDArray) -> NDArray:
        """Return an array whose product with s has the mean squared length of the given rows as mean."""
        return image.E[rows] ** 2

    def pull_back(self, image: Any, active: Any, q: NDArray) -> NDArray:
        """Return G = Vᵀ R diag(q) with R = A (λ ∘ E) + λ ∘ M."""
        A = self.contrasts_transposed
        A_active = sp.csr_matrix((A.data * active[A.indices], A.indices, A.indptr), A.shape)
        R = product(A_active, image.E)
        R += active[:, None] * image.M
        R *= q
        return self.spectrum.transposed_matmul(R).astype(np.float64)

    def lift(self, B: NDArray) -> NDArray:
        """Return the map Lᵀ (D × d) whose embedding of the rows is V B."""
        return self.spectrum.lift(B.astype(self.dtype))


class MarginLoss(Problem):
    """The loss as a problem that :func:`flrml.stiefel.minimize` solves.

    The margin, a multiple of the mean squared length of the embeddings, is set by :meth:`start` and constant from
    then on. ``random`` serves losses that draw samples; this one draws none.
    """

    def __init__(self, rows: LossRows, margin_ratio: float = 1.0, random: np.random.RandomState | None = None):
        self.rows, self.margin_ratio = rows, margin_ratio
        self.margin_rows = np.arange(rows.n)
        self._known: tuple[Any, NDArray] | None = None  # an image, and k there for the current λ

    def start(self, E: Any) -> None:
        """Find the first weights: s ← μ(k) with the margin following s, until the hinge sum settles within 1 %."""
        squares = self.rows.squared_coordinates(E, self.margin_rows)
        self.s = np.ones(squares.shape[1], dtype=self.rows.dtype)
        for number in range(1, 11):
            self.n_start_rounds = number
            self.margin = self.margin_ratio * float(np.mean(squares @ self.s))
            self._activate(E)
            before = self.hinge
            self.s = softplus(self.k)
            self._activate(E)
            if abs(self.hinge - before) <= 0.01 * abs(before):
                break

    def image(self, P: NDArray) -> Any:
        return self.rows.image(P)

    def combine(self, E: Any, a: NDArray, EQ: Any, b: NDArray) -> Any:
        return self.rows.combine(E, a, EQ, b)

    def value(self, E: Any) -> float:
        """Return f at a trial point, for the active set of the last accepted one."""
        return objective(self._contrast_sums(E), self.margin, self.n_active)

    def along(self, E: Any, EQ: Any) -> Callable[[NDArray, NDArray], float]:
        """Return f of E a + EQ b, whose k is a quadratic form in (a, b): further trials touch no sample."""
        self._known = None  # a trial that failed
        H = self.rows.sum(_quadratic_form, E, EQ, self.active)
        margin, n_active = self.margin, self.n_active

        def value(a: NDArray, b: NDArray) -> float:
            C = np.vstack((a, b))
            return objective(np.einsum("ij,ij->j", C, H @ C), margin, n_active)

        return value

    def accept(self, E: Any) -> tuple[float, Callable[[], NDArray]]:
        """Refresh weights and active set at E; return f and its gradient, on demand."""
        self.s = softplus(self._contrast_sums(E))
        self._activate(E)
        self.s = softplus(self.k)
        f = objective(self.k, self.margin, self.n_active)
        return f, partial(self.rows.pull_back, E, self.active, slope(self.k))

    def _contrast_sums(self, E: Any) -> NDArray:
        """Return k = Zᵀ λ for the current λ; a trial that is accepted asks twice."""
        if self._known is None or self._known[0] is not E:
            self._known = E, self.rows.sum(_k, E, self.active)
        return self._known[1]

    def _activate(self, E: Any) -> None:
        """Set λ for the weights s, with the hinge sum, the number of active samples, and k = Zᵀ λ."""
        self.active = self.rows.map(_active, E, self.s, self.margin)
        sums = self.rows.sum(_active_sums, E, self.active, self.s, self.margin)
        self.hinge, self.n_active, self.k = float(sums[0]), float(sums[1]), sums[2:].astype(self.s.dtype)
        self._known = E, self.k


def _active(image: Any, s: NDArray, margin: float) -> NDArray:
    return (margin - image.Z @ s > 0).astype(image.Z.dtype)


def _active_sums(image: Any, active: NDArray, s: NDArray, margin: float) -> NDArray:
    hinge = np.sum(np.maximum(margin - image.Z @ s, 0), dtype=np.float64)
    return np.concatenate(([hinge, active.sum(dtype=np.float64)], active @ image.Z))


def _k(image: Any, active: NDArray) -> NDArray:
    return active @ image.Z


def _quadratic_form(image: Any, other: Any, active: NDArray) -> NDArray:
    right = [active[:, None] * part.M for part in (image, other)]
    return np.block([[product_transposed(part.E, M) for M in right] for part in (image, other)])
