"""The closed form and the rounds of RidgeFLRML.

Changes to the model of :mod:`flrml.loss`, in the same symbols:

* **Ridge whitening.** V becomes E = V diag(c) with c = σ/√(σ² + γ), γ = g × mean σ². g → 0 is whitening, g → ∞ the
  data's own geometry. A share ω (``within``) of the scatter between classes does not count when the rows are
  whitened: 0 whitens by the total scatter, 1 by that within the classes, as a discriminant analysis does.
* **Triplets in expectation.** Row i of M is the mean of *all* of i's positives minus that of all its negatives. For
  a share β (``local``) the positive is the nearest of all, i itself, which keeps what the data say without labels.
* **Weights without smoothing**, s = max(0, k), and with every λ_i = 1 a **closed form**: W = P diag(s) Pᵀ consists
  of the top d eigenpairs of sym(EᵀM). They are found in the span of the leading axes and of their images
  (Rayleigh–Ritz), so that no r × r matrix is formed.
* **Rounds.** Of some rows, neighbours and λ are found in the learned metric, and the map moves a step along the
  triplets inside the margin, in the same span. The cost of a round is independent of r.

(g, ω, β) and the number of rounds are chosen on held-out rows; see :mod:`flrml.ridge.selection`.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from flrml.ridge.supervision import Supervision, pair_product, unit_rows
from flrml.rows import product
from flrml.spectrum import Spectrum, column_signs

STEP = 0.15  # length of the first round's step beside that of the embeddings
BATCH_STEP = 0.05  # the same of a mini-batch
ROUND_SHARE = 12  # a round finds neighbours among a twelfth of the rows,
ROUND_ROWS, MOST_ROUND_ROWS = 1000, 5000  # but at least and at most among these many
SOUND = 100  # squared lengths below this many units of rounding, relative to the longest, are noise


class WhitenedRows:
    """Rows E = V diag(c) of a spectrum, or of some of its rows.

    Parameters
    ----------
    spectrum : Spectrum
        V, bound to its data.
    ridge : float
        g.
    held : ndarray of shape (h, r), optional
        Rows of V that are held out. The Gram matrix that whitens is then taken without them.
    n : int, optional
        Number of rows that whiten, where these are a sample of them.
    """

    def __init__(self, spectrum: Spectrum, ridge: float, held: NDArray | None = None, n: int | None = None):
        sigma = spectrum.singular_values.astype(np.float64)
        gamma = ridge * np.mean(sigma**2)
        self.V, self.n = spectrum, n
        self.c = (sigma / np.sqrt(sigma**2 + gamma)).astype(spectrum.singular_values.dtype)[:, None]
        self._ridge = (gamma / (sigma**2 + gamma))[:, None]
        # Without rows F of E, the whitened Gram matrix plus ridge is I − FᵀF instead of I.
        self._held = None if held is None else held * self.c.T

    def embed(self, B: NDArray, spectrum: Spectrum | None = None) -> NDArray:
        """E B, for these rows or for others of the same data."""
        return (self.V if spectrum is None else spectrum) @ (self.c * B)

    def axes(self, d: int) -> NDArray:
        """The d leading columns of E."""
        return self.V.top(np.eye(d, dtype=self.c.dtype)) * self.c[:d].T

    def pull(self, R: NDArray) -> NDArray:
        """Eᵀ R, as a direction of the whitened space."""
        G = self.c * self.V.transposed_matmul(R)
        return G if self._held is None else _without(self._held, G)

    def ridge_part(self, B: NDArray) -> NDArray:
        """What the ridge adds to the Gram matrix of the rows embedded by B."""
        return B.T @ (self._ridge * B)


def _without(F: NDArray, G: NDArray) -> NDArray:
    """(I − FᵀF)⁻¹ G, by the shorter side of F: also G + Fᵀ (I − F Fᵀ)⁻¹ F G."""
    tall = F.shape[0] > F.shape[1]
    S, right = (-(F.T @ F), G) if tall else (-(F @ F.T), F @ G)
    diagonal = np.diag_indices_from(S)
    S[diagonal] += 1 + SOUND * np.finfo(S.dtype).eps
    try:
        np.linalg.cholesky(S)
    except np.linalg.LinAlgError:  # rounding pushes it below zero where a held row stands alone
        S[diagonal] += 0.01
    solved = np.linalg.solve(S, right)
    return solved if tall else G + F.T @ solved


class Plane:
    """The span of the d leading axes and of their images under the contrasts, with the rows embedded in it.

    Every choice of ω and β, and every round, is a matter of these 2 d columns. Maps in the plane are p × d.

    Parameters
    ----------
    rows : WhitenedRows
        Rows to learn from.
    supervision : Supervision
        What is supervision of them.
    d : int
        Number of directions of a map.
    round_rows : int, optional
        Number of rows that a round draws; see :func:`default_round_rows`.
    """

    def __init__(self, rows: WhitenedRows, supervision: Supervision, d: int, round_rows: int | None = None):
        axes, images = np.eye(rows.V.rank, d, dtype=rows.c.dtype), rows.axes(d)
        further = rows.pull(supervision.contrast(images))
        size = np.linalg.norm(further)
        further *= np.sqrt(d) / size if size > 0 else 0
        self.directions = np.hstack((axes, further))
        self.images = np.hstack((images, rows.embed(further)))
        self.supervision, self.d = supervision, d
        self.round_rows = default_round_rows(len(images)) if round_rows is None else round_rows
        self._itself = _gram(self.images, self.images)
        self._contrast = _gram(self.images, supervision.contrast(self.images))
        # Gram matrices of whitening, of all rows that whiten
        scale = 1.0 if rows.n is None else rows.n / len(images)
        self._total = rows.ridge_part(self.directions) + scale * self._itself
        means = supervision.class_means(self.images).astype(np.float64)
        self._between = scale * means.T @ means

    def whitening(self, within: float) -> NDArray:
        """T (p × q) with TᵀAT = I, where A is the scatter in the plane less the share ω of that of class means."""
        values, vectors = np.linalg.eigh(self._total - within * self._between)
        sound = values > SOUND * np.finfo(self.images.dtype).eps * values[-1]
        return vectors[:, sound] / np.sqrt(values[sound])

    def solve(self, T: NDArray, local: float) -> NDArray:
        """The closed form with λ = 1: top d eigenpairs in whitened coordinates, scaled by √s, s = max(0, k)."""
        H = T.T @ ((1 - local) * self._contrast + local * self._itself) @ T
        k, P = (part[..., -self.d :] for part in np.linalg.eigh(H))
        B = T @ (P * np.sqrt(weights(k)))[:, ::-1]
        B *= column_signs(B)
        return np.pad(B, ((0, 0), (0, self.d - B.shape[1]))).astype(self.images.dtype)

    def another_round(
        self, T: NDArray, B: NDArray, number: int, margin: float, random: np.random.RandomState
    ) -> tuple[NDArray, float]:
        """Move along the triplets inside the margin; return the map, and the mean hinge before.

        The ``number``-th round moves the embeddings by STEP/√number of their length.
        """
        drawn = self.supervision.draw(self.round_rows, random)
        E = self.images[drawn]
        Y = E @ B
        i, j, w, hinge = self.supervision.subset(drawn).active_pairs(unit_rows(Y), margin)
        if len(i) == 0:
            return B, hinge
        G = (T @ (T.T @ (E.T @ pair_product(i, j, w, Y, Y)))).astype(B.dtype)
        return B + G * _step_length(Y, E @ G, STEP / number**0.5), hinge

    def rounds(
        self, T: NDArray, B: NDArray, number: int, margin: float, random: np.random.RandomState
    ) -> tuple[NDArray, list[float]]:
        """Make several rounds; return the map, and the mean hinge before each of them."""
        hinges = []
        # Matrices of a round are too small for several BLAS threads, which on a busy machine cost dearly.
        with threadpool_limits(1, user_api="blas"):
            for a in range(number):
                B, hinge = self.another_round(T, B, a + 1, margin, random)
                hinges.append(hinge)
        return B, hinges


def default_round_rows(n: int) -> int:
    """Number of rows that are drawn in a round, of n."""
    return min(max(ROUND_ROWS, n // ROUND_SHARE), MOST_ROUND_ROWS)


def weights(k: NDArray) -> NDArray:
    """s = max(0, k), without smoothing."""
    return np.maximum(k, 0)


def _gram(A: NDArray, B: NDArray) -> NDArray[np.float64]:
    """The symmetric part of AᵀB."""
    G = (A.T @ B).astype(np.float64)
    return (G + G.T) / 2


def _step_length(Y: NDArray, move: NDArray, share: float) -> float:
    """Factor by which a move of the embeddings Y gets that share of their length."""
    return share * float(np.linalg.norm(Y)) / max(float(np.linalg.norm(move)), float(np.finfo(Y.dtype).tiny))


@dataclass(frozen=True)
class BatchStep:
    """A step Lᵀ + Xᵀ C of the map from the rows X of a mini-batch, and the mean hinge before it."""

    C: NDArray
    hinge: float


def batch_step(K: NDArray, supervision: Supervision, Y: NDArray, ridge: float, margin: float) -> BatchStep:
    """The direction of a round in the batch's own coordinates: C = η (K + γ)⁻¹ T Y with K = X Xᵀ.

    η makes the embeddings of the batch move by BATCH_STEP of their length.
    """
    i, j, w, hinge = supervision.active_pairs(unit_rows(Y), margin)
    if len(i) == 0:
        return BatchStep(np.zeros_like(Y), hinge)
    TY = pair_product(i, j, w, Y, Y)
    C = np.linalg.solve(K + ridge * np.mean(np.diag(K)) * np.eye(len(K), dtype=K.dtype), TY)
    return BatchStep(C * _step_length(Y, K @ C, BATCH_STEP), hinge)


def rows_of(spectrum: Spectrum, rows: NDArray) -> Spectrum:
    """Some rows of V as an operator, for products only."""
    if spectrum.side == "left":
        return replace(spectrum, basis=spectrum.basis[rows], X=None)
    return replace(spectrum, X=spectrum.X[rows])


def explicit(spectrum: Spectrum) -> NDArray:
    """Some rows of V as an array."""
    if spectrum.side == "left":
        return spectrum.basis
    return product(spectrum.X, spectrum.basis / spectrum.singular_values)


@dataclass(frozen=True)
class Form:
    """The shares ω (within) and β (local) that define a closed form."""

    within: float
    local: float

    @property
    def unsupervised(self) -> bool:
        """Whether this is the data's own geometry, which uses no labels."""
        return self.local == 1


