"""Score retrieval: how many of the rows that a query finds first are of its class."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import unique_labels

from flrml.neighbors import check_metric, extreme_scale, nearness_blocks
from flrml.rows import check_rows, is_dask, is_sparse
from flrml.rows.threads import in_threads, share, slices


def retrieval_scores(
    E: Any,
    y: ArrayLike,
    gallery: Any = None,
    y_gallery: ArrayLike | None = None,
    *,
    k: int | Sequence[int] = (1, 10),
    groups: ArrayLike | None = None,
    gallery_groups: ArrayLike | None = None,
    metric: str = "cosine",
    W: NDArray | None = None,
    average: bool = True,
) -> dict[str, Any]:
    """Score how well rows find rows of their class.

    Each row of ``E`` is a query. It ranks the rows of the gallery, nearest first and of equally near ones the first
    one first; R of them are of its class. Similarities are computed in blocks, so that memory does not grow with
    the number of queries.

    Parameters
    ----------
    E : array-like, CSR matrix or BinaryRows
        Queries: rows of embeddings, or of the data themselves.
    y : array-like
        Their labels.
    gallery : array-like, CSR matrix or BinaryRows, optional
        Rows to search; without it, each query searches the other rows of ``E``.
    y_gallery : array-like, optional
        Labels of the gallery.
    k : int or sequence of int, default=(1, 10)
        Numbers of rows found, for recall and precision.
    groups, gallery_groups : array-like, optional
        Groups of the rows, such as several poses of one object; no query finds rows of its own group.
    metric : {"cosine", "euclidean", "bilinear"}, default="cosine"
        Larger cosine, smaller distance, or larger similarity xᵀ W x' is nearer.
    W : ndarray of shape (n_features, n_features), optional
        Matrix of the bilinear similarity.
    average : bool, default=True
        Whether to average over the queries; if not, each score is an array with one value per query.

    Returns
    -------
    dict
        For each k, ``recall_at_k``, whether one of the first k rows is of the query's class, and
        ``precision_at_k``, the share of them that are; ``r_precision``, the share among the first R; and
        ``map_at_r``, the mean over the first R places of the precision up to there, where a place with a row of
        another class counts as 0 [1]_.

    References
    ----------
    .. [1] Musgrave, Belongie and Lim: A Metric Learning Reality Check. ECCV 2020.

    Examples
    --------
    >>> import numpy as np
    >>> E = np.array([[1.0, 0.0], [1.0, 0.2], [0.0, 1.0], [0.1, 1.0], [1.0, 0.1]])
    >>> scores = retrieval_scores(E, ["a", "a", "b", "b", "b"], k=1)
    >>> scores["recall_at_1"], round(scores["map_at_r"], 3)
    (0.4, 0.2)
    """
    E, labels = _check_part(E, y, "E", "y")
    rows, row_labels = (E, labels) if gallery is None else _check_part(gallery, y_gallery, "gallery", "y_gallery")
    unique_labels(labels, row_labels)  # refuses a mix of numbers and strings
    W = check_metric(rows, E, metric, W, ("gallery", "E"))
    if gallery is None:
        groups = np.arange(E.shape[0]) if groups is None else groups
        gallery_groups = groups
    elif (groups is None) != (gallery_groups is None):
        raise ValueError("groups and gallery_groups must be given together, or neither")
    classes, wanted = _number(row_labels, labels)
    relevant, searched = _count(classes, wanted), np.full(len(labels), rows.shape[0])
    if groups is not None:
        group, own = _number(_column(gallery_groups, rows), _column(groups, E))
        searched -= _count(group, own)
        n = len(group) + len(own)  # more than there are groups
        relevant -= _count(*_number(classes * n + group, wanted * n + own))
    depths = _check_depths(k, relevant, searched, labels, gallery is None)

    if metric != "cosine" and (scale := extreme_scale(rows, E)) is not None:
        rows, E = rows / scale, E / scale
    if metric == "euclidean" and not is_sparse(rows) and not is_sparse(E):
        rows, E = np.asarray(rows, dtype=np.float64), np.asarray(E, dtype=np.float64)  # differences lose digits
    scores = {f"{name}_at_{depth}": np.zeros(len(labels)) for depth in depths for name in ("recall", "precision")}
    scores |= {"r_precision": np.zeros(len(labels)), "map_at_r": np.zeros(len(labels))}

    def score(query: int, nearness: NDArray) -> None:
        if groups is not None:
            nearness[group == own[query]] = -np.inf
        R = relevant[query]
        first = _descending(nearness, max(R, *depths))
        ranks = 1 + np.flatnonzero(classes[first] == wanted[query])
        for depth in depths:
            hits = np.searchsorted(ranks, depth, side="right")
            scores[f"recall_at_{depth}"][query] = hits > 0
            scores[f"precision_at_{depth}"][query] = hits / depth
        ranks = ranks[ranks <= R]
        scores["r_precision"][query] = len(ranks) / R
        scores["map_at_r"][query] = np.sum(np.arange(1, len(ranks) + 1) / ranks) / R

    for block, _, nearness in nearness_blocks(rows, E, metric, W):

        def score_piece(piece: slice, block: slice = block, nearness: NDArray = nearness) -> None:
            for number in range(piece.start, piece.stop):
                score(block.start + number, nearness[number])

        in_threads(score_piece, slices(len(nearness), share(len(nearness))))
    return {name: float(values.mean()) for name, values in scores.items()} if average else scores


def _number(gallery: NDArray, queries: NDArray) -> tuple[NDArray, NDArray]:
    """Return labels of the gallery and of the queries as numbers 0, 1, …."""
    numbers = np.unique(np.concatenate((gallery, queries)), return_inverse=True)[1]
    return numbers[: len(gallery)], numbers[len(gallery) :]


def _count(gallery: NDArray, queries: NDArray) -> NDArray:
    """Return the number of rows of the gallery with the label of each query."""
    return np.bincount(gallery, minlength=int(queries.max()) + 1)[queries]


def _descending(nearness: NDArray, count: int) -> NDArray:
    """Return the places of the largest entries in descending order, of equal ones the first one first."""
    n = len(nearness)
    candidates = np.flatnonzero(nearness >= np.partition(nearness, n - count)[n - count])
    return candidates[np.argsort(-nearness[candidates], kind="stable")[:count]]


def _check_part(rows: Any, y: Any, name: str, y_name: str) -> tuple[Any, NDArray]:
    """Return rows and labels of the queries or of the gallery."""
    if is_dask(rows):
        raise ValueError(f"{name} is a dask array; pass {name}.compute(), whose rows fit into memory")
    if y is None:
        raise ValueError(f"{y_name} is missing; give the labels of {name}")
    rows, labels = check_rows(rows, name), column_or_1d(y, warn=True)
    check_consistent_length(rows, labels)
    return rows, labels


def _column(groups: Any, rows: Any) -> NDArray:
    groups = column_or_1d(groups)
    check_consistent_length(rows, groups)
    return groups


def _check_depths(k: Any, relevant: NDArray, searched: NDArray, labels: NDArray, among: bool) -> list[int]:
    """Return the values of k; raise if one is larger than a gallery, or if a query has no row to find."""
    depths = np.unique(np.atleast_1d(k))
    if depths.dtype.kind not in "iu" or not len(depths) or depths[0] < 1:
        raise ValueError(f"k must be a positive integer or a list of them, got {k!r}")
    if not relevant.all():
        query = int(np.argmin(relevant > 0))
        where = "of another row or group" if among else "in the gallery"
        raise ValueError(
            f"row {query} finds no row of its class {labels[query]} {where}; leave out classes with a single row "
            "or group, or add rows"
        )
    if depths[-1] > (smallest := searched.min()):
        raise ValueError(f"k = {depths[-1]} is larger than the gallery of {smallest} rows; choose a smaller k")
    return depths.tolist()
