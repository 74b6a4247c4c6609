"""Solve candidates on given rows: scaling, subspace and reduced problem together."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flrml.ridge.candidates import Basis, Candidate, Settings
from flrml.ridge.reduced_problem import ReducedProblem
from flrml.ridge.scaling import ScaledRows, scale_rows
from flrml.ridge.subspace import DISCRIMINANT_SHAPE, LEADING_SHAPE, build_subspace
from flrml.ridge.supervision import Contrasts


def scaled_for(X: Any, basis: Basis, settings: Settings) -> ScaledRows:
    """Return the rows that candidates of a basis are solved on; by default only discriminants have an intercept."""
    unsupervised, scale = basis
    return scale_rows(X, scale, not unsupervised if settings.fit_intercept is None else settings.fit_intercept)


class Solver:
    """Solve candidates of one basis on rows from :func:`scaled_for`.

    For the arguments see :func:`flrml.ridge.subspace.build_subspace`.
    """

    def __init__(
        self,
        scaled: ScaledRows,
        supervision: Contrasts,
        rows: NDArray | None,
        unsupervised: bool,
        settings: Settings,
        random: np.random.RandomState,
    ):
        self.settings, self._scaled = settings, scaled
        shape = LEADING_SHAPE if unsupervised else DISCRIMINANT_SHAPE
        self.subspace = build_subspace(scaled, supervision, rows, settings.d, shape, random)
        images = self.subspace.matrices.train_rows(self.subspace.images)
        self.problem = ReducedProblem(images, supervision, settings.d, lambda: self.subspace.scatter)

    def ridges(self) -> list[float]:
        """Return 1 and the powers of ten from the smallest to the largest eigenvalue of the scatter."""
        eigenvalues = self.problem.eigenvalues[[-max(self.problem.rank, 1), -1]]
        tiny = np.finfo(np.float64).tiny
        low, high = np.floor(np.log10(np.maximum(eigenvalues, tiny) / max(self._scaled.mean_square, tiny)))
        return [float(10.0**exponent) for exponent in np.arange(min(low, 0), max(high, 0) + 1)]

    def solve(
        self,
        candidate: Candidate,
        random: np.random.RandomState,
        callback: Callable[[NDArray, NDArray, list[float]], None] | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], list[float]]:
        """Return the map on the images, the weights of its directions, and the hinge before each round.

        ``callback`` is called with the same three after the closed form and after every round.
        """
        A = self.problem.whitening(candidate.ridge * self._scaled.mean_square, candidate.form.within)
        C = self.problem.solve(A, candidate.form.local)[:, : candidate.n_components]

        def result(C: NDArray, hinges: list[float]) -> tuple[NDArray, NDArray, list[float]]:
            return C, np.einsum("ij,ij->j", C, A @ C), hinges

        after = None if callback is None else lambda C, hinges: callback(*result(C, hinges))
        return result(*self.problem.rounds(A, C, candidate.rounds, self.settings.margin, random, after))

    def lift(self, C: NDArray) -> tuple[NDArray, NDArray]:
        """Return the map Lᵀ on the rows of X and its intercept, for a map on the images."""
        return self._scaled.unscale(self.subspace.lift(C))
