"""FLRML on row blocks: V, E, M and λ stay at the workers; r × d and d × d sums travel.

M = Aᵀ E takes each sample's positives and negatives, which lie in other blocks. Because E = V P is linear in P,
so is M = (Aᵀ V) P, and the rows that meet in Aᵀ V need to travel only once, before the descent. From then on every
block knows its rows of V and of Aᵀ V, and the gradient needs no exchange of rows either:
Vᵀ R = Vᵀ A (λ ∘ E) + Vᵀ (λ ∘ M) = Σ over blocks of (Aᵀ V)ᵀ (λ ∘ E) + Vᵀ (λ ∘ M).
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from distributed import Future, wait
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from flrml import stiefel
from flrml.distributed.blocks import RowBlocks, rows_at_rest
from flrml.distributed.spectral import BlockSpectrum, decompose, from_spectrum
from flrml.exceptions import SpectrumError
from flrml.loss import INITIAL_ROUNDS, MARGIN_SAMPLES, objective, slope, softplus
from flrml.triplets import contrast_matrix, triplet_counts


def fit_flrml(model: Any, X: Any, y: Any, triplets: Any, spectrum: Any) -> Any:
    """Fit :class:`flrml.FLRML` to a dask array.

    The result is that of the same fit in memory, up to the order in which floating-point numbers are added. The
    client has the labels, the triplets, U where D is the short side, and matrices of r × d.

    What is sent, in numbers of 4 or 8 bytes, for B blocks: once, the Gram matrix of the short side (D² per worker
    where n > D; where n ≤ D every block visits the workers of all others), U Σ⁻¹ (D × r) or V to the workers, and
    up to min(B, 2t) n r for the rows that meet in triplets, t per sample. In every iteration: one r × d matrix and
    two d × d ones to every worker; from every worker, summed over its blocks, r × d for the gradient, d for each
    value, and 4 d² where the first step is too long. Rows of E, M, Z and R are never sent.

    Every worker holds its rows of V and Aᵀ V (n × r each over the cluster) and of E and M for two points.

    Parameters
    ----------
    model : FLRML
        The estimator.
    X : dask array
        Rows.
    y, triplets
        As for ``fit``; both are brought to the client.
    spectrum : Spectrum, optional
        Decomposition of X. Only its shape is compared with X: to digest X, all of it would have to travel.
    """
    rows = RowBlocks(X)
    with rows_at_rest(rows.client):
        return _fit(model, rows, y, triplets, spectrum)


def _fit(model: Any, rows: RowBlocks, y: Any, triplets: Any, spectrum: Any) -> Any:
    if rows.shape[0] < 3:
        raise ValueError(f"Found array with {rows.shape[0]} sample(s) while a minimum of 3 is required by FLRML.")
    rows.check_finite()
    model.n_features_in_ = rows.shape[1]
    random = check_random_state(model.random_state)
    T = model._triplets(rows, None if y is None else np.asarray(y), triplets, random)
    reference = model.variant == "reference"
    blocks = _decomposed(model, rows, spectrum, random)
    d = model._directions(blocks.rank, f"the rank {blocks.rank} of the data")

    loss = BlockLoss(blocks, T, model.margin_ratio, reference=reference, random=random)
    if model.init == "random":
        P = stiefel.random_point(blocks.rank, d, random)
    else:
        P = np.vstack((stiefel.random_point(d, d, random), np.zeros((blocks.rank - d, d))))
    E: Any = loss.image(P)
    loss.start(E)
    problem: Any = loss  # its images are blocks, not arrays
    found = stiefel.minimize(problem, P, E=E, max_iter=model.max_iter, tol=model.tol, callback=model._report)

    model.weights_ = loss.s
    model.components_ = np.ascontiguousarray(blocks.lift((found.P * np.sqrt(loss.s)).astype(rows.dtype)).T)
    model.n_iter_ = len(found.steps)
    model.history_ = np.array(found.values)
    # The digest of the data stays unknown, so that the spectrum serves only dask arrays.
    model.spectrum_ = blocks.collect("") if blocks.basis is not None else None
    return model


def _decomposed(model: Any, rows: RowBlocks, spectrum: Any, random: np.random.RandomState) -> BlockSpectrum:
    centred = model.variant == "reference"
    if spectrum is None:
        model._say(f"decomposing {rows.shape[0]} × {rows.shape[1]} in {len(rows.sizes)} blocks")
        return decompose(rows, model.max_rank, centred=centred, random=random)
    long = rows.shape[0] if spectrum.side == "left" else rows.shape[1]
    if spectrum.settings["centred"] != centred or len(spectrum.basis) != long:
        raise SpectrumError(
            f"X of shape {rows.shape} and variant={model.variant!r} need a spectrum made from X with "
            f"centred={centred}, got one of {len(spectrum.basis)} rows with centred={spectrum.settings['centred']}"
        )
    return from_spectrum(rows, spectrum)


class Images:
    """E = V P and M = Aᵀ V P of every block, as :func:`flrml.stiefel.minimize` combines them."""

    def __init__(self, rows: RowBlocks, parts: list[Future]):
        self.rows, self.parts, self.dtype = rows, parts, rows.dtype

    def __matmul__(self, a: NDArray) -> "Images":
        return Images(self.rows, self.rows.map(_both_times, self.parts, self.rows.given(a)))

    def __iadd__(self, other: "Images") -> "Images":
        return Images(self.rows, self.rows.map(_both_plus, self.parts, other.parts))


class BlockLoss:
    """The margin loss on row blocks: :class:`flrml.loss.MarginLoss` with every sum taken over blocks.

    Parameters
    ----------
    spectrum : BlockSpectrum
        V.
    triplets : ndarray of shape (m, 3)
        Row numbers.
    margin_ratio, reference, random
        See :class:`flrml.loss.MarginLoss`.
    """

    def __init__(
        self,
        spectrum: BlockSpectrum,
        triplets: NDArray,
        margin_ratio: float,
        *,
        reference: bool,
        random: np.random.RandomState,
    ):
        self.rows, self.V = spectrum.rows, spectrum.V
        n, dtype = self.rows.shape[0], self.rows.dtype
        self.margin_ratio, self.reference = margin_ratio, reference
        self._margin_rows = np.arange(n)
        if reference and n > MARGIN_SAMPLES:
            self._margin_rows = random.choice(n, MARGIN_SAMPLES, replace=False)
        self.contrasted = _contrasted(
            self.rows, self.V, contrast_matrix(*triplet_counts(triplets, n, dtype)), spectrum.rank
        )

    def start(self, E: Images) -> None:
        """Find the first weights, as in memory: s ← μ(k) until the hinge sum settles within 1 %."""
        bounds = self.rows.bounds
        chosen = np.sort(self._margin_rows)
        places = np.searchsorted(chosen, bounds)
        picked = [(chosen[a:b] - start) for a, b, start in zip(places[:-1], places[1:], bounds[:-1], strict=True)]
        lengths = self.rows.sum(self.rows.map(_squares, E.parts, picked)) / len(chosen)
        self.s, self._at_start = np.ones(len(lengths), dtype=self.rows.dtype), True
        for _ in range(INITIAL_ROUNDS):
            self.margin = self.margin_ratio * float(lengths @ self.s)
            self._activate(E)
            before = self._hinge
            self.s = softplus(self._k_active)
            self._activate(E)
            if abs(self._hinge - before) <= 0.01 * abs(before):
                break

    def image(self, P: NDArray) -> Images:
        """E = V P and M = Aᵀ V P; workers that have joined take their share from here on."""
        self.rows.deal()
        point = self.rows.given(P.astype(self.rows.dtype, copy=False))
        return Images(self.rows, self.rows.map(_image, self.V, self.contrasted, point))

    def value(self, E: Images) -> float:
        """f at a trial point, for the active set of the last accepted one."""
        return objective(self._k(E), self.margin, self._n_active)

    def along(self, E: Images, EQ: Images) -> Callable[[NDArray, NDArray], float]:
        """f at E a + EQ b, from one sum of 2d × 2d."""
        H = self.rows.sum(self.rows.map(_quadratic, E.parts, EQ.parts, self.active))

        def value(a: NDArray, b: NDArray) -> float:
            C = np.vstack((a, b))
            return objective(np.einsum("ij,ij->j", C, H @ C), self.margin, self._n_active)

        return value

    def accept(self, E: Images) -> tuple[float, Callable[[], NDArray]]:
        """Refresh weights and active set at E; return the value that trials meet, and the gradient on demand."""
        k = self._k(E)
        self.s = softplus(k)
        if self.reference:
            gradient = partial(self._gradient, E, k, self.active)
            if self._at_start:
                self._at_start = False
                return objective(k, self.margin, self._n_active), gradient
            self._activate(E)
            return self._hinge, gradient
        self._activate(E)
        k = self._k_active
        self.s = softplus(k)
        return objective(k, self.margin, self._n_active), partial(self._gradient, E, k, self.active)

    def _k(self, E: Images) -> NDArray:
        return self.rows.sum(self.rows.map(_k_of, E.parts, self.active))

    def _activate(self, E: Images) -> None:
        """λ of every block for the weights s; its number, the hinge sum and k = Zᵀ λ."""
        settings = self.rows.given((self.s, self.margin))
        self.active = self.rows.map(_active, E.parts, settings)
        sums = self.rows.sum(self.rows.map(_sums, E.parts, self.active, settings))
        self._hinge, self._n_active, self._k_active = float(sums[0]), float(sums[1]), sums[2:].astype(self.s.dtype)

    def _gradient(self, E: Images, k: NDArray, active: list[Future]) -> NDArray:
        """G = Vᵀ R diag(q), summed over blocks."""
        total = self.rows.sum(self.rows.map(_pulled_back, self.V, self.contrasted, E.parts, active))
        return (total * slope(k)).astype(np.float64)


def _contrasted(rows: RowBlocks, V: list[Future], contrasts: sp.csr_matrix, rank: int) -> list[Future]:
    """Rows of Aᵀ V of each block: the rows of V that its triplets name are fetched from their blocks.

    A few blocks are worked at once, because those rows take several times the memory of a block.
    """
    found: list[Future] = []
    at_once = max(1, len(rows.client.nthreads()))
    for start, stop in pairwise(rows.bounds):
        own = contrasts[start:stop]
        needed = np.unique(own.indices)
        places = np.searchsorted(needed, rows.bounds)
        taken = [
            rows.client.submit(
                _take,
                V[a],
                needed[i:j] - rows.bounds[a],
                workers=[rows.places[a]],
                allow_other_workers=True,
                pure=False,
            )
            for a, (i, j) in enumerate(pairwise(places))
            if j > i
        ]
        local = sp.csr_matrix(
            (own.data, np.searchsorted(needed, own.indices), own.indptr), shape=(stop - start, len(needed))
        )
        here = {"workers": [rows.places[len(found)]], "allow_other_workers": True, "pure": False}
        found.append(rows.client.submit(_mixed, local, taken, rank, **here))
        if len(found) >= at_once:
            wait(found[-at_once])
    return found


def _take(V: NDArray, numbers: NDArray) -> NDArray:
    return V[numbers]


def _mixed(contrasts: sp.csr_matrix, taken: list[NDArray], rank: int) -> NDArray:
    out, start = np.zeros((contrasts.shape[0], rank), dtype=contrasts.dtype), 0
    columns = contrasts.tocsc()
    for part in taken:
        out += columns[:, start : start + len(part)] @ part
        start += len(part)
    return out


def _image(V: NDArray, contrasted: NDArray, P: NDArray) -> tuple[NDArray, NDArray]:
    return V @ P, contrasted @ P


def _both_times(image: tuple[NDArray, NDArray], a: NDArray) -> tuple[NDArray, NDArray]:
    return image[0] @ a, image[1] @ a


def _both_plus(one: tuple[NDArray, NDArray], other: tuple[NDArray, NDArray]) -> tuple[NDArray, NDArray]:
    return one[0] + other[0], one[1] + other[1]


def _squares(image: tuple[NDArray, NDArray], picked: NDArray) -> NDArray:
    return np.asarray(np.sum(image[0][picked] ** 2, axis=0, dtype=np.float64))


def _k_of(image: tuple[NDArray, NDArray], active: NDArray) -> NDArray:
    return np.einsum("ij,ij,i->j", *image, active)


def _active(image: tuple[NDArray, NDArray], settings: tuple[NDArray, float]) -> NDArray:
    (E, M), (s, margin) = image, settings
    return (margin - np.einsum("ij,ij,j->i", E, M, s) > 0).astype(E.dtype)


def _sums(image: tuple[NDArray, NDArray], active: NDArray, settings: tuple[NDArray, float]) -> NDArray:
    (E, M), (s, margin) = image, settings
    hinge = np.maximum(margin - np.einsum("ij,ij,j->i", E, M, s), 0).sum(dtype=np.float64)
    return np.concatenate(([hinge, active.sum(dtype=np.float64)], _k_of(image, active)))


def _quadratic(image: tuple[NDArray, NDArray], moved: tuple[NDArray, NDArray], active: NDArray) -> NDArray:
    left = np.hstack((image[0], moved[0])) * active[:, None]
    return left.T @ np.hstack((image[1], moved[1]))


def _pulled_back(V: NDArray, contrasted: NDArray, image: tuple[NDArray, NDArray], active: NDArray) -> NDArray:
    E, M = (part * active[:, None] for part in image)
    return contrasted.T @ E + V.T @ M
