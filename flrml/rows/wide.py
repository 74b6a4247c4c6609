"""Few wide rows, represented by their inner products.

A method that depends only on the inner products of rows X (n × D) can learn from n rows E of n columns with the
same inner products. A map Lᵀ = Eᵀ C on those is the map Xᵀ C on X.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from flrml.rows.products import product_transposed

GRAM_COLUMNS_PER_ROW = 50  # above it, products with X Xᵀ are cheaper than two with X
GRAM_ROWS = 2000  # largest number of rows for which it is formed


def is_wide(shape: tuple[int, int]) -> bool:
    """Return whether rows are so few and wide that their inner products replace them."""
    return shape[0] <= GRAM_ROWS and shape[1] >= GRAM_COLUMNS_PER_ROW * shape[0]


def with_inner_products(G: NDArray) -> NDArray[np.float64]:
    """Return rows E with the inner products G, as a lower triangle."""
    tiny = np.finfo(np.float64).eps * len(G) * np.trace(G)  # rows may be dependent
    return np.linalg.cholesky(G + max(tiny, np.finfo(np.float64).tiny) * np.eye(len(G)))


def lift(X: Any, E: NDArray, L_transposed: NDArray) -> NDArray:
    """Return the map on the rows X for a map on rows E with the same inner products."""
    C = solve_triangular(E, L_transposed, trans="T", lower=True, check_finite=False)
    return product_transposed(X, C.astype(X.dtype))
