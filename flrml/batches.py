"""The rows of a mini-batch, their decomposition, and what is learned from them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from flrml.rows import check_scale
from flrml.spectrum import RELATIVE_CUT, column_signs


@dataclass(frozen=True)
class BatchUpdate:
    """The outcome of one mini-batch.

    Attributes
    ----------
    X : rows
        A few rows, dense or CSR.
    C : ndarray
        Their coefficients: the batch's own map is Xᵀ C.
    weights : ndarray of shape (d,)
        Weights s of the directions.
    hinge : float
        Mean hinge before the step, as a multiple of the margin.
    """

    X: Any
    C: NDArray
    weights: NDArray
    hinge: float


def read_batch(X: Any, rows: NDArray) -> Any:
    """Read some rows of X into memory; NaN or infinity in them is an error."""
    batch = X[rows]
    values = batch.data if sp.issparse(batch) else batch
    if not np.isfinite(values).all():
        raise ValueError("Input X contains NaN or infinity in the rows of a mini-batch")
    check_scale(batch)
    return batch


def batch_svd(G: NDArray, degenerate: str) -> tuple[NDArray, NDArray]:
    """Return singular values and left singular vectors of a batch from its Gram matrix.

    Parameters
    ----------
    G : ndarray of shape (n, n)
        The Gram matrix of the rows.
    degenerate : str
        Word for rows whose Gram matrix is zero.
    """
    values, V = np.linalg.eigh(G)
    kept = values > RELATIVE_CUT**2 * max(values[-1], 0)
    if not kept.any():
        raise ValueError(f"all rows of a mini-batch are {degenerate}: nothing to learn")
    V = V[:, kept][:, ::-1]
    return np.sqrt(values[kept][::-1]), V * column_signs(V)
