"""What tells rows apart, for the ``"ridge"`` variant: labels, or given triplets.

Both offer the same: the contrast of every row in expectation, the pairs inside the margin of a learned metric, and
a verdict on rows that are held out. Rows of one group (``groups``) show the same thing, such as the poses of one
model; none of them is another's positive, and they stay together when rows are held out.
"""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from flrml.neighbors import majority_vote
from flrml.triplets import contrast_matrix, triplet_counts

Parts = tuple[NDArray, NDArray]  # rows to learn from, and rows to validate on

N_NEIGHBORS = 5  # positives and negatives of an anchor, and neighbours that vote
BLOCK_VALUES = 2**20  # similarities held at once: they stay in the processor's cache


class Supervision(Protocol):
    """What the solver of :mod:`flrml.ridge` asks of labels or triplets."""

    groups: NDArray  # number of each row's group

    def contrast(self, Y: NDArray) -> NDArray:
        """½ (A + Aᵀ) Y, where row i of A takes the mean of i's positives minus that of its negatives."""

    def class_means(self, Y: NDArray) -> NDArray:
        """The mean of each class, times the root of its size; no rows where classes are unknown."""

    def active_pairs(self, Y: NDArray, margin: float) -> tuple[NDArray, NDArray, NDArray, float]:
        """Pairs (i, j) of unit rows Y inside the margin, their weights, and the mean hinge in margins."""

    def draw(self, size: int, random: np.random.RandomState) -> NDArray:
        """At most so many random rows among which there are triplets."""

    def subset(self, rows: NDArray) -> "Supervision":
        """The same for some of the rows."""

    def hold_out(self, share: float, random: np.random.RandomState) -> Parts:
        """Row numbers to learn from and to validate on."""

    def folds(self, number: int, random: np.random.RandomState) -> list[Parts]:
        """The same so many times, each time with other rows to validate on."""

    def judge(self, Y: NDArray, rows: NDArray, Y_held: NDArray, held: NDArray) -> tuple[int, int]:
        """How often the embedded ``rows`` are right about the ``held`` ones, and how often they are asked."""


