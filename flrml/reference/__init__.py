"""FLRML and M-FLRML as in the authors' published MATLAB code.

The accuracies in the paper are those of this code, which departs from the paper in the ways listed here:
the loss, the steps of a mini-batch, the rows that are decomposed (:mod:`flrml.reference.centering`) and the vote
(:mod:`flrml.reference.vote`). Everything else is inherited from :class:`flrml.FLRML` and :class:`flrml.MFLRML`. Use
these classes to reproduce the paper's figures, not to learn a metric.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from flrml import stiefel
from flrml.batches import SingularBasis
from flrml.flrml import FLRML
from flrml.loss import LossRows, MarginLoss, objective, slope, softplus
from flrml.mflrml import MFLRML
from flrml.reference.centering import SMALLEST_SINGULAR_VALUE, CenteredRows, decompose_centered
from flrml.reference.vote import farthest_vote
from flrml.rows import RowOperator, gram, row_means

__all__ = [
    "CenteredRows",
    "ReferenceFLRML",
    "ReferenceLoss",
    "ReferenceMFLRML",
    "decompose_centered",
    "farthest_vote",
]

MARGIN_SAMPLES = 100
SMALLEST_STEP = 1e-10
SMALLEST_MOVE = 1e-6


class ReferenceLoss(MarginLoss):
    """The margin loss with three departures, which end the descent after a few iterations.

    * The margin comes from 100 random samples; the paper takes the mean over all.
    * The gradient belongs to the active set before the step: the code refreshes λ after it.
    * From the first step on, trials are compared with the hinge sum; the paper compares values of f. The
      hinge sum is lower, so that later trials fail and shrink to null steps, which count as convergence
      from the third iteration on.
    """

    def __init__(self, rows: LossRows, margin_ratio: float = 1.0, random: np.random.RandomState | None = None):
        super().__init__(rows, margin_ratio, random)
        if rows.n > MARGIN_SAMPLES:
            self.margin_rows = (random or np.random.RandomState()).choice(rows.n, MARGIN_SAMPLES, replace=False)

    def start(self, E: Any) -> None:
        """Find the first weights."""
        super().start(E)
        self._at_start = True

    def accept(self, E: Any) -> tuple[float, Callable[[], NDArray]]:
        """Refresh the weights, then the active set; return the hinge sum, and the gradient of the old set."""
        active, n_active = self.active, self.n_active
        k = self._contrast_sums(E)
        self.s = softplus(k)
        gradient = partial(self.rows.pull_back, E, active, slope(k))
        if self._at_start:
            self._at_start = False
            return objective(k, self.margin, n_active), gradient
        self._activate(E)
        return self.hinge, gradient


class ReferenceFLRML(FLRML):
    """FLRML as in the authors' code.

    Parameters and attributes are those of :class:`flrml.FLRML`. Three departures: the SVD is that of
    :class:`CenteredRows`, from :func:`decompose_centered`; the loss is :class:`ReferenceLoss`; and a line search
    ends at a step of 1e-10. Such a step is small, but not lost in rounding, so that the next one has a sensible
    length and the descent goes on.

    See Also
    --------
    flrml.FLRML : The method as the paper describes it.
    """

    loss: ClassVar[type[MarginLoss]] = ReferenceLoss
    search: ClassVar[Callable[..., stiefel.Minimum]] = staticmethod(
        partial(stiefel.minimize, smallest_step=SMALLEST_STEP, smallest_move=SMALLEST_MOVE)
    )
    decomposed_rows: ClassVar[type[RowOperator] | None] = CenteredRows
    smallest_singular_value: ClassVar[float] = SMALLEST_SINGULAR_VALUE


class ReferenceMFLRML(MFLRML):
    """M-FLRML as in the authors' code.

    Parameters and attributes are those of :class:`flrml.MFLRML`. Each method that is overridden here is one
    departure from the paper.

    See Also
    --------
    flrml.MFLRML : The method as the paper describes it.
    """

    by_inner_products: ClassVar[bool] = False  # means of rows count too

    def _decompose_batch(self, X: Any, *, start: bool) -> SingularBasis:
        """Decompose the batch with the mean of each row subtracted, as the code does for the whole data."""
        return SingularBasis(gram(CenteredRows(X)), f"constant (n_features={X.shape[1]})")

    def _lift(self, X: Any, C: NDArray) -> tuple[Any, NDArray]:
        """Lift from the rows with their means subtracted: (X − m 1ᵀ)ᵀ C = Xᵀ C − 1 (mᵀ C), by a row of ones."""
        ones = np.ones((1, X.shape[1]), dtype=X.dtype)
        rows = sp.vstack([X, sp.csr_matrix(ones)], "csr") if sp.issparse(X) else np.vstack((X, ones))
        return rows, np.vstack((C, -(row_means(X) @ C)))

    def _weighted_directions(self, B: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """Factor B with its mean over the singular coordinates subtracted: the code centers before every SVD."""
        return super()._weighted_directions(B - B.mean(axis=1, keepdims=True))

    def _retract(self, target: NDArray) -> NDArray:
        """Retract the step with the same mean subtracted, for the same reason."""
        return stiefel.polar(target - target.mean(axis=0))

    def _active(self, z: NDArray, margin: float) -> NDArray:
        """Count every sample as active: the code's margin is that of a random map, too large to ever matter."""
        return np.ones(len(z))
