"""Accuracy of k-nearest-neighbour classification in an embedding."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from flrml.rows import in_blocks, is_sparse

METRICS = ("cosine", "euclidean", "bilinear")
VOTES = ("majority", "reference")
BLOCK_VALUES = 2**24  # similarities held at once
DENSE_ABOVE = 0.03  # share of non-zeros from which dense products are faster than sparse ones


def nearest(
    train: Any, test: Any, n_neighbors: int = 5, *, metric: str = "cosine", W: NDArray | None = None
) -> tuple[NDArray, NDArray]:
    """Find the nearest training rows of each test row.

    Parameters
    ----------
    train, test : ndarray, CSR matrix, BinaryRows or dask array
        Rows of embeddings, or of the data themselves.
    n_neighbors : int, default 5
        How many to find; at most the number of training rows.
    metric : {"cosine", "euclidean", "bilinear"}
        Larger cosine, smaller distance, or larger similarity xᵀ W x' is nearer.
    W : ndarray of shape (D, D), optional
        For ``"bilinear"``; the identity where it is left out.

    Returns
    -------
    indices : ndarray of shape (n_test, n_neighbors)
        Training rows, nearest first.
    distances : ndarray of shape (n_test, n_neighbors)
        Squared distances, of the rows scaled to unit length for ``"cosine"``; minus the similarity for
        ``"bilinear"``.
    """
    if metric not in METRICS:
        raise ValueError(f"metric must be one of {METRICS}, got {metric!r}")
    if in_blocks(train) or in_blocks(test):
        from flrml.distributed import nearest_in_blocks

        return nearest_in_blocks(train, test, n_neighbors, metric=metric, W=W)
    k = min(n_neighbors, train.shape[0])
    train_rows: Any = train[:] if is_sparse(train) else np.asarray(train)
    if metric == "cosine":
        train_rows = normalize(train_rows)
    if metric != "bilinear" and not is_sparse(train) and not is_sparse(test):
        test_rows = normalize(test) if metric == "cosine" else np.asarray(test)
        # Between unit rows the distance orders like the cosine; a row of zeros would come too near.
        if metric == "euclidean" or train_rows.any(axis=1).all():
            search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(train_rows)
            distances, indices = search.kneighbors(test_rows)
            return indices, distances**2
    if is_sparse(train) and train_rows.nnz > DENSE_ABOVE * np.prod(train.shape) and np.prod(train.shape) < 2**28:
        train_rows = train_rows.toarray()
    return _in_blocks(train_rows, test, k, metric, W)


def _in_blocks(train_rows: Any, test: Any, k: int, metric: str, W: NDArray | None) -> tuple[NDArray, NDArray]:
    """The search by blocks of similarities, for sparse rows and for bilinear similarities."""
    indices = np.empty((test.shape[0], k), dtype=np.int64)
    distances = np.empty((test.shape[0], k))
    lengths = _squared_lengths(train_rows) if metric == "euclidean" else None
    step = max(1, BLOCK_VALUES // train_rows.shape[0])
    for start in range(0, test.shape[0], step):
        block = slice(start, min(start + step, test.shape[0]))
        rows = test[block]
        if metric == "cosine":
            rows = normalize(rows)
        elif metric == "bilinear" and W is not None:
            rows = rows @ W
        if sp.issparse(rows) and not sp.issparse(train_rows):
            rows = rows.toarray()
        similarity = rows @ train_rows.T
        cost = -(similarity.toarray() if sp.issparse(similarity) else np.asarray(similarity))
        if metric == "cosine":
            cost *= 2
            cost += 2
        elif lengths is not None:
            cost *= 2
            cost += lengths
        found, cost = _smallest(cost, k)
        if lengths is not None:
            cost += _squared_lengths(rows)[:, None]
        indices[block], distances[block] = found, cost
    return indices, np.maximum(distances, 0) if metric != "bilinear" else distances


def vote(labels: NDArray, distances: NDArray | None = None) -> NDArray:
    """Choose one class from the labels of each row's neighbours, nearest first.

    Without distances the class with most neighbours wins, of several such the one with the nearest neighbour.
    With distances the class with the largest *sum of squared distances* wins, as in the published reference
    code, which so gives more weight to farther neighbours.
    """
    same = labels[:, :, None] == labels[:, None, :]
    weight = same.sum(axis=2) if distances is None else (same * distances[:, None, :]).sum(axis=2)
    return np.take_along_axis(labels, weight.argmax(axis=1)[:, None], axis=1)[:, 0]


def knn_predict(
    train: Any,
    y_train: ArrayLike,
    test: Any,
    *,
    n_neighbors: int = 5,
    metric: str = "cosine",
    vote_rule: str = "majority",
    W: NDArray | None = None,
) -> NDArray:
    """Predict the class of each test row from its nearest training rows; see :func:`knn_accuracy`."""
    if vote_rule not in VOTES:
        raise ValueError(f"vote must be one of {VOTES}, got {vote_rule!r}")
    y_train = np.asarray(y_train)
    if len(y_train) != train.shape[0]:
        raise ValueError(f"{train.shape[0]} training rows but {len(y_train)} labels")
    indices, distances = nearest(train, test, n_neighbors, metric=metric, W=W)
    return vote(y_train[indices], distances if vote_rule == "reference" else None)


def knn_accuracy(
    train: Any,
    y_train: ArrayLike,
    test: Any,
    y_test: ArrayLike,
    *,
    n_neighbors: int = 5,
    metric: str = "cosine",
    vote: str = "majority",
    W: NDArray | None = None,
) -> float:
    """Share of test rows that their nearest training rows classify correctly.

    Similarities are computed in blocks, so memory stays bounded whatever the number of rows.

    Parameters
    ----------
    train, test : ndarray, CSR matrix, BinaryRows or dask array
        Rows of embeddings, or of the data themselves.
    y_train, y_test : array-like
        Their labels.
    n_neighbors : int, default 5
        Neighbours that vote.
    metric : {"cosine", "euclidean", "bilinear"}, default "cosine"
        What nearest means.
    vote : {"majority", "reference"}, default "majority"
        Majority with ties to the nearest, or the rule of the authors' code: the class with the largest sum of
        squared distances.
    W : ndarray of shape (D, D), optional
        Matrix of the bilinear similarity.

    Examples
    --------
    >>> import numpy as np
    >>> train = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> knn_accuracy(train, ["a", "b"], np.array([[3.0, 1.0]]), ["a"], n_neighbors=1)
    1.0
    """
    y_test = np.asarray(y_test)
    if len(y_test) != test.shape[0]:
        raise ValueError(f"{test.shape[0]} test rows but {len(y_test)} labels")
    found = knn_predict(train, y_train, test, n_neighbors=n_neighbors, metric=metric, vote_rule=vote, W=W)
    return float(np.mean(found == y_test))


def _squared_lengths(rows: Any) -> NDArray:
    squares = rows.multiply(rows).sum(axis=1) if sp.issparse(rows) else np.einsum("ij,ij->i", rows, rows)
    return np.asarray(squares).ravel()


def _smallest(cost: NDArray, k: int) -> tuple[NDArray, NDArray]:
    """Columns and values of the k smallest entries of each row, ascending."""
    found = np.argpartition(cost, k - 1, axis=1)[:, :k] if k < cost.shape[1] else np.argsort(cost, axis=1)
    values = np.take_along_axis(cost, found, axis=1)
    order = np.argsort(values, axis=1, kind="stable")
    return np.take_along_axis(found, order, axis=1), np.take_along_axis(values, order, axis=1)
