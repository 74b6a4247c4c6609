"""The rows of a mini-batch and their decomposition."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from flrml.rows import check_scale
from flrml.spectrum import RELATIVE_CUT, column_signs

INDEPENDENT_RATIO = 1e-6  # of eigenvalues, above which rows are far from dependent and a Gram matrix is accurate


@dataclass(frozen=True)
class Batch:
    """The rows of a mini-batch, and all that does not depend on the map."""

    X: Any  # a few rows, dense or CSR
    contrasts: sp.csr_matrix  # their rows and columns of Aᵀ
    basis: "SingularBasis | SampleBasis"
    noise: NDArray | None = None  # Gaussian numbers for the start (d × n), if this is the first mini-batch


def read_rows(X: Any, rows: NDArray) -> Any:
    """Read some rows of X into memory; NaN or infinity in them is an error."""
    batch = X[rows]
    values = batch.data if sp.issparse(batch) else batch
    if not np.isfinite(values).all():
        raise ValueError("Input X contains NaN or infinity in the rows of a mini-batch")
    check_scale(batch)
    return batch


class SingularBasis:
    """Coordinates of a batch along its left singular vectors V, with the Gram matrix G = X Xᵀ = V diag(σ²) Vᵀ.

    ``degenerate`` describes rows whose Gram matrix is zero, for the error.
    """

    def __init__(self, G: NDArray, degenerate: str):
        values, V = np.linalg.eigh(G)
        kept = values > RELATIVE_CUT**2 * max(values[-1], 0)
        if not kept.any():
            raise ValueError(f"all rows of a mini-batch are {degenerate}: nothing to learn")
        V = V[:, kept][:, ::-1]
        self._sigma, self._V = np.sqrt(values[kept][::-1]), V * column_signs(V)

    def random(self, noise: NDArray) -> NDArray:
        """Return the coordinates of the batch under a map of Gaussian noise."""
        return self._sigma[:, None] * (self._V.T @ noise.T)

    def coordinates(self, Y: NDArray) -> NDArray:
        """Return Vᵀ Y."""
        return self._V.T @ Y

    def images(self, P: NDArray) -> NDArray:
        """Return V P."""
        return self._V @ P

    def dual(self, P: NDArray) -> NDArray:
        """Return C for which Xᵀ C has the images V P on the batch."""
        return self._V @ (P / self._sigma[:, None] ** 2)


class SampleBasis:
    """Coordinates of a batch along its samples, V = I, for rows that are independent.

    Its Cholesky factor, from :func:`scipy.linalg.cho_factor`, takes a tenth of the time of eigenvectors.
    """

    def __init__(self, factor: tuple[NDArray, bool]):
        self._factor = factor

    @classmethod
    def find(cls, G: NDArray) -> "SampleBasis | None":
        """Return the basis for a Gram matrix, or None if the rows are almost dependent."""
        try:
            factor = scipy.linalg.cho_factor(G, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            return None
        inverse_norm = scipy.linalg.lapack.dpocon(factor[0], 1.0, uplo="L")[0]  # 1/‖G⁻¹‖, estimated
        return cls(factor) if inverse_norm > INDEPENDENT_RATIO * np.trace(G) else None

    def coordinates(self, Y: NDArray) -> NDArray:
        """Return Y."""
        return Y

    images = coordinates

    def dual(self, P: NDArray) -> NDArray:
        """Return C for which Xᵀ C has the images P on the batch."""
        return scipy.linalg.cho_solve(self._factor, P, check_finite=False)
