"""Common parts of the baselines: their base class, the reduced data, sums over pairs, and the cut to a rank."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from flrml.exceptions import NoSolutionError
from flrml.metric import LowRankMetric
from flrml.neighbors import nearest
from flrml.rows.threads import slices
from flrml.spectrum import Spectrum, decompose

TEMPORARY_VALUES = 2**22  # size of temporary arrays, which are made block by block


class ValidatedMetric:
    """Class attribute ``metric`` of methods that choose it in ``fit``: then ``metric_``."""

    CHOICES = ("cosine", "euclidean")

    def __get__(self, estimator: Any, owner: type) -> str:
        """Return the metric chosen, or the first choice before ``fit``."""
        return getattr(estimator, "metric_", self.CHOICES[0])


class Baseline(LowRankMetric):
    """A method to compare with."""

    metric: ClassVar[str] = "euclidean"

    def _check_classes(self, X: Any, y: Any) -> NDArray[np.int64]:
        """Return labels as numbers 0, 1, …; there must be two classes at least."""
        classes, label = np.unique(self._check_labels(X, y), return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"{type(self).__name__} needs at least two classes, y has {len(classes)} class(es)")
        return label


class ReducedBaseline(Baseline):
    """A baseline that learns on the reduced data Z = V Σ of a thin SVD."""

    max_rank: int
    n_triplets: int
    random_state: Any

    def _reduce(self, X: Any, spectrum: Spectrum | None, random: np.random.RandomState) -> "Reduced":
        if spectrum is None:
            spectrum = decompose(X, self.max_rank, random_state=random)
        else:
            spectrum = spectrum.bind(X)
        return Reduced.of(spectrum, self.max_rank)

    def _reduce_labels(self, X: Any, y: Any, spectrum: Spectrum | None) -> tuple[NDArray, "Reduced", Any]:
        """Validate the input; return class numbers, reduced data and the random state."""
        X = self._check_rows(X, reset=True, ensure_min_samples=3)
        label, random = self._check_classes(X, y), check_random_state(self.random_state)
        return label, self._reduce(X, spectrum, random), random

    def _reduce_triplets(
        self, X: Any, y: Any, triplets: Any, spectrum: Spectrum | None
    ) -> tuple[NDArray, "Reduced", Any]:
        """Validate the input; return triplets, reduced data and the random state."""
        X = self._check_rows(X, reset=True, ensure_min_samples=3)
        random = check_random_state(self.random_state)
        T = self._check_triplets(X, y, triplets, self.n_triplets, random)
        return T, self._reduce(X, spectrum, random), random


@dataclass(frozen=True)
class Reduced:
    """Reduced data Z = V Σ = X U, one row per sample, and the way back to the features."""

    Z: NDArray  # the data in the leading r singular directions; the columns are orthogonal
    singular_values: NDArray  # lengths of these columns
    spectrum: Spectrum

    @classmethod
    def of(cls, spectrum: Spectrum, max_rank: int) -> "Reduced":
        """Reduce to at most ``max_rank`` directions."""
        r = min(spectrum.rank, max_rank)
        sigma = spectrum.singular_values[:r]
        if spectrum.side == "left":
            return cls(spectrum.basis[:, :r] * sigma, sigma, spectrum)
        return cls(spectrum @ np.diag(spectrum.singular_values)[:, :r], sigma, spectrum)

    @property
    def rank(self) -> int:
        """r, the number of directions."""
        return len(self.singular_values)

    def lift(self, Lz: NDArray) -> NDArray:
        """Map L = Lz Uᵀ (d × D) on the features, from a map Lz (d × r) on Z."""
        B = np.zeros((self.spectrum.rank, len(Lz)), dtype=self.Z.dtype)
        B[: self.rank] = self.singular_values[:, None] * Lz.T
        return self.spectrum.lift(B).T

    def strongest(self, Lz: NDArray, d: int) -> NDArray:
        """Cut the map Lz to the d directions in which the embedded data are longest.

        No other map of rank d is as close to Lz on the data.
        """
        if len(Lz) <= d:
            return Lz
        scaled = Lz * self.singular_values
        Q = scipy.linalg.eigh(scaled @ scaled.T, subset_by_index=(len(Lz) - d, len(Lz) - 1))[1]
        return Q[:, ::-1].T @ Lz


@contextmanager
def no_solution_if_singular(name: str) -> Iterator[None]:
    """Turn a failed factorisation into NoSolutionError."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise NoSolutionError(f"{name} has no solution on these data: {error}") from error


