"""Similarities of pairs of rows: those inside the margin, and the gradient of their cosines."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from flrml.rows import row_products
from flrml.rows.threads import slices


def pair_product(i: NDArray, j: NDArray, weights: NDArray, Y: NDArray, R: NDArray) -> NDArray:
    """Return T R with Σ w ∂cos(y_i, y_j) = ⟨sym(Eᵀ T E), ∂W⟩, for embeddings Y of rows E under W.

    Of e_i/‖y_i‖ =: ê_i, the cosine has the gradient sym(ê_i ê_jᵀ) − ½ cos (ê_i ê_iᵀ + ê_j ê_jᵀ).
    """
    n = len(Y)
    lengths = np.sqrt(row_products(Y, Y))
    inverse = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    weighted = weights * dots(Y, i, j) * inverse[i] * inverse[j]
    pull = (np.bincount(i, weighted, n) + np.bincount(j, weighted, n)).astype(Y.dtype)
    W = sp.csr_matrix((weights, (i, j)), shape=(n, n))
    scaled = inverse[:, None] * R
    return (0.5 * inverse)[:, None] * (W @ scaled + W.T @ scaled - pull[:, None] * scaled)


def inside_margin(
    i: NDArray, j: NDArray, similarity: NDArray, margin: float
) -> tuple[NDArray, NDArray, NDArray, float]:
    """Return pairs (i, j) with the number of triplets inside the margin; columns are positives, then negatives.

    A similarity of −∞ marks a neighbour that does not exist.
    """
    half = j.shape[1] // 2
    positive, negative = similarity[:, :half, None], similarity[:, None, half:]
    exists = np.isfinite(positive) & np.isfinite(negative)
    hinge = np.where(exists, np.where(exists, negative, 0) - np.where(exists, positive, 0) + margin, 0)
    active = hinge > 0
    weights = np.hstack((active.sum(axis=2), -active.sum(axis=1))).astype(similarity.dtype)
    kept = weights != 0
    mean = float(np.maximum(hinge, 0).sum() / max(exists.sum(), 1) / margin)
    return np.repeat(i, 2 * half).reshape(j.shape)[kept], j[kept], weights[kept], mean


def blocks_of(n: int, width: int) -> list[slice]:
    """Return slices of n rows whose similarities with ``width`` others stay in the processor's cache."""
    return slices(n, max(1, 2**20 // max(width, 1)))


def dots(Y: Any, i: NDArray, j: NDArray, step: int = 2**16) -> NDArray:
    """Return the inner products of rows i with rows j of Y."""
    parts = [row_products(Y[i[block]], Y[j[block]]) for block in slices(len(i), step)]
    return np.concatenate(parts) if parts else np.empty(0, dtype=Y.dtype)