@dataclass(frozen=True)
class Choice:
    """Ridge g, form, number of rounds, and the score on held-out rows.

    If rounds were not needed to decide, the score is that of the closed form.
    """

    ridge: float
    form: Form
    rounds: int = 0
    score: float = np.nan


@dataclass(frozen=True)
class Learned:
    """Lᵀ (D × d), the weights s, and the mean hinge before each round."""

    L_transposed: NDArray
    s: NDArray
    hinges: list[float]


def learn(
    spectrum: Spectrum,
    supervision: Supervision,
    d: int,
    choice: Choice,
    margin: float,
    random: np.random.RandomState,
) -> Learned:
    """The closed form on all rows, then the rounds; the map lifted to the features.

    Parameters
    ----------
    spectrum, supervision
        All training rows and what is supervision of them.
    d : int
        Number of directions.
    choice : Choice
        What to use.
    margin : float
        Margin of the cosine.
    random : RandomState
        Draws the rows of the rounds.
    """
    rows = WhitenedRows(spectrum, choice.ridge)
    plane = Plane(rows, supervision, d)
    T = plane.whitening(choice.form.within)
    B, hinges = plane.rounds(T, plane.solve(T, choice.form.local), choice.rounds, margin, random)
    B = plane.directions @ B
    L_transposed = spectrum.lift((rows.c * B).astype(spectrum.basis.dtype))
    return Learned(L_transposed, np.einsum("ij,ij->j", B, B), hinges)
