"""The closed form and the rounds of RidgeFLRML in a small subspace.

Changes to the model of :mod:`flrml.loss`, for rows E in p orthonormal directions (:mod:`flrml.ridge.subspace`):

* **Ridge whitening.** Rows are whitened by A = EᵀE + γ I − ω S_b. γ → 0 whitens the data, γ → ∞ keeps their
  geometry. A share ω (``within``) of the scatter S_b of the class means is left out: 0 whitens by the total
  scatter, 1 by the scatter within the classes, like a discriminant analysis.
* **Triplets in expectation.** Row i of M is the mean of *all* of i's class minus that of all other rows. For a
  share β (``local``) the positive is i itself, the nearest of all rows, which keeps the geometry of the data.
* **Weights without smoothing**, s = max(0, k), and with every λ_i = 1 a **closed form**: the top d eigenpairs (k,
  P) of sym(EᵀM) with respect to A, one p × p eigenproblem. For β = 1, which uses no labels, s = 1.
* **Rounds.** Neighbours and λ of some rows are found in the learned metric, and the map moves a step along the
  triplets inside the margin.

(γ, ω, β) and the number of rounds are chosen on validation rows; see :mod:`flrml.ridge.selection`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from flrml.ridge.krylov import NOISE_UNITS
from flrml.ridge.pairs import pair_product
from flrml.ridge.supervision import Contrasts
from flrml.rows import gram_of_columns, normalize

ROUND_STEP = 0.2  # length of the first step of the rounds, relative to that of the embeddings


class ReducedProblem:
    """Scatter and contrasts of training rows E in a small subspace (n × p). Maps in it are p × d.

    ``scatter`` returns EᵀE. It is called last, because workers may still be computing it.
    """

    def __init__(
        self, images: Any, supervision: Contrasts, d: int, scatter: Callable[[], NDArray[np.float64]] | None = None
    ):
        self.images, self.supervision = images, supervision
        self._between, self._contrast = supervision.scatters(images)
        self.scatter = gram_of_columns(images) if scatter is None else scatter()
        self.eigenvalues = np.linalg.eigvalsh(self.scatter)
        self._noise = (
            NOISE_UNITS * np.finfo(images.dtype).eps * max(self.eigenvalues[-1], np.finfo(np.float64).tiny)
        )
        self.rank = int(np.sum(self.eigenvalues > self._noise))
        self.d = min(d, self.rank)

    def whitening(self, gamma: float, within: float) -> NDArray[np.float64]:
        """Return the matrix A by which the rows are whitened."""
        A = self.scatter - within * self._between
        A[np.diag_indices_from(A)] += max(gamma, self._noise)
        return A

    def solve(self, A: NDArray, local: float) -> NDArray[np.float64]:
        """Return the closed form with λ = 1: the top d eigenvectors with respect to A, times √s."""
        H = (1 - local) * self._contrast + local * self.scatter
        k, P = scipy.linalg.eigh(H, A, driver="gvd", check_finite=False)  # for a subset LAPACK takes twice the time
        k, P = k[-self.d :], P[:, -self.d :]
        # Without labels, k does not show which directions are useful.
        return (P * np.sqrt(np.maximum(k, 0) if local < 1 else 1.0))[:, ::-1]

    def rounds(
        self,
        A: NDArray,
        C: NDArray,
        number: int,
        margin: float,
        random: np.random.RandomState,
        callback: Callable[[NDArray, list[float]], None] | None = None,
    ) -> tuple[NDArray, list[float]]:
        """Make rounds from the map C; return the map, and the mean hinge before each round.

        A round moves along the triplets inside the margin: the first by ROUND_STEP times the length of the
        embeddings, the a-th by ROUND_STEP/√a. ``callback`` is called with map and hinges at the start and after
        every round.
        """
        hinges: list[float] = []
        if callback is not None:
            callback(C, hinges)
        if number == 0:
            return C, hinges
        inverse = scipy.linalg.cho_factor(A, check_finite=False)
        for a in range(number):
            drawn = self.supervision.draw(round_rows(self.images.shape[0]), random)
            E = self.images[drawn]
            Y = E @ C.astype(E.dtype)
            i, j, w, hinge = self.supervision.subset(drawn).active_pairs(normalize(Y), margin)
            hinges.append(hinge)
            if len(i):
                G = scipy.linalg.cho_solve(inverse, E.T @ pair_product(i, j, w, Y, Y), check_finite=False)
                C = C + G * _step_length(Y, E @ G.astype(E.dtype), ROUND_STEP / (a + 1) ** 0.5)
            if callback is not None:
                callback(C, hinges)
        return C, hinges


def round_rows(n: int) -> int:
    """Return the number of rows that a round draws from n rows: a quarter, within bounds."""
    return min(max(1000, n // 4), 10_000)


def _step_length(Y: NDArray, move: NDArray, share: float) -> float:
    """Return the factor by which a move of the embeddings Y gets that share of their length."""
    return share * float(np.linalg.norm(Y)) / max(float(np.linalg.norm(move)), float(np.finfo(Y.dtype).tiny))
