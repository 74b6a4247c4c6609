"""FLRML on row blocks: V, E, M and λ stay at the workers; only r × d and d × d sums are communicated.

M = Aᵀ E takes each sample's positives and negatives, which lie in other blocks. Because E = V P is linear in P,
so is M = (Aᵀ V) P, and the rows that meet in Aᵀ V are exchanged only once, before the descent. From then on every
block has its rows of V and of Aᵀ V, and the gradient needs no exchange of rows either:
Vᵀ R = Vᵀ A (λ ∘ E) + Vᵀ (λ ∘ M) = Σ over blocks of (Aᵀ V)ᵀ (λ ∘ E) + Vᵀ (λ ∘ M).
"""

from collections.abc import Callable
from operator import getitem
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from distributed import Future
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from flrml.distributed.cluster import gather
from flrml.distributed.remote_rows import RemoteRows, on_client
from flrml.distributed.spectral import RemoteSpectrum, decompose, from_spectrum
from flrml.exceptions import SpectrumError
from flrml.flrml import FLRML
from flrml.loss import LossRows
from flrml.spectrum import Spectrum
from flrml.triplets import contrast_matrix


def fit_flrml(
    model: FLRML,
    X: Any,
    y: Any,
    triplets: Any,
    spectrum: Spectrum | None,
    callback: Callable[[FLRML], None] | None,
) -> FLRML:
    """Fit :class:`flrml.FLRML` to a dask array; see its ``fit`` for the parameters.

    The result is that of the same fit in memory, up to the order in which floating-point numbers are added. The
    client has the labels, the triplets, U if D is the short side, and matrices of r × d. Of a given spectrum, only
    the shape is compared with X: a digest of X would need all of it on the client.
    docs/scaling.md says what is communicated, and what a worker holds.
    """
    with RemoteRows.for_fit(model, X) as rows:
        rows.check_values()
        random = check_random_state(model.random_state)
        T = model._check_triplets(rows, on_client(y), triplets, model.n_triplets, random)
        blocks = _decomposed(model, rows.through(model.decomposed_rows), spectrum, random)
        model._descend(RemoteLossRows(blocks, T), random, callback)
        # The digest of the data stays unknown, so that the spectrum serves only dask arrays.
        model.spectrum_ = blocks.collect("") if blocks.basis is not None else None  # type: ignore[assignment]
    return model


def _decomposed(
    model: FLRML, rows: RemoteRows, spectrum: Spectrum | None, random: np.random.RandomState
) -> RemoteSpectrum:
    smallest = model.smallest_singular_value
    if spectrum is None:
        model._log(f"decomposing {rows.shape[0]} × {rows.shape[1]} in {len(rows.places)} blocks")
        return decompose(rows, model.max_rank, smallest=smallest, random=random)
    long = rows.shape[0] if spectrum.side == "left" else rows.shape[1]
    if len(spectrum.basis) != long or spectrum.settings["smallest"] != smallest:
        raise SpectrumError(
            f"{type(model).__name__} needs the spectrum of X of shape {rows.shape} with smallest={smallest}, "
            f"got one of {len(spectrum.basis)} rows with smallest={spectrum.settings['smallest']}"
        )
    return from_spectrum(rows, spectrum)


class RemoteLossRows(LossRows):
    """Rows of V and Aᵀ V in blocks at the workers."""

    def __init__(self, spectrum: RemoteSpectrum, triplets: NDArray):
        self.spectrum, self.rows, self.V = spectrum, spectrum.X, spectrum.V
        self.n, self.dtype, self.rank = self.rows.shape[0], self.rows.dtype, spectrum.rank
        contrasts = contrast_matrix(triplets, self.n, self.dtype)
        self.contrasted = _contrast_rows(self.rows, self.V, contrasts, self.rank)

    def image(self, P: NDArray) -> list[Future]:
        """Return the image of P; workers that have joined get their share."""
        self.rows.rebalance()
        point = self.rows.scatter(P.astype(self.dtype, copy=False))
        return self.rows.map(_image, self.V, self.contrasted, point)

    def leading_image(self, rotation: NDArray) -> list[Future]:
        return self.image(np.vstack((rotation, np.zeros((self.rank - len(rotation), len(rotation))))))

    def combine(self, E: list[Future], a: NDArray, EQ: list[Future], b: NDArray) -> list[Future]:
        coefficients = self.rows.scatter((a.astype(self.dtype), b.astype(self.dtype)))
        return self.rows.map(_combine, E, EQ, coefficients)

    def map(self, function: Callable, *parts: Any) -> list[Future]:
        return self.rows.map(function, *parts)

    def sum(self, function: Callable, *parts: Any) -> NDArray:
        return self.rows.sum(self.rows.map(function, *parts), small=True)

    def squared_coordinates(self, image: list[Future], rows: NDArray) -> NDArray:
        """Return the mean of E ∘ E over the given rows, as one row."""
        picked = [numbers for _, numbers in self.rows.locate(rows)]
        return (self.sum(_sum_of_squares, image, picked) / len(rows))[None]

    def pull_back(self, image: list[Future], active: list[Future], q: NDArray) -> NDArray:
        return (self.sum(_pull_back, self.V, self.contrasted, image, active) * q).astype(np.float64)


class BlockImage(NamedTuple):
    """E and M of one block."""

    E: NDArray
    M: NDArray

    @property
    def Z(self) -> NDArray:
        """E ∘ M."""
        return self.E * self.M


def _contrast_rows(rows: RemoteRows, V: list[Future], contrasts: sp.csr_matrix, rank: int) -> list[Future]:
    """Return the rows of Aᵀ V of each block: the rows of V that its triplets name are fetched from their blocks.

    A few blocks are processed at once, because those rows take several times the memory of a block.
    """
    found: list[Future] = []
    at_once = max(1, len(rows.client.nthreads()))
    for ((start, stop),) in rows.spans:
        part = contrasts[start:stop]
        needed = np.unique(part.indices)
        taken = rows.pick(getitem, needed, V)[1]
        found.append(rows.submit(_mix, part[:, needed], taken, rank, at=rows.places[len(found)]))
        if len(found) >= at_once:
            gather(rows.client, [rows.submit(np.shape, found[-at_once])])  # wait for it
    return found


def _mix(contrasts: sp.csr_matrix, taken: list[NDArray], rank: int) -> NDArray:
    out, start = np.zeros((contrasts.shape[0], rank), dtype=contrasts.dtype), 0
    columns = contrasts.tocsc()
    for part in taken:
        out += columns[:, start : start + len(part)] @ part
        start += len(part)
    return out


def _image(V: NDArray, contrasted: NDArray, P: NDArray) -> BlockImage:
    return BlockImage(V @ P, contrasted @ P)


def _combine(one: BlockImage, other: BlockImage, coefficients: tuple[NDArray, NDArray]) -> BlockImage:
    a, b = coefficients
    return BlockImage(one.E @ a + other.E @ b, one.M @ a + other.M @ b)


def _sum_of_squares(image: BlockImage, picked: NDArray) -> NDArray:
    return np.asarray(np.sum(image.E[picked] ** 2, axis=0, dtype=np.float64))


def _pull_back(V: NDArray, contrasted: NDArray, image: BlockImage, active: NDArray) -> NDArray:
    return contrasted.T @ (active[:, None] * image.E) + V.T @ (active[:, None] * image.M)
