"""The model of FLRML without overfitting and without sampling noise: the ``"ridge"`` variant.

Changes to the model of :mod:`flrml.loss`, in the same symbols:

* **Ridge whitening.** V becomes E = V diag(c) with c = σ/√(σ² + γ), γ = g × mean σ². g → 0 is whitening, g → ∞ the
  data's own geometry.
* **Triplets in expectation.** Row i of M is the mean of *all* of i's positives minus that of all its negatives. For
  a share β (``local``) the positive is the nearest of all, i itself, which keeps what the data say without labels.
* **Weights without smoothing**, s = max(0, k), and with every λ_i = 1 a **closed form**: W = P diag(s) Pᵀ consists
  of the top d eigenpairs of sym(EᵀM). They are found in the span of the leading axes and of their images
  (Rayleigh–Ritz), so that no r × r matrix is formed.
* **Rounds.** Neighbours and λ are found in the learned metric, and the top eigenpairs are taken anew, of W + η G,
  where G holds the triplets inside the margin. A round costs two n·r·d products, like an iteration of the descent.

What is left open, (g, β) and the number of rounds, is chosen on rows that are held out; see :func:`choose`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from flrml.rows import product
from flrml.spectrum import Spectrum
from flrml.supervision import Supervision, pair_matrix, unit_rows

RIDGES = (0.01, 0.1, 1.0, 10.0, 100.0)
SHARES = (0.0, 0.1, 0.5, 1.0)
MAX_ROUNDS = 3
STEP = 0.3  # length of η G beside that of W
BATCH_STEP = 0.05  # length of a mini-batch's first step beside that of its embeddings
MARGIN = 0.1  # of the cosine, for margin_ratio = 1
WORKING_ROWS = 10000  # among which neighbours are sought
ANCHORS = 2000  # of them, whose neighbours are sought in a round
START_ROWS = 2000  # of the first mini-batch
HELD_OUT, MOST_HELD_OUT = 0.2, 2000  # share of the groups, and rows of them that are judged
FINALISTS, CLOSE = 2, 0.01  # rounds are tried for so many ridges, whose scores are so close to the best
SOUND = 100  # squared lengths below so many units of rounding, relative to the longest, are noise


@dataclass(frozen=True)
class Choice:
    """Ridge g, share β, number of rounds, and the score on the rows held out."""

    ridge: float
    local: float
    rounds: int = 0
    score: float = np.nan

    @property
    def rank(self) -> tuple[float, float, int]:
        """Order of choices: by score; of equal ones, the larger ridge and then fewer rounds are safer."""
        return self.score, self.ridge, -self.rounds


@dataclass
class Solution:
    """A map B (r × d) on the whitened coordinates, and the embeddings Y = E B."""

    B: NDArray
    Y: NDArray


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
    """

    def __init__(self, spectrum: Spectrum, ridge: float, held: NDArray | None = None):
        sigma = spectrum.singular_values.astype(np.float64)
        gamma = ridge * np.mean(sigma**2)
        self.V = spectrum
        self.c = (sigma / np.sqrt(sigma**2 + gamma)).astype(spectrum.singular_values.dtype)[:, None]
        # Without rows F of E, the whitened Gram matrix plus ridge is I − FᵀF instead of I.
        self._held = None if held is None else held * self.c.T
        self._factor = None if self._held is None else _cholesky(self._held)

    def on(self, spectrum: Spectrum) -> "WhitenedRows":
        """Other rows of the same data."""
        other = WhitenedRows.__new__(WhitenedRows)
        other.V, other.c, other._held, other._factor = spectrum, self.c, self._held, self._factor
        return other

    def embed(self, B: NDArray) -> NDArray:
        """E B."""
        return self.V @ (self.c * B)

    def axes(self, d: int) -> NDArray:
        """The d leading columns of E."""
        return self.V.top(np.eye(d, dtype=self.c.dtype)) * self.c[:d].T

    def pull(self, R: NDArray) -> NDArray:
        """Eᵀ R, as a direction of the whitened space."""
        G = self.c * self.V.transposed_matmul(R)
        if self._held is None:
            return G
        F = self._held  # (I − FᵀF)⁻¹ = I + Fᵀ (I − F Fᵀ)⁻¹ F
        return G + F.T @ scipy.linalg.cho_solve((self._factor, True), F @ G, check_finite=False)

    def inner(self, B: NDArray) -> NDArray:
        """Inner products of directions: BᵀB for whitened rows."""
        products = (B.T @ B).astype(np.float64)
        if self._held is not None:
            FB = self._held @ B
            products -= FB.T @ FB
        return products