class Labels:
    """Labels as supervision: all rows of the class are positives, all others negatives.

    Parameters
    ----------
    label : ndarray of shape (n,)
        Classes as numbers 0, 1, ….
    groups : ndarray of shape (n,) or None
        Rows with the same number are no positives of one another.
    """

    def __init__(self, label: NDArray, groups: NDArray | None = None):
        n = len(label)
        self.label = np.unique(label, return_inverse=True)[1]
        self.groups = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
        size = np.bincount(self.label)
        # Rows of one class and one group, none of which is a positive of the others.
        self._kin, kin_size = np.unique(
            self.label * (self.groups.max() + 1) + self.groups, return_inverse=True, return_counts=True
        )[1:]
        n_positives, n_negatives = size[self.label] - kin_size[self._kin], n - size[self.label]
        has_triplets = (n_positives > 0) & (n_negatives > 0)
        self.anchors = np.flatnonzero(has_triplets)
        self._for_positives = has_triplets / np.maximum(n_positives, 1)
        self._for_negatives = has_triplets / np.maximum(n_negatives, 1)
        self._alone = len(kin_size) == n

    def contrast(self, Y: NDArray) -> NDArray:
        """½ (A + Aᵀ) Y from sums over classes, in O(n d)."""
        a, b = (w.astype(Y.dtype)[:, None] for w in (self._for_positives, self._for_negatives))
        out = (a + b) * self._class_sums(Y) - b * Y.sum(axis=0) - a * self._kin_sums(Y)
        aY, bY = a * Y, b * Y
        out += self._class_sums(aY + bY) - bY.sum(axis=0) - self._kin_sums(aY)
        return 0.5 * out

    def class_means(self, Y: NDArray) -> NDArray:
        """The mean of each class, times the root of its size."""
        size = np.bincount(self.label)
        return _members(self.label, Y.dtype).T @ Y / np.sqrt(np.maximum(size, 1)).astype(Y.dtype)[:, None]

    def active_pairs(self, Y: NDArray, margin: float) -> tuple[NDArray, NDArray, NDArray, float]:
        """Pairs of rows with their nearest positives and negatives, weighted by the triplets they violate."""
        anchors = self.anchors
        anchors = anchors[np.argsort(self.label[anchors], kind="stable")]
        order = np.argsort(self.label, kind="stable")
        bounds = np.searchsorted(self.label[order], np.arange(self.label.max() + 2))
        by_class = Y[order]
        j = np.zeros((len(anchors), 2 * N_NEIGHBORS), dtype=np.int64)
        similarity = np.full(j.shape, -np.inf, dtype=Y.dtype)
        for label in range(self.label.max() + 1):
            mine = np.flatnonzero(self.label[anchors] == label)
            own = slice(bounds[label], bounds[label + 1])
            for block in _blocks(len(mine), len(Y)):
                place, i = mine[block], anchors[mine[block]]
                cosines = Y[i] @ by_class.T
                same = cosines[:, own].copy()
                same[self.groups[i, None] == self.groups[order[own]]] = -np.inf
                cosines[:, own] = -np.inf
                for first, found, names in ((0, same, order[own]), (N_NEIGHBORS, cosines, order)):
                    k = min(N_NEIGHBORS, found.shape[1])
                    columns, similarity[place, first : first + k] = _largest(found, k)
                    j[place, first : first + k] = names[columns]
        return _inside(anchors, j, similarity, margin)

    def draw(self, size: int, random: np.random.RandomState) -> NDArray:
        """Random rows."""
        n = len(self.label)
        return np.arange(n) if n <= size else random.choice(n, size, replace=False)

    def subset(self, rows: NDArray) -> "Labels":
        """The same for some of the rows."""
        return Labels(self.label[rows], None if self._alone else self.groups[rows])

    def hold_out(self, share: float, random: np.random.RandomState) -> Parts:
        """Hold out a share of the groups of every class; a class with a single group loses none."""
        chosen = []
        for mine in self._groups_of_classes(random):
            wanted = round(share * len(mine))
            chosen.append(mine[: min(max(wanted, 1 if wanted or len(mine) > 4 else 0), len(mine) - 1)])
        return _apart(self.groups, np.concatenate(chosen))

    def folds(self, number: int, random: np.random.RandomState) -> list[Parts]:
        """Deal out the groups of every class; a class with a single group is held out in no fold."""
        dealt: list[list[NDArray]] = [[] for _ in range(number)]
        for label, mine in enumerate(self._groups_of_classes(random)):
            for a, some in enumerate(np.array_split(mine, number) if len(mine) > 1 else []):
                dealt[(label + a) % number].append(some)  # small classes begin with different folds
        return [_apart(self.groups, np.concatenate([self.groups[:0], *fold])) for fold in dealt]

    def _groups_of_classes(self, random: np.random.RandomState) -> Iterator[NDArray]:
        """The groups of each class in random order."""
        first = np.unique(self.groups, return_index=True)[1]
        for label in range(self.label.max() + 1):
            yield random.permutation(self.groups[first][self.label[first] == label])

    def judge(self, Y: NDArray, rows: NDArray, Y_held: NDArray, held: NDArray) -> tuple[int, int]:
        """Number of held rows that 5-NN by cosine gets right, and of all of them."""
        train, test = unit_rows(Y), unit_rows(Y_held)
        found = np.empty((len(test), min(N_NEIGHBORS, len(train))), dtype=np.int64)
        for block in _blocks(len(test), len(train)):
            found[block] = _largest(test[block] @ train.T, found.shape[1])[0]
        predicted = majority_vote(self.label[rows][found], np.empty(0))
        return int(np.sum(predicted == self.label[held])), len(held)

    def _class_sums(self, Y: NDArray) -> NDArray:
        return _sums(Y, self.label)

    def _kin_sums(self, Y: NDArray) -> NDArray:
        return Y if self._alone else _sums(Y, self._kin)


