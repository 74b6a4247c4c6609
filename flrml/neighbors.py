"""Classify by the nearest neighbours in an embedding, and measure the accuracy."""

from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import unique_labels

from flrml.rows import (
    BinaryRows,
    RunRows,
    check_rows,
    check_unmasked,
    is_dask,
    is_sparse,
    largest_value,
    normalize,
    product,
    row_products,
)
from flrml.rows.threads import in_threads, one_blas_thread, slices

Vote = Callable[[NDArray, NDArray], NDArray]

METRICS = ("cosine", "euclidean", "bilinear")
BLOCK_SIMILARITIES = 2**24  # similarities held at once
DENSE_SHARE = 0.03  # share of non-zeros above which dense products are faster than sparse ones
DENSE_TRAIN_VALUES = 2**28  # largest training rows that are stored dense
CACHED_ROWS, CACHED_COLUMNS = 256, 8192  # of a block of cosines that stays in the processor's cache
DENSE_TEST_VALUES = 2**26  # test rows that are stored dense at once


def nearest(
    train: Any, test: Any, n_neighbors: int = 5, *, metric: str = "cosine", W: NDArray | None = None
) -> tuple[NDArray, NDArray]:
    """Find the nearest training rows of each test row.

    Parameters
    ----------
    train, test : ndarray, CSR matrix, BinaryRows or dask array
        Rows of embeddings, or of the data themselves.
    n_neighbors : int, default=5
        Number of neighbours; at most the number of training rows.
    metric : {"cosine", "euclidean", "bilinear"}
        Larger cosine, smaller distance, or larger similarity xᵀ W x' is nearer.
    W : ndarray of shape (n_features, n_features), optional
        For ``"bilinear"``; the identity if it is left out.

    Returns
    -------
    indices : ndarray of shape (n_test, n_neighbors)
        Training rows, nearest first.
    distances : ndarray of shape (n_test, n_neighbors)
        Squared distances, of the rows scaled to unit length for ``"cosine"``; minus the similarity for
        ``"bilinear"``.
    """
    if not isinstance(n_neighbors, Integral) or n_neighbors < 1:
        raise ValueError(f"n_neighbors must be a positive integer, got {n_neighbors!r}")
    W = check_metric(train, test, metric, W)
    if is_dask(train) or is_dask(test):
        from flrml.distributed import nearest_in_blocks

        return nearest_in_blocks(train, test, n_neighbors, metric=metric, W=W)
    if metric != "cosine" and (scale := extreme_scale(train, test)) is not None:
        indices, distances = nearest(train / scale, test / scale, n_neighbors, metric=metric, W=W)
        with np.errstate(over="ignore"):
            return indices, distances * np.float64(scale) ** 2
    k = min(n_neighbors, train.shape[0])
    if metric != "bilinear" and not is_sparse(train) and not is_sparse(test):
        if metric == "cosine":
            return _search_cosines(normalize(np.asarray(train)), normalize(np.asarray(test)), k)
        from sklearn.neighbors import NearestNeighbors  # a sixth of the time that importing flrml would take

        distances, indices = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(train).kneighbors(test)
        return indices, distances**2
    return _search_blocks(train, test, k, metric, W)


def check_metric(
    train: Any, test: Any, metric: str, W: Any, names: tuple[str, str] = ("train", "test")
) -> NDArray | None:
    """Return the matrix of a bilinear similarity; raise if metric, matrix or numbers of columns do not fit."""
    if metric not in METRICS:
        raise ValueError(f"metric must be one of {METRICS}, got {metric!r}")
    if W is None and train.shape[1] != test.shape[1]:
        raise ValueError(f"{names[0]} has {train.shape[1]} columns, but {names[1]} has {test.shape[1]}")
    if W is not None:
        W = check_array(W, input_name="W")
        if W.shape != (test.shape[1], train.shape[1]):
            raise ValueError(f"W must have the shape {(test.shape[1], train.shape[1])}, got {W.shape}")
    return W


