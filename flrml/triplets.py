"""Triplets (i, j, k): sample i should be more similar to j than to k."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from flrml.exceptions import FlrmlWarning


def draw_triplets(y: ArrayLike, n_triplets: int = 5, random_state: Any = None) -> NDArray[np.int64]:
    """Draw random triplets from labels.

    Each sample i is the anchor of ``n_triplets`` triplets: j is another sample of i's class and k a sample of
    another class, both drawn uniformly and independently.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels, of any type that NumPy can sort.
    n_triplets : int, default=5
        Triplets per sample.
    random_state : int, RandomState or None, default=None
        Seed.

    Returns
    -------
    ndarray of shape (n_triplets, 3), int64
        Row numbers (i, j, k), ordered by anchor. A sample that is alone in its class has no positive and hence
        no triplet; one warning counts such samples.

    Examples
    --------
    >>> draw_triplets(["a", "a", "b", "b"], n_triplets=1, random_state=0)
    array([[0, 1, 2],
           [1, 0, 3],
           [2, 3, 1],
           [3, 2, 0]])
    """
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"y must be one-dimensional, got an array of shape {y.shape}")
    if n_triplets < 1:
        raise ValueError(f"n_triplets must be at least 1, got {n_triplets}")
    random = check_random_state(random_state)
    classes, label, count = np.unique(y, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise ValueError(
            f"y has {len(classes)} class(es): {classes[:1].tolist()}. Triplets need at least two classes, "
            "so that every sample has a negative."
        )
    if count.max() < 2:
        raise ValueError("every class of y has a single member, so no sample has a positive")
    n = len(y)
    by_class = np.argsort(label, kind="stable")
    start = np.cumsum(count) - count
    place = np.empty(n, dtype=np.int64)  # of a sample among the members of its class
    place[by_class] = np.arange(n) - np.repeat(start, count)

    anchors = np.flatnonzero(count[label] > 1)
    if len(anchors) < n:
        warnings.warn(
            f"{n - len(anchors)} sample(s) are alone in their class; they have no positive and get no triplets",
            FlrmlWarning,
            stacklevel=2,
        )
    i = np.repeat(anchors, n_triplets)
    size, first = count[label[i]], start[label[i]]
    j = random.randint(0, size - 1)
    j += j >= place[i]  # skip i itself
    k = random.randint(0, n - size)
    k += np.where(k >= first, size, 0)  # skip i's class
    return np.column_stack((i, by_class[first + j], by_class[k]))


def check_triplets(triplets: ArrayLike, n: int) -> NDArray[np.int64]:
    """Return triplets of n samples as an (m, 3) int64 array, or raise an error that names the first bad row."""
    T = np.asarray(triplets)
    if T.ndim != 2 or T.shape[1] != 3 or len(T) == 0:
        raise ValueError(
            f"triplets must have the shape (m, 3) with m at least 1: one row (i, j, k) each; got {T.shape}"
        )
    if not np.issubdtype(T.dtype, np.number) or np.iscomplexobj(T):
        raise ValueError(f"triplets must be row numbers, got values of type {T.dtype}")
    i, j, k = T.T
    lowest, highest = np.minimum(np.minimum(i, j), k), np.maximum(np.maximum(i, j), k)
    whole = np.ones(len(T), dtype=bool) if np.issubdtype(T.dtype, np.integer) else np.all(np.mod(T, 1) == 0, axis=1)
    checks = (
        (~whole, "row numbers must be whole"),
        ((lowest < 0) | (n <= highest), f"row numbers must lie in 0 to {n - 1}"),
        ((i == j) | (i == k) | (j == k), "the three row numbers must differ"),
    )
    for bad, rule in checks:
        if bad.any():
            row = int(np.argmax(bad))
            raise ValueError(f"triplet {row} is {tuple(T[row].tolist())}: {rule}")
    return T.astype(np.int64, copy=False)


class TripletsByAnchor:
    """Triplets in the order of their anchors, to find the contrasts among few samples without reading all."""

    def __init__(self, triplets: NDArray):
        anchors = triplets[:, 0]
        if np.any(anchors[1:] < anchors[:-1]):
            triplets = triplets[np.argsort(anchors, kind="stable")]
        self._others = triplets[:, 1:]
        self._count = np.bincount(anchors)
        self._end = np.cumsum(self._count)

    def contrasts(self, samples: NDArray) -> sp.csr_matrix:
        """Return the rows and columns of some samples, in ascending order, of all contrasts.

        See :func:`contrast_matrix`; half a triplet, whose third sample is not among these, counts one half.
        """
        n = len(samples)
        anchors = samples[: np.searchsorted(samples, len(self._count))]
        count, end = self._count[anchors], self._end[anchors]
        row = np.repeat(np.arange(len(anchors)), count)
        others = self._others[np.repeat(end - np.cumsum(count), count) + np.arange(len(row))]
        column = np.minimum(np.searchsorted(samples, others), n - 1)
        half, side = np.nonzero(samples[column] == others)  # side 0 holds positives, side 1 negatives
        row, column = row[half], column[half, side]
        t = np.bincount(row, minlength=n)
        weights = (1 - 2 * side) / (t[row] / 2 + 1)
        return sp.csr_matrix((weights, column, np.concatenate(([0], np.cumsum(t)))), shape=(n, n))


def contrast_matrix(triplets: NDArray, n: int, dtype: Any = np.float64) -> sp.csr_matrix:
    """Return Aᵀ, whose row i is the mean of i's positives minus that of its negatives, shrunk by t/(t + 1).

    Row i holds +1/(t_i + 1) at every positive and −1/(t_i + 1) at every negative of i, where t_i is the number
    of its triplets.
    """
    i, j, k = triplets.T
    ones, shape = np.ones(len(triplets), dtype=dtype), (n, n)
    difference = sp.csr_matrix((ones, (i, j)), shape) - sp.csr_matrix((ones, (i, k)), shape)
    weights = 1 / (np.bincount(i, minlength=n).astype(dtype) + 1)
    difference.data *= np.repeat(weights, np.diff(difference.indptr))
    return difference
