"""Rows with the mean of each row subtracted, which the authors' code decomposes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flrml.rows import (
    RowOperator,
    cross_gram,
    fingerprint,
    gram,
    gram_of_columns,
    product,
    product_transposed,
    row_means,
)
from flrml.spectrum import Spectrum, decompose

SMALLEST_SINGULAR_VALUE = 1e-5


class CenteredRows(RowOperator):
    """X with the mean of each *row* subtracted, without densifying a sparse X: X − m 1ᵀ.

    The authors' code decomposes these rows, because it centers its matrix of columns the wrong way.
    """

    def __init__(self, X: Any):
        super().__init__(X)
        self.means = row_means(X)

    def product(self, B: NDArray) -> NDArray:
        out = product(self.X, B)
        out -= np.outer(self.means, B.sum(axis=0)).astype(out.dtype)
        return out

    def product_transposed(self, R: NDArray) -> NDArray:
        out = product_transposed(self.X, R)
        out -= (self.means @ R).astype(out.dtype)
        return out

    def cross_gram(self, other: "CenteredRows") -> NDArray[np.float64]:
        G = gram(self.X) if other is self else cross_gram(self.X, other.X)
        G -= self.shape[1] * np.outer(self.means, other.means)
        return G

    def gram_of_columns(self) -> NDArray[np.float64]:
        across = product_transposed(self.X, self.means[:, None].astype(np.float64))
        return gram_of_columns(self.X) - (across + across.T - self.means @ self.means)

    def fingerprint(self) -> str:
        return f"{fingerprint(self.X)}-centered"


def decompose_centered(X: Any, max_rank: int = 3000, *, random_state: Any = None) -> Spectrum:
    """Decompose X with the mean of each row subtracted, down to singular values of 1e-5.

    Parameters
    ----------
    X, max_rank, random_state
        See :func:`flrml.decompose`.
    """
    return decompose(CenteredRows(X), max_rank, smallest=SMALLEST_SINGULAR_VALUE, random_state=random_state)