def extreme_scale(train: Any, test: Any) -> float | None:
    """Return the largest absolute value if products of such rows overflow or vanish, else None."""
    if isinstance(train, BinaryRows) or isinstance(test, BinaryRows):
        return None
    largest = max(largest_value(train), largest_value(test))
    limits = np.finfo(np.result_type(train.dtype, test.dtype, np.float32))
    few = np.sqrt(limits.max) * limits.eps
    return None if largest == 0 or 1 / few < largest < few else largest


def _search_cosines(train: NDArray, test: NDArray, k: int) -> tuple[NDArray, NDArray]:
    """Search dense rows of unit length, or of zeros, by blocks of cosines that stay in the processor's cache."""
    indices = np.empty((len(test), k), dtype=np.int64)
    cosines = np.empty((len(test), k), dtype=np.result_type(train, test))

    def search(start: int) -> None:
        rows = test[start : start + CACHED_ROWS]
        columns, values = [], []
        for first in range(0, len(train), CACHED_COLUMNS):
            part = train[first : first + CACHED_COLUMNS]
            found, cosine = largest(rows @ part.T, min(k, len(part)))
            columns.append(first + found)
            values.append(cosine)
        order = np.argsort(-np.hstack(values), axis=1, kind="stable")[:, :k]  # of equal ones, the first rows
        block = slice(start, start + len(rows))
        indices[block] = np.take_along_axis(np.hstack(columns), order, axis=1)
        cosines[block] = np.take_along_axis(np.hstack(values), order, axis=1)

    with one_blas_thread():
        in_threads(search, range(0, len(test), CACHED_ROWS))
    return indices, np.maximum(2 - 2 * cosines, 0).astype(np.float64)


def largest(similarity: NDArray, k: int) -> tuple[NDArray, NDArray]:
    """Return columns and values of the k largest entries of each row, descending; may overwrite the entries."""
    if k > 10:  # up to here, passes over a cached block are faster than a partition
        most = min(k, similarity.shape[1] - 1)
        columns = np.argpartition(-similarity, most, axis=1)[:, :k]
        values = np.take_along_axis(similarity, columns, axis=1)
        order = np.argsort(-values, axis=1, kind="stable")
        return np.take_along_axis(columns, order, axis=1), np.take_along_axis(values, order, axis=1)
    each = np.arange(len(similarity))
    columns = np.empty((len(similarity), k), dtype=np.int64)
    values = np.empty((len(similarity), k), dtype=similarity.dtype)
    for a in range(k):
        columns[:, a] = similarity.argmax(axis=1)
        values[:, a] = similarity[each, columns[:, a]]
        similarity[each, columns[:, a]] = -np.inf
    return columns, values


def _search_blocks(train: Any, test: Any, k: int, metric: str, W: NDArray | None) -> tuple[NDArray, NDArray]:
    """Search by blocks of similarities, for sparse rows and for bilinear similarities."""
    indices = np.empty((test.shape[0], k), dtype=np.int64)
    distances = np.empty((test.shape[0], k))
    for block, rows, nearness in nearness_blocks(train, test, metric, W):
        indices[block], nearness = largest(nearness, k)
        distances[block] = 2 - 2 * nearness if metric == "cosine" else -nearness
        if metric == "euclidean":
            distances[block] += row_products(rows, rows)[:, None]
    return indices, np.maximum(distances, 0) if metric != "bilinear" else distances


