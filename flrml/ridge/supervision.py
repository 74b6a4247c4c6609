"""Labels or triplets as the supervision of RidgeFLRML.

Both offer the same operations: contrasts in expectation, the pairs inside the margin of a learned metric, folds,
and the evaluation of embedded validation rows. Rows of one group (``groups``) show the same object, such as the
poses of one model: in rounds they are not positives of one another, and they are held out together.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from flrml.folds import (
    MAX_VALIDATION_ROWS,
    Parts,
    class_folds,
    draw_at_most,
    group_folds,
    number_groups,
    stratified_folds,
)
from flrml.neighbors import largest, majority_vote, nearest
from flrml.ridge.pairs import blocks_of, dots, inside_margin
from flrml.rows import normalize, take_rows
from flrml.triplets import contrast_matrix

Search = Callable[..., tuple[NDArray, NDArray]]  # such as flrml.neighbors.nearest

N_NEIGHBORS = 5  # positives and negatives of an anchor, and neighbours that vote
MAX_ANCHORS = 2500  # rows whose neighbours are found in a round
CLASS_ROWS = 10  # per class that a sample of all classes has at least


class Contrasts(Protocol):
    """The part of the supervision of n rows that a map is solved from; sample matrices have n rows."""

    n_groups: int  # number of objects that the rows show
    n_classes: int  # C; 0 if classes are unknown
    new_classes: bool  # whether the map is for classes that come later

    def combine_classes(self, Q: NDArray) -> Any:
        """Return Z Q (n × p) for the indicators Z of the classes (n × C), whose columns have unit length."""

    def class_means(self, Y: Any) -> NDArray:
        """Return Zᵀ Y (C × p): the mean of each class, times the root of its size."""

    def contrast(self, Y: Any) -> Any:
        """Return ½ (A + Aᵀ) Y, where row i of A Y is the mean of i's positives minus that of its negatives."""

    def scatters(self, Y: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the scatter S_b of the class means, zeros if classes are unknown, and ½ Yᵀ (A + Aᵀ) Y."""

    def draw(self, size: int, random: np.random.RandomState) -> NDArray:
        """Draw at most ``size`` rows among which there are triplets."""

    def subset(self, rows: NDArray) -> "Supervision":
        """Return the supervision of some of the rows."""


class Supervision(Contrasts, Protocol):
    """Supervision of n rows, by labels or by triplets."""

    groups: NDArray  # number of each row's group

    def active_pairs(self, Y: NDArray, margin: float) -> tuple[NDArray, NDArray, NDArray, float]:
        """Return pairs (i, j) of unit rows Y inside the margin, their weights, and the mean hinge in margins."""

    def folds(self, random: np.random.RandomState) -> list[Parts]:
        """Split the rows into folds; groups stay together."""

    def evaluate(
        self, Y: Any, rows: NDArray, Y_validation: Any, validation: NDArray, search: Search = nearest
    ) -> tuple[NDArray, NDArray]:
        """Evaluate embedded validation rows by the embedded ``rows`` among which they find others.

        Return the score of each decision, between 0 and 1, and the group of its validation row.
        """


class Labels(Supervision):
    """Labels as supervision: the positives of a row are its class, the negatives all other rows."""

    new_classes = False

    def __init__(self, label: NDArray, groups: NDArray | None = None):
        n = len(label)
        self.label = np.unique(label, return_inverse=True)[1]
        self._alone = groups is None
        self.groups = number_groups(groups, n)
        self.n_groups = int(self.groups.max(initial=-1)) + 1
        size = np.bincount(self.label)
        kin = self.label * self.n_groups + self.groups
        _, first, kin_number, kin_size = np.unique(kin, return_index=True, return_inverse=True, return_counts=True)
        has_negatives = size[self.label] < n
        self.anchors = np.flatnonzero((size[self.label] > kin_size[kin_number]) & has_negatives)
        self.n_classes = len(size)
        self.contrasts = ClassContrasts(size, np.bincount(self.label[first], minlength=len(size)))
        values = (1 / np.sqrt(size))[self.label]
        self._indicators = sp.csr_matrix((values, self.label, np.arange(n + 1)), (n, len(size)))

    def combine_classes(self, Q: NDArray) -> NDArray:
        return self._indicators.astype(Q.dtype) @ Q

    def class_means(self, Y: NDArray) -> NDArray:
        return self._indicators.T.astype(Y.dtype) @ Y

    def contrast(self, Y: NDArray) -> NDArray:
        """Return ½ (A + Aᵀ) Y from the class means, in O(n d)."""
        return self.combine_classes((self.contrasts @ self.class_means(Y)).astype(Y.dtype))

    def scatters(self, Y: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return S_b and ½ Yᵀ (A + Aᵀ) Y, both from the class means."""
        means = self.class_means(Y).astype(np.float64)
        return means.T @ means, means.T @ (self.contrasts @ means)

    def active_pairs(self, Y: NDArray, margin: float) -> tuple[NDArray, NDArray, NDArray, float]:
        """Return pairs of anchors with their nearest positives and negatives, weighted by violated triplets.

        All rows that have positives and negatives are anchors, or MAX_ANCHORS of them.
        """
        anchors = self.anchors[np.argsort(self.label[self.anchors], kind="stable")]
        if len(anchors) > MAX_ANCHORS:  # evenly spaced, so that classes keep their shares
            anchors = anchors[np.arange(MAX_ANCHORS) * len(anchors) // MAX_ANCHORS]
        order = np.argsort(self.label, kind="stable")
        bounds = np.searchsorted(self.label[order], np.arange(self.label.max() + 2))
        by_class = Y[order]
        j = np.zeros((len(anchors), 2 * N_NEIGHBORS), dtype=np.int64)
        similarity = np.full(j.shape, -np.inf, dtype=Y.dtype)

        def keep(place: Any, first: int, found: NDArray, names: NDArray) -> None:
            k = min(N_NEIGHBORS, found.shape[1])
            columns, similarity[place, first : first + k] = largest(found, k)
            j[place, first : first + k] = names[columns]

        for block in blocks_of(len(anchors), len(Y)):
            i = anchors[block]
            cosines = Y[i] @ by_class.T
            for label in np.unique(self.label[i]):
                mine = np.flatnonzero(self.label[i] == label)
                members = slice(bounds[label], bounds[label + 1])
                same = cosines[mine, members]
                same[self.groups[i[mine], None] == self.groups[order[members]]] = -np.inf
                cosines[mine, members] = -np.inf
                keep(block.start + mine, 0, same, order[members])
            keep(block, N_NEIGHBORS, cosines, order)
        return inside_margin(anchors, j, similarity, margin)

    def draw(self, size: int, random: np.random.RandomState) -> NDArray:
        """Draw at most ``size`` rows; if they were too few for all classes, those of random classes."""
        if size >= min(CLASS_ROWS * self.n_classes, len(self.label)):
            return draw_at_most(size, np.arange(len(self.label)), random)
        return np.sort(np.argsort(random.permutation(self.n_classes)[self.label], kind="stable")[:size])

    def subset(self, rows: NDArray) -> "Labels":
        return type(self)(self.label[rows], None if self._alone else self.groups[rows])

    def folds(self, random: np.random.RandomState) -> list[Parts]:
        return stratified_folds(self.label, self.groups, random)

    def evaluate(
        self, Y: Any, rows: NDArray, Y_validation: Any, validation: NDArray, search: Search = nearest
    ) -> tuple[NDArray, NDArray]:
        """Classify each validation row by 5-NN with the cosine; the score is 1 if the vote is right, else 0."""
        voted = self.label[rows][search(Y, Y_validation, N_NEIGHBORS)[0]]
        correct = majority_vote(voted, np.empty(0)) == self.label[validation]
        return correct.astype(np.float64), self.groups[validation]


class NewClasses(Labels):
    """Labels as supervision of a map for classes that come later: whole classes are held out."""

    new_classes = True

    def folds(self, random: np.random.RandomState) -> list[Parts]:
        """Hold out each fifth of the classes; of many classes, some are left out of the validation rows."""
        most, folds = MAX_VALIDATION_ROWS // 4, class_folds(self.label, self.anchors, random)
        return [(train, validation[self.subset(validation).draw(most, random)]) for train, validation in folds]

    def evaluate(
        self, Y: Any, rows: NDArray, Y_validation: Any, validation: NDArray, search: Search = nearest
    ) -> tuple[NDArray, NDArray]:
        """Score each validation row by the mean of its recall at 1 and its MAP@R among the other ``rows``.

        Both are those of :func:`flrml.retrieval_scores`.
        """
        label, group = self.label[rows], self.groups[rows]
        kin, size = np.unique(label * self.n_groups + group, return_counts=True)
        place = np.searchsorted(kin, self.label[validation] * self.n_groups + self.groups[validation])
        relevant = np.bincount(label)[self.label[validation]] - size[place]  # without those of the same object
        most = relevant + np.bincount(group)[self.groups[validation]]  # to find as many next to that object's rows
        queries = np.flatnonzero(relevant)
        label_of, group_of = (values[validation[queries], None] for values in (self.label, self.groups))
        if not len(queries):
            return np.empty(0), group_of.ravel()
        found = search(Y, take_rows(Y_validation, queries), int(most.max()))[0]
        others = group[found] != group_of
        rank = np.cumsum(others, axis=1)
        right = others & (label[found] == label_of) & (rank <= relevant[queries, None])
        precision = np.cumsum(right, axis=1) / np.maximum(rank, 1)
        map_at_r = (right * precision).sum(axis=1) / relevant[queries]
        recall_at_1 = (right & (rank == 1)).any(axis=1)
        return (recall_at_1 + map_at_r) / 2, group_of.ravel()


class Triplets(Supervision):
    """Given triplets (i, j, k) of n rows as supervision."""

    n_classes, new_classes = 0, False

    def __init__(self, triplets: NDArray, n: int, groups: NDArray | None = None):
        self.triplets, self.n = triplets, n
        self.groups = number_groups(groups, n)
        self.n_groups = int(self.groups.max(initial=-1)) + 1
        self._contrasts = contrast_matrix(triplets, n)

    def combine_classes(self, Q: NDArray) -> NDArray:
        """Raise: triplets do not name classes."""
        raise NotImplementedError

    def class_means(self, Y: NDArray) -> NDArray:
        """Raise: triplets do not name classes."""
        raise NotImplementedError

    def contrast(self, Y: NDArray) -> NDArray:
        """Return ½ (A + Aᵀ) Y with A of the given triplets."""
        return (0.5 * (self._contrasts @ Y + self._contrasts.T @ Y)).astype(Y.dtype)

    def scatters(self, Y: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return zeros, as triplets do not name classes, and ½ Yᵀ (A + Aᵀ) Y with A of the given triplets."""
        G = (Y.T @ (self._contrasts @ Y)).astype(np.float64)
        return np.zeros_like(G), (G + G.T) / 2

    def active_pairs(self, Y: NDArray, margin: float) -> tuple[NDArray, NDArray, NDArray, float]:
        """Return pairs of the triplets that the metric violates, or satisfies by less than the margin."""
        i, j, k = self.triplets.T
        similarity = np.column_stack((dots(Y, i, j), dots(Y, i, k)))
        return inside_margin(i, np.column_stack((j, k)), similarity, margin)

    def draw(self, size: int, random: np.random.RandomState) -> NDArray:
        """Draw all rows, or those of random triplets."""
        if self.n <= size:
            return np.arange(self.n)
        return np.unique(random.permutation(self.triplets)[: size // 3])

    def subset(self, rows: NDArray) -> "Triplets":
        """Return the triplets all of whose samples are among the rows, with their new numbers."""
        place = np.full(self.n, -1)
        place[rows] = np.arange(len(rows))
        T = place[self.triplets]
        return Triplets(T[(T >= 0).all(axis=1)], len(rows), self.groups[rows])

    def folds(self, random: np.random.RandomState) -> list[Parts]:
        return group_folds(self.groups, self.n_groups, random)

    def evaluate(
        self, Y: Any, rows: NDArray, Y_validation: Any, validation: NDArray, search: Search = nearest
    ) -> tuple[NDArray, NDArray]:
        """Decide each triplet from a validation row to training rows: 1 if it is satisfied, else 0."""
        place = np.full(self.n, -1)
        both = np.concatenate((rows, validation))
        place[both] = np.arange(len(both))
        T = place[self.triplets]
        T = T[(T[:, 0] >= len(rows)) & (T >= 0).all(axis=1)]
        Y, Y_validation = Y[:], Y_validation[:]  # BinaryRows become CSR matrices
        stacked = sp.vstack((Y, Y_validation), format="csr") if sp.issparse(Y) else np.vstack((Y, Y_validation))
        U = normalize(stacked)
        satisfied = (dots(U, T[:, 0], T[:, 1]) > dots(U, T[:, 0], T[:, 2])).astype(np.float64)
        return satisfied, self.groups[both[T[:, 0]]]


class ClassContrasts:
    """The contrasts between C class means, for classes of a size and with a number of distinct objects.

    With F, the means of the classes times the roots of their sizes, ½ Yᵀ (A + Aᵀ) Y is Fᵀ (contrasts @ F). The
    matrix is diagonal but for a symmetric one of rank two, and is never formed.
    """

    def __init__(self, size: NDArray, objects: NDArray):
        n, self._root = size.sum(), np.sqrt(size)
        # A class with a single object has no positives and does not count.
        weight = (objects > 1) & (size < n)
        self._against = weight * self._root / np.maximum(n - size, 1)
        self._diagonal = weight + self._against * self._root

    def __matmul__(self, F: NDArray) -> NDArray[np.float64]:
        """Return the contrasts times F."""
        others = np.outer(self._against, self._root @ F) + np.outer(self._root, self._against @ F)
        return self._diagonal[:, None] * F - others / 2
