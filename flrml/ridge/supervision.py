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

from flrml.folds import Parts, draw_at_most, group_folds, number_groups, stratified_folds
from flrml.neighbors import largest, majority_vote, nearest
from flrml.ridge.pairs import blocks_of, dots, inside_margin
from flrml.rows import normalize
from flrml.triplets import contrast_matrix, triplet_counts

Search = Callable[..., tuple[NDArray, NDArray]]  # such as flrml.neighbors.nearest

N_NEIGHBORS = 5  # positives and negatives of an anchor, and neighbours that vote
MAX_ANCHORS = 2500  # rows whose neighbours are found in a round


class Contrasts(Protocol):
    """The part of the supervision of n rows that a map is solved from; sample matrices have n rows."""

    n_groups: int  # number of objects that the rows show

    def class_indicators(self, dtype: Any) -> Any:
        """Return the indicators of the classes (n × C), of unit length; None if classes are unknown."""

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
    ) -> tuple[NDArray, NDArray, NDArray]:
        """Evaluate embedded validation rows with embedded training ``rows``.

        Return, for each decision, 1 if it is correct, else 0; the share of neighbours of the right class; and the
        group of the validation row.
        """


class Labels(Supervision):
    """Labels as supervision: the positives of a row are its class, the negatives all other rows."""

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
        self.contrasts = class_contrasts(size, np.bincount(self.label[first], minlength=len(size)))
        members = sp.csr_matrix((np.ones(n), self.label, np.arange(n + 1)))
        self._indicators = members @ sp.diags(1 / np.maximum(np.sqrt(size), 1))

    def class_indicators(self, dtype: Any) -> NDArray:
        return self._indicators.toarray().astype(dtype, copy=False)

    def class_means(self, Y: NDArray) -> NDArray:
        """Return the mean of each class, times the root of its size."""
        return self._indicators.T.astype(Y.dtype) @ Y

    def contrast(self, Y: NDArray) -> NDArray:
        """Return ½ (A + Aᵀ) Y from the class means, in O(n d)."""
        return self._indicators.astype(Y.dtype) @ (self.contrasts.astype(Y.dtype) @ self.class_means(Y))

    def scatters(self, Y: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return S_b and ½ Yᵀ (A + Aᵀ) Y, both from the class means."""
        means = self.class_means(Y).astype(np.float64)
        return means.T @ means, means.T @ self.contrasts @ means

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
        for label in range(self.label.max() + 1):
            mine = np.flatnonzero(self.label[anchors] == label)
            members = slice(bounds[label], bounds[label + 1])
            for block in blocks_of(len(mine), len(Y)):
                place, i = mine[block], anchors[mine[block]]
                cosines = Y[i] @ by_class.T
                same = cosines[:, members].copy()
                same[self.groups[i, None] == self.groups[order[members]]] = -np.inf
                cosines[:, members] = -np.inf
                for first, found, names in ((0, same, order[members]), (N_NEIGHBORS, cosines, order)):
                    k = min(N_NEIGHBORS, found.shape[1])
                    columns, similarity[place, first : first + k] = largest(found, k)
                    j[place, first : first + k] = names[columns]
        return inside_margin(anchors, j, similarity, margin)

    def draw(self, size: int, random: np.random.RandomState) -> NDArray:
        return draw_at_most(size, np.arange(len(self.label)), random)

    def subset(self, rows: NDArray) -> "Labels":
        return Labels(self.label[rows], None if self._alone else self.groups[rows])

    def folds(self, random: np.random.RandomState) -> list[Parts]:
        return stratified_folds(self.label, self.groups, random)

    def evaluate(
        self, Y: Any, rows: NDArray, Y_validation: Any, validation: NDArray, search: Search = nearest
    ) -> tuple[NDArray, NDArray, NDArray]:
        """Classify each validation row by 5-NN with the cosine."""
        voted, label = self.label[rows][search(Y, Y_validation, N_NEIGHBORS)[0]], self.label[validation]
        correct = majority_vote(voted, np.empty(0)) == label
        return correct.astype(np.float64), (voted == label[:, None]).mean(axis=1), self.groups[validation]


class Triplets(Supervision):
    """Given triplets (i, j, k) of n rows as supervision."""

    def __init__(self, triplets: NDArray, n: int, groups: NDArray | None = None):
        self.triplets, self.n = triplets, n
        self.groups = number_groups(groups, n)
        self.n_groups = int(self.groups.max(initial=-1)) + 1
        self._contrasts = contrast_matrix(*triplet_counts(triplets, n))

    def class_indicators(self, dtype: Any) -> None:
        """Return None: triplets do not name classes."""
        return

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
    ) -> tuple[NDArray, NDArray, NDArray]:
        """Decide each triplet from a validation row to training rows; its purity is 1 if it is satisfied."""
        place = np.full(self.n, -1)
        both = np.concatenate((rows, validation))
        place[both] = np.arange(len(both))
        T = place[self.triplets]
        T = T[(T[:, 0] >= len(rows)) & (T >= 0).all(axis=1)]
        Y, Y_validation = Y[:], Y_validation[:]  # BinaryRows become CSR matrices
        stacked = sp.vstack((Y, Y_validation), format="csr") if sp.issparse(Y) else np.vstack((Y, Y_validation))
        U = normalize(stacked)
        satisfied = (dots(U, T[:, 0], T[:, 1]) > dots(U, T[:, 0], T[:, 2])).astype(np.float64)
        return satisfied, satisfied, self.groups[both[T[:, 0]]]


def class_contrasts(size: NDArray, objects: NDArray) -> NDArray[np.float64]:
    """Return the contrasts between class means, for classes of a size and with a number of distinct objects.

    With F, the means of the classes times the roots of their sizes, ½ Yᵀ (A + Aᵀ) Y is Fᵀ contrasts F.
    """
    n, root = size.sum(), np.sqrt(size)
    # A class with a single object has no positives and does not count.
    weight = (objects > 1) & (size < n)
    against = np.outer(root / np.maximum(n - size, 1), root)
    np.fill_diagonal(against, 0)
    contrasts = weight[:, None] * (np.eye(len(size)) - against)
    return (contrasts + contrasts.T) / 2