class Triplets:
    """Given triplets (i, j, k) as supervision.

    Parameters
    ----------
    triplets : ndarray of shape (m, 3)
        Row numbers.
    n : int
        Number of rows.
    groups : ndarray of shape (n,) or None
        Rows with the same number are held out together.
    """

    def __init__(self, triplets: NDArray, n: int, groups: NDArray | None = None):
        self.triplets, self.n = triplets, n
        self.groups = np.arange(n) if groups is None else groups
        self._contrasts = contrast_matrix(*triplet_counts(triplets, n))

    def contrast(self, Y: NDArray) -> NDArray:
        """½ (A + Aᵀ) Y with A of the given triplets."""
        return (0.5 * (self._contrasts @ Y + self._contrasts.T @ Y)).astype(Y.dtype)

    def class_means(self, Y: NDArray) -> NDArray:
        """No rows: triplets know of no classes."""
        return Y[:0]

    def active_pairs(self, Y: NDArray, margin: float) -> tuple[NDArray, NDArray, NDArray, float]:
        """Pairs of the triplets that the metric violates, or satisfies by less than the margin."""
        i, j, k = self.triplets.T
        similarity = np.column_stack((_dots(Y, i, j), _dots(Y, i, k)))
        return _inside(i, np.column_stack((j, k)), similarity, margin)

    def draw(self, size: int, random: np.random.RandomState) -> NDArray:
        """All rows, or those of random triplets."""
        if self.n <= size:
            return np.arange(self.n)
        return np.unique(random.permutation(self.triplets)[: size // 3])

    def subset(self, rows: NDArray) -> "Triplets":
        """The triplets all of whose samples are among the rows, with their new numbers."""
        place = np.full(self.n, -1)
        place[rows] = np.arange(len(rows))
        T = place[self.triplets]
        return Triplets(T[(T >= 0).all(axis=1)], len(rows), self.groups[rows])

    def hold_out(self, share: float, random: np.random.RandomState) -> Parts:
        """Hold out a share of the groups."""
        names = random.permutation(np.unique(self.groups))
        return _apart(self.groups, names[: int(share * len(names))])

    def folds(self, number: int, random: np.random.RandomState) -> list[Parts]:
        """Deal out the groups."""
        names = random.permutation(np.unique(self.groups))
        return [_apart(self.groups, some) for some in np.array_split(names, number)]

    def judge(self, Y: NDArray, rows: NDArray, Y_held: NDArray, held: NDArray) -> tuple[int, int]:
        """Of the triplets that start from a row held out and end in known rows: satisfied ones, and all."""
        place = np.full(self.n, -1)
        both = np.concatenate((rows, held))
        place[both] = np.arange(len(both))
        T = place[self.triplets]
        T = T[(T[:, 0] >= len(rows)) & (T >= 0).all(axis=1)]
        U = unit_rows(np.vstack((Y, Y_held)))
        return int(np.sum(_dots(U, T[:, 0], T[:, 1]) > _dots(U, T[:, 0], T[:, 2]))), len(T)


def _apart(groups: NDArray, chosen: NDArray) -> Parts:
    """Rows of the other groups, and rows of the chosen ones."""
    held = np.isin(groups, chosen)
    return np.flatnonzero(~held), np.flatnonzero(held)


def pair_product(i: NDArray, j: NDArray, weights: NDArray, Y: NDArray, R: NDArray) -> NDArray:
    """T R, with the T for which Σ w ∂cos(y_i, y_j) = ⟨sym(Eᵀ T E), ∂W⟩, for embeddings Y of rows E under W.

    Of e_i/‖y_i‖ =: ê_i, the cosine has the gradient sym(ê_i ê_jᵀ) − ½ cos (ê_i ê_iᵀ + ê_j ê_jᵀ).
    """
    n = len(Y)
    lengths = np.sqrt(np.einsum("ij,ij->i", Y, Y))
    inverse = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    weighted = weights * _dots(Y, i, j) * inverse[i] * inverse[j]
    pull = (np.bincount(i, weighted, n) + np.bincount(j, weighted, n)).astype(Y.dtype)
    W = sp.csr_matrix((weights, (i, j)), shape=(n, n))
    scaled = inverse[:, None] * R
    return (0.5 * inverse)[:, None] * (W @ scaled + W.T @ scaled - pull[:, None] * scaled)


def _inside(i: NDArray, j: NDArray, similarity: NDArray, margin: float) -> tuple[NDArray, NDArray, NDArray, float]:
    """Pairs (i, j) with the number of triplets inside the margin: columns are positives, then negatives.

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


def _largest(similarity: NDArray, k: int) -> tuple[NDArray, NDArray]:
    """Columns and values of the k largest entries of each row, descending; overwrites the entries.

    For a handful of neighbours, passes over a block in cache are faster than a partition.
    """
    each = np.arange(len(similarity))
    columns, values = (
        np.empty((len(similarity), k), dtype=np.int64),
        np.empty((len(similarity), k), similarity.dtype),
    )
    for a in range(k):
        columns[:, a] = similarity.argmax(axis=1)
        values[:, a] = similarity[each, columns[:, a]]
        similarity[each, columns[:, a]] = -np.inf
    return columns, values


def _blocks(n: int, width: int) -> list[slice]:
    step = max(1, BLOCK_VALUES // max(width, 1))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def _sums(Y: NDArray, number: NDArray) -> NDArray:
    """For each row, the sum of the rows with the same number."""
    return (_members(number, Y.dtype).T @ Y)[number]


def _members(number: NDArray, dtype: Any) -> sp.csr_matrix:
    """Indicator of each row's number."""
    n = len(number)
    return sp.csr_matrix((np.ones(n, dtype=dtype), number, np.arange(n + 1)))


def _dots(Y: NDArray, i: NDArray, j: NDArray, step: int = 2**16) -> NDArray:
    parts = [np.einsum("ij,ij->i", Y[i[a : a + step]], Y[j[a : a + step]]) for a in range(0, len(i), step)]
    return np.concatenate(parts) if parts else np.empty(0, dtype=Y.dtype)


def unit_rows(Y: NDArray) -> NDArray:
    """Rows scaled to unit length; rows of zeros stay."""
    lengths = np.linalg.norm(Y, axis=1, keepdims=True)
    return np.divide(Y, lengths, out=np.zeros_like(Y), where=lengths > 0)