def _cholesky(F: NDArray) -> NDArray:
    """Lower factor of I − F Fᵀ, which rounding may push below zero where a held row stands alone."""
    S = -(F @ F.T)
    for spare in (SOUND * np.finfo(S.dtype).eps, 0.01):
        S[np.diag_indices_from(S)] += 1 + spare
        try:
            return scipy.linalg.cholesky(S, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            S[np.diag_indices_from(S)] -= 1
    raise np.linalg.LinAlgError("rows that are held out are not those of a spectrum")


class Plane:
    """A span of directions in which eigenproblems are solved, with the rows embedded in it."""

    def __init__(self, rows: WhitenedRows, directions: NDArray, images: NDArray):
        S = rows.inner(directions)
        values, vectors = scipy.linalg.eigh(S)
        sound = values > SOUND * np.finfo(images.dtype).eps * values[-1]
        self._to_plane = vectors[:, sound] / np.sqrt(values[sound])
        self._from_plane = self._to_plane.T @ S
        self._directions, self._images = directions, images

    def form(self, TY: NDArray) -> NDArray:
        """The quadratic form Eᵀ T E in the plane, from T applied to the images."""
        K = self._to_plane.T @ (self._images.T @ TY).astype(np.float64) @ self._to_plane
        return (K + K.T) / 2

    def metric(self, d: int) -> NDArray:
        """W = B Bᵀ in the plane, for B the first d directions."""
        B = self._from_plane[:, :d]
        return B @ B.T

    def solve(self, H: NDArray, d: int) -> Solution:
        """The top d eigenpairs of H, scaled by √s with s = max(0, eigenvalue)."""
        first = max(0, len(H) - d)
        k, P = scipy.linalg.eigh(H, subset_by_index=(first, len(H) - 1))
        C = self._to_plane @ (P * np.sqrt(np.maximum(k, 0)))[:, ::-1]
        C = np.pad(C, ((0, 0), (0, d - C.shape[1]))).astype(self._images.dtype)
        return Solution(self._directions @ C, self._images @ C)


def closed_form(rows: WhitenedRows, known: Supervision, d: int) -> Callable[[float], Solution]:
    """The solution with λ = 1, as a function of β: one plane serves all."""
    axes = np.eye(rows.V.rank, d, dtype=rows.c.dtype)
    images = rows.axes(d)
    further = rows.pull(known.contrast(images))
    size = np.linalg.norm(further)
    further *= np.sqrt(d) / size if size > 0 else 0
    images = np.hstack((images, rows.embed(further)))
    plane = Plane(rows, np.hstack((axes, further)), images)
    classes, itself = plane.form(known.contrast(images)), plane.form(images)
    return lambda local: plane.solve((1 - local) * classes + local * itself, d)


def another_round(
    rows: WhitenedRows, known: Supervision, found: Solution, margin: float, random: np.random.RandomState
) -> tuple[Solution, float]:
    """Solve again with the triplets inside the margin of the metric found; return the mean hinge before, too."""
    Y, d = found.Y, found.B.shape[1]
    i, j, weights, hinge = known.active_pairs(unit_rows(Y), margin, ANCHORS, random)
    if len(i) == 0:
        return found, hinge
    T = pair_matrix(i, j, weights, Y)
    further = rows.pull(T @ Y)
    further *= np.linalg.norm(found.B) / max(np.linalg.norm(further), np.finfo(Y.dtype).tiny)
    images = np.hstack((Y, rows.embed(further)))
    plane = Plane(rows, np.hstack((found.B, further)), images)
    W, G = plane.metric(d), plane.form(T @ images)
    eta = STEP * np.linalg.norm(W) / max(np.linalg.norm(G), np.finfo(np.float64).tiny)
    return plane.solve(W + eta * G, d), hinge


@dataclass(frozen=True)
class BatchStep:
    """A step Lᵀ + Xᵀ C of the map from the rows X of a mini-batch, and the mean hinge before it."""

    C: NDArray
    hinge: float


def batch_step(
    K: NDArray, known: Supervision, Y: NDArray, ridge: float, margin: float, random: np.random.RandomState
) -> BatchStep:
    """The direction of a round in the batch's own coordinates: C = η (K + γ)⁻¹ T Y with K = X Xᵀ.

    η makes the embeddings of the batch move by BATCH_STEP of their length.
    """
    i, j, weights, hinge = known.active_pairs(unit_rows(Y), margin, len(Y), random)
    if len(i) == 0:
        return BatchStep(np.zeros_like(Y), hinge)
    TY = pair_matrix(i, j, weights, Y) @ Y
    C = scipy.linalg.solve(K + ridge * np.mean(np.diag(K)) * np.eye(len(K)), TY, assume_a="pos")
    return BatchStep(
        C * (BATCH_STEP * np.linalg.norm(Y) / max(np.linalg.norm(K @ C), np.finfo(Y.dtype).tiny)), hinge
    )


def start_rows(triplets: NDArray, n: int, random: np.random.RandomState) -> NDArray:
    """Rows of the first mini-batch: all of them, or those of random triplets."""
    if n <= START_ROWS:
        return np.arange(n)
    return np.unique(random.permutation(triplets)[: START_ROWS // 3])


Trial = tuple[Choice, Solution, WhitenedRows]


def _climb(attempt: Callable[[float], Trial], ridges: list[float]) -> list[Trial]:
    """Try the ridge in the middle, then larger ones while the score does not fall, else smaller ones."""
    middle = len(ridges) // 2
    trials = [attempt(ridges[middle])]
    for side in (ridges[middle + 1 :], ridges[:middle][::-1]):
        last = trials[0][0].score
        for ridge in side:
            trials.append(attempt(ridge))
            if trials[-1][0].score < last:
                break
            last = trials[-1][0].score
        if max(trials, key=lambda trial: trial[0].score) is not trials[0]:
            break
    return trials


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


def solve(
    spectrum: Spectrum,
    known: Supervision,
    d: int,
    choice: Choice,
    margin: float,
    random: np.random.RandomState,
) -> tuple[Solution, list[float]]:
    """The closed form and then the rounds; return the solution, and the mean hinge before each round."""
    rows, hinges = WhitenedRows(spectrum, choice.ridge), []
    found = closed_form(rows, known, d)(choice.local)
    n = len(found.Y)
    for _ in range(choice.rounds):
        if n > WORKING_ROWS:
            drawn = np.sort(random.choice(n, WORKING_ROWS, replace=False))
            part, known_part = rows.on(rows_of(spectrum, drawn)), known.subset(drawn)
            found, hinge = another_round(part, known_part, Solution(found.B, part.embed(found.B)), margin, random)
        else:
            found, hinge = another_round(rows, known, found, margin, random)
        hinges.append(hinge)
    return found, hinges


@dataclass(frozen=True)
class Learned:
    """Lᵀ (D × d), the weights s, the choice, all that was tried, and the mean hinge before each round."""

    L_transposed: NDArray
    s: NDArray
    choice: Choice
    tried: list[Choice]
    hinges: list[float]


def learn(
    spectrum: Spectrum,
    known: Supervision,
    d: int,
    parameters: Any,
    random: np.random.RandomState,
    report: Callable[[Choice], None] = lambda choice: None,
) -> Learned:
    """Choose what is open, solve on all rows, and lift the map to the features.

    Parameters
    ----------
    spectrum, known
        All training rows and what is known of them.
    d : int
        Number of directions.
    parameters : object
        With the attributes ``ridge``, ``local`` and ``rounds``, numbers or "auto", and ``margin_ratio``.
    random : RandomState
        Draws rows.
    report : callable
        Called with every trial.
    """
    margin = MARGIN * parameters.margin_ratio
    tried = choose(spectrum, known, d, margin, random, **_open_choices(parameters), report=report)
    found, hinges = solve(spectrum, known, d, tried[0], margin, random)
    B = WhitenedRows(spectrum, tried[0].ridge).c * found.B
    s = np.einsum("ij,ij->j", found.B, found.B)
    return Learned(spectrum.lift(B.astype(spectrum.basis.dtype)), s, tried[0], tried, hinges)


def _open_choices(parameters: Any) -> dict[str, Any]:
    """What :func:`choose` has to try for parameters ``ridge``, ``local`` and ``rounds``, numbers or "auto"."""
    return {
        "ridges": RIDGES if parameters.ridge == "auto" else (float(parameters.ridge),),
        "shares": SHARES if parameters.local == "auto" else (float(parameters.local),),
        "rounds": None if parameters.rounds == "auto" else int(parameters.rounds),
    }


def _at_most(most: int, rows: NDArray, random: np.random.RandomState) -> NDArray:
    return rows if len(rows) <= most else np.sort(random.choice(rows, most, replace=False))


def choose(
    spectrum: Spectrum,
    known: Supervision,
    d: int,
    margin: float,
    random: np.random.RandomState,
    *,
    ridges: tuple[float, ...] = RIDGES,
    shares: tuple[float, ...] = SHARES,
    rounds: int | None = None,
    report: Callable[[Choice], None] = lambda choice: None,
) -> list[Choice]:
    """Try ridges, shares and rounds on rows that are held out; return what was tried, the best first.

    The singular directions are those of all rows, found without any label; the Gram matrix that whitens is that
    of the rows that are not judged, so that the overfitting of a small ridge shows. The closed form is tried for
    one ridge after the other and every share, rounds for the best two ridges.

    Parameters
    ----------
    spectrum, known
        All training rows and what is known of them.
    d : int
        Number of directions.
    margin : float
        Margin of the cosine.
    random : RandomState
        Draws the rows.
    ridges, shares
        Values of g and β to try.
    rounds : int or None
        Number of rounds, or None to choose it, too.
    report : callable
        Called with every trial.
    """
    if len(ridges) == len(shares) == 1 and rounds is not None:
        return [Choice(ridges[0], shares[0], rounds)]
    rows, held = known.hold_out(HELD_OUT, random)
    if len(held) == 0 or len(rows) == 0:  # too few rows to learn anything from
        return [Choice(ridges[len(ridges) // 2], shares[len(shares) // 2], rounds or 0)]
    rows, held = _at_most(WORKING_ROWS, rows, random), _at_most(MOST_HELD_OUT, held, random)
    learned_from, V, V_held = known.subset(rows), rows_of(spectrum, rows), rows_of(spectrum, held)
    F = explicit(V_held)
    tried: list[Choice] = []

    def judge(whitened: WhitenedRows, found: Solution, choice: Choice) -> Choice:
        score = known.score(found.Y, rows, whitened.on(V_held).embed(found.B), held)
        tried.append(replace(choice, score=score))
        report(tried[-1])
        return tried[-1]

    def with_ridge(ridge: float) -> Trial:
        whitened = WhitenedRows(V, ridge, F)
        of_share = closed_form(whitened, learned_from, d)
        solutions = {share: of_share(share) for share in shares}
        judged = [judge(whitened, solution, Choice(ridge, share)) for share, solution in solutions.items()]
        best = max(judged, key=lambda choice: choice.rank)
        return best, solutions[best.local], whitened

    best = sorted(_climb(with_ridge, sorted(ridges)), key=lambda trial: trial[0].rank, reverse=True)
    for choice, solution, whitened in best[:FINALISTS]:
        if choice.score < best[0][0].score - CLOSE:
            break
        for number in range(1, (MAX_ROUNDS if rounds is None else rounds) + 1):
            solution = another_round(whitened, learned_from, solution, margin, random)[0]
            judge(whitened, solution, replace(choice, rounds=number))
    if rounds is not None:
        tried = [choice for choice in tried if choice.rounds == rounds]
    return sorted(tried, key=lambda choice: choice.rank, reverse=True)