def pairs_of(triplets: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Return pairs (a, b) with sign +1 for (i, j), alike, and −1 for (i, k), unlike."""
    i, j, k = triplets.T
    return np.concatenate((i, i)), np.concatenate((j, k)), np.repeat([1.0, -1.0], len(triplets))


def laplacian(a: NDArray, b: NDArray, weights: NDArray, n: int) -> sp.csr_matrix:
    """Return a sparse K (n × n) with Xᵀ K X = Σ w (x_a − x_b)(x_a − x_b)ᵀ over the pairs, for any X."""
    W = sp.csr_matrix((weights, (a, b)), shape=(n, n))
    W = W + W.T
    return (sp.diags(np.asarray(W.sum(axis=1)).ravel()) - W).tocsr()


def scatter(Z: NDArray, K: sp.csr_matrix) -> NDArray[np.float64]:
    """Return Zᵀ K Z in float64, without a copy of Z in another type."""
    n, r = Z.shape
    out = np.zeros((r, r))
    for columns in slices(r, max(1, 4 * TEMPORARY_VALUES // n)):
        KZ = K @ Z[:, columns].astype(np.float64)
        for rows in temporary_blocks(n, r):
            out[:, columns] += Z[rows].astype(np.float64).T @ KZ[rows]
    return (out + out.T) / 2


def temporary_blocks(n: int, width: int) -> list[slice]:
    """Return slices of n rows, for temporary arrays with that many columns."""
    return slices(n, max(1, TEMPORARY_VALUES // max(width, 1)))


def squared_distances(Y: NDArray, a: NDArray, b: NDArray) -> NDArray:
    """Return ‖y_a − y_b‖² of each pair of rows, computed by blocks of pairs."""
    out = np.empty(len(a), dtype=Y.dtype)
    for block in temporary_blocks(len(a), Y.shape[1]):
        difference = Y[a[block]] - Y[b[block]]
        out[block] = np.einsum("ij,ij->i", difference, difference)
    return out


def inner_products(Y: NDArray, Z: NDArray, a: NDArray, b: NDArray) -> NDArray:
    """Return y_a · z_b of each pair, computed by blocks of pairs."""
    out = np.empty(len(a), dtype=np.result_type(Y, Z))
    for block in temporary_blocks(len(a), Y.shape[1]):
        out[block] = np.einsum("ij,ij->i", Y[a[block]], Z[b[block]])
    return out


def psd_factor(M: NDArray) -> NDArray:
    """Factor F with FᵀF = the positive semi-definite part of the symmetric M."""
    values, H = scipy.linalg.eigh(M)
    kept = values > 0
    return (H[:, kept] * np.sqrt(values[kept])).T[::-1]


def neighbors_within(Z: NDArray, label: NDArray, k: int) -> tuple[NDArray, NDArray]:
    """Return pairs (i, j) of each sample with its k nearest others of the same class, ordered by i.

    In a class with k members or fewer, each has as many as there are; a single member has none.
    """
    a, b = [], []
    for members in _by_class(label):
        size = min(k, len(members) - 1)
        if size == 0:
            continue
        found = nearest(Z[members], Z[members], size + 1, metric="euclidean")[0]
        other = found != np.arange(len(members))[:, None]
        other[other.all(axis=1), -1] = False  # duplicates can displace a sample from its neighbours
        a.append(np.repeat(members, size))
        b.append(members[found[other]])
    if not a:
        raise ValueError("every class of y has a single member, so no sample has a neighbour of its class")
    first, second = np.concatenate(a), np.concatenate(b)
    order = np.argsort(first, kind="stable")
    return first[order], second[order]


def neighbors_outside(Z: NDArray, label: NDArray, k: int) -> NDArray:
    """Return row numbers (n × k') of the k nearest samples of other classes; k' < k if a class leaves fewer."""
    size = min(k, len(label) - int(np.bincount(label).max()))
    out = np.empty((len(label), size), dtype=np.int64)
    for members in _by_class(label):
        others = np.flatnonzero(label != label[members[0]])
        out[members] = others[nearest(Z[others], Z[members], size, metric="euclidean")[0]]
    return out


def _by_class(label: NDArray) -> list[NDArray]:
    order = np.argsort(label, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