def nearness_blocks(train: Any, test: Any, metric: str, W: NDArray | None) -> Iterator[tuple[slice, Any, NDArray]]:
    """Yield blocks of test rows with a dense matrix of their nearness to each training row, larger for nearer ones.

    It is the cosine, 2 xᵀx' − ‖x'‖² for ``"euclidean"``, or the bilinear similarity.
    """
    large = np.prod(train.shape) >= DENSE_TRAIN_VALUES
    if not (isinstance(train, RunRows) and large and metric == "cosine"):  # with column numbers they might not fit
        train = train[:] if is_sparse(train) else np.asarray(train)
        if metric == "cosine":
            train = normalize(train)
        if is_sparse(train) and train.nnz > DENSE_SHARE * np.prod(train.shape) and not large:
            train = train.toarray()
    lengths = row_products(train, train) if metric == "euclidean" else None
    step = max(1, BLOCK_SIMILARITIES // train.shape[0])
    if isinstance(train, RunRows):
        step = max(1, min(step, DENSE_TEST_VALUES // test.shape[1]))
    for block in slices(test.shape[0], step):
        rows = test[block]
        if metric == "cosine":
            rows = normalize(rows)
        elif metric == "bilinear" and W is not None:
            rows = rows @ W
        if sp.issparse(rows) and not sp.issparse(train):
            rows = rows.toarray()
        if isinstance(train, RunRows):  # products are of dense rows
            similarity: Any = product(train, np.ascontiguousarray(rows.T)).T
        else:
            similarity = rows @ train.T
        nearness = similarity.toarray() if sp.issparse(similarity) else np.asarray(similarity)
        yield block, rows, nearness if lengths is None else 2 * nearness - lengths


def majority_vote(labels: NDArray, distances: NDArray) -> NDArray:
    """Choose the class with most neighbours; ties go to the class with the nearest neighbour.

    Parameters
    ----------
    labels : ndarray of shape (n, k)
        Labels of the neighbours of each row, nearest first.
    distances : ndarray of shape (n, k)
        Their squared distances; a majority does not use them.
    """
    count = (labels[:, :, None] == labels[:, None, :]).sum(axis=2)
    return np.take_along_axis(labels, count.argmax(axis=1)[:, None], axis=1)[:, 0]


def knn_predict(
    train: Any,
    y_train: ArrayLike,
    test: Any,
    *,
    n_neighbors: int = 5,
    metric: str = "cosine",
    vote: Vote = majority_vote,
    W: NDArray | None = None,
) -> NDArray:
    """Predict the class of each test row from its nearest training rows; see :func:`flrml.knn_accuracy`."""
    train, test = check_rows(train, "train"), check_rows(test, "test")
    labels = column_or_1d(y_train, warn=True)
    check_consistent_length(train, labels)
    indices, distances = nearest(train, test, n_neighbors, metric=metric, W=W)
    return vote(labels[indices], distances)


def knn_accuracy(
    train: Any,
    y_train: ArrayLike,
    test: Any,
    y_test: ArrayLike,
    *,
    n_neighbors: int = 5,
    metric: str = "cosine",
    vote: Vote = majority_vote,
    W: NDArray | None = None,
) -> float:
    """Return the share of test rows that their nearest training rows classify correctly.

    Similarities are computed in blocks, so that memory does not grow with the number of rows.

    Parameters
    ----------
    train, test : array-like, CSR matrix, BinaryRows or dask array
        Rows of embeddings, or of the data themselves.
    y_train, y_test : array-like
        Their labels.
    n_neighbors : int, default=5
        Neighbours that vote.
    metric : {"cosine", "euclidean", "bilinear"}, default="cosine"
        Larger cosine, smaller distance, or larger similarity xᵀ W x' is nearer.
    vote : callable, default=:func:`flrml.neighbors.majority_vote`
        Chooses a class from the labels and squared distances of a row's neighbours.
        :func:`flrml.reference.farthest_vote` is that of the authors' code.
    W : ndarray of shape (n_features, n_features), optional
        Matrix of the bilinear similarity.

    Examples
    --------
    >>> import numpy as np
    >>> train = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> knn_accuracy(train, ["a", "b"], np.array([[3.0, 1.0]]), ["a"], n_neighbors=1)
    1.0
    """
    check_unmasked(y_train, "y_train")
    check_unmasked(y_test, "y_test")
    y_train, y_test = column_or_1d(y_train, warn=True), column_or_1d(y_test, warn=True)
    check_consistent_length(test, y_test)
    unique_labels(y_train, y_test)  # refuses a mix of numbers and strings
    found = knn_predict(train, y_train, test, n_neighbors=n_neighbors, metric=metric, vote=vote, W=W)
    return float(np.mean(found == y_test))
