"""The solution of a candidate on given rows: scaling, subspace and closed form together."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flrml.ridge.plane import Form, Plane
from flrml.ridge.scaling import ScaledRows, scale_rows
from flrml.ridge.subspace import DISCRIMINANTS, LEADING, build_subspace
from flrml.ridge.supervision import Contrasts

SCALE = 0.5  # power of the root mean squares of features that serves discriminants best on held-out rows


@dataclass(frozen=True)
class Candidate:
    """Ridge as a multiple of the mean square of a row, form and number of rounds."""

    ridge: float
    form: Form
    rounds: int = 0


@dataclass(frozen=True)
class Settings:
    """Number of directions, scale of the features, offset and margin; None lets the form decide."""

    d: int
    scale: float | None = None
    offset: bool | None = None
    margin: float = 0.1


def scaled_for(X: Any, own: bool, settings: Settings) -> ScaledRows:
    """Return the rows that candidates are solved on.

    Discriminants use scaled features and an offset; the own geometry is that of the rows as they are.

    Parameters
    ----------
    X : rows of shape (n, D)
        The data.
    own : bool
        Whether the candidates are those of the data's own geometry.
    settings : Settings
        What all candidates have in common.
    """
    scale = settings.scale if settings.scale is not None else 0.0 if own else SCALE
    return scale_rows(X, scale, settings.offset if settings.offset is not None else not own)


class Solver:
    """Solve candidates on some rows, either discriminants or the data's own geometry.

    Parameters
    ----------
    scaled : ScaledRows of shape (n, D)
        The data, from :func:`scaled_for`.
    supervision : Contrasts
        Labels or triplets of the rows to learn from alone.
    rows : ndarray or None
        Their numbers; None for all rows.
    own : bool
        Whether to solve for the data's own geometry.
    settings : Settings
        What all candidates have in common.
    random : RandomState
        Draws random columns of the subspace.
    """

    def __init__(
        self,
        scaled: ScaledRows,
        supervision: Contrasts,
        rows: NDArray | None,
        own: bool,
        settings: Settings,
        random: np.random.RandomState,
    ):
        self.settings, self._scaled = settings, scaled
        shape = LEADING if own else DISCRIMINANTS
        self.subspace = build_subspace(scaled, supervision, rows, settings.d, shape, random)
        images = self.subspace.tall.learned(self.subspace.images)
        self.plane = Plane(images, supervision, settings.d, lambda: self.subspace.scatter)

    def ridges(self) -> list[float]:
        """Return 1 and the powers of ten from the smallest to the largest eigenvalue of the scatter."""
        eigenvalues = self.plane.eigenvalues[[-max(self.plane.rank, 1), -1]]
        tiny = np.finfo(np.float64).tiny
        low, high = np.floor(np.log10(np.maximum(eigenvalues, tiny) / max(self._scaled.mean_square, tiny)))
        return [float(10.0**exponent) for exponent in np.arange(min(low, 0), max(high, 0) + 1)]

    def solve(
        self, candidate: Candidate, random: np.random.RandomState
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], list[float]]:
        """Return the map on the images, the weights of its directions, and the hinges of the rounds."""
        A = self.plane.whitening(candidate.ridge * self._scaled.mean_square, candidate.form.within)
        C = self.plane.solve(A, candidate.form.local)
        C, hinges = self.plane.rounds(A, C, candidate.rounds, self.settings.margin, random)
        return C, np.einsum("ij,ij->j", C, A @ C), hinges

    def lift(self, C: NDArray) -> tuple[NDArray, NDArray]:
        """Return the map Lᵀ (D × d) on the rows of X and its offset, for a map on the images."""
        return self._scaled.unscale(self.subspace.lift(C))
