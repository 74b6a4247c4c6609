"""The choice of the parameters of RidgeFLRML on held-out rows, by grid search.

1. A fifth of the rows is held out, groups together; of few rows, each fifth in turn. The held-out rows take no part
   in the subspace, the whitening or the map.
2. Discriminants are tried with every power of ten among the eigenvalues of the scatter as ridge, and the data's own
   geometry with the smallest, the middle and the largest of these.
3. Around the best ridge, half powers of ten and the other form of discriminants follow.
4. The data's own geometry is tried with rounds, too, unless its closed form is far behind.
5. The one-standard-error rule decides: the data's own geometry, the simpler model, is taken if it is within one
   standard error of the best candidate, else the best.
"""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flrml.ridge.plane import Form, Plane
from flrml.ridge.subspace import SubspaceBuilder
from flrml.ridge.supervision import Parts, Supervision

FORMS = (Form(0.9, 0.1), Form(1.0, 0.1), Form(0.0, 1.0))  # two forms of discriminants, and the data's own geometry
ROUNDS = 10  # more gain nothing on held-out rows
FAR = 3.0  # standard errors behind discriminants that rounds from the own geometry are not expected to make up for
FEW_ROWS = 2000  # below this many rows, each fold is held out in turn
JUDGES, REFERENCES = 2500, 10_000  # rows that are judged at most, and rows that are their neighbours at most


@dataclass(frozen=True)
class Candidate:
    """Ridge as a multiple of the mean σ², form and number of rounds."""

    ridge: float
    form: Form
    rounds: int = 0


@dataclass(frozen=True, eq=False)
class Trial:
    """A candidate, its score on held-out rows, the standard error of that, and the decisions of each group."""

    candidate: Candidate
    score: float = np.nan
    std_error: float = np.nan
    decisions: NDArray = field(default_factory=lambda: np.empty(0), repr=False)


class Fold:
    """Rows to learn from and rows to judge by, in the subspace of the former.

    Parameters
    ----------
    builder : SubspaceBuilder
        Builds the subspace.
    supervision : Supervision
        Labels or triplets of all rows.
    parts : pair of ndarrays
        Numbers of the rows to learn from and of the rows to judge by.
    mean_square : float
        Mean squared length of the rows.
    random : RandomState
        Draws rows and columns.
    """

    def __init__(
        self,
        builder: SubspaceBuilder,
        supervision: Supervision,
        parts: Parts,
        mean_square: float,
        random: np.random.RandomState,
    ):
        rows, held = parts
        self.supervision, learned_from = supervision, supervision.subset(rows)
        subspace = builder.build(learned_from, rows, random)
        self.plane = Plane(subspace.images[rows], learned_from, builder.d)
        self.scale = mean_square * len(rows) / min(len(rows), builder.X.shape[1])
        self.rows, self.held = at_most(REFERENCES, rows, random), held
        self._images = [subspace.images[some] for some in (self.rows, held)]
        self.seed = random.randint(2**31)

    def judge(self, candidate: Candidate, margin: float) -> tuple[NDArray, NDArray]:
        """Return the decisions about the held-out rows, and the group of each."""
        A = self.plane.whitening(candidate.ridge * self.scale, candidate.form.within)
        C = self.plane.solve(A, candidate.form.local)
        C = self.plane.rounds(A, C, candidate.rounds, margin, np.random.RandomState(self.seed))[0]
        Y, Y_held = (images @ C.astype(images.dtype) for images in self._images)
        return self.supervision.judge(Y, self.rows, Y_held, self.held)


class Selection:
    """Scores of candidates on the same folds.

    Parameters
    ----------
    folds : list of Fold
        The folds.
    margin : float
        Margin of the rounds.
    report : callable
        Called with every trial.
    """

    def __init__(self, folds: list[Fold], margin: float, report: Callable[[Trial], None]):
        self.folds, self.margin, self.report = folds, margin, report
        self.trials: list[Trial] = []

    def score(self, candidates: Iterable[Candidate]) -> Trial:
        """Judge candidates; return the best of them."""
        scored = []
        for candidate in candidates:
            found = [fold.judge(candidate, self.margin) for fold in self.folds]
            right, group = (np.concatenate(parts) for parts in zip(*found, strict=True))
            # Rows of one group are not independent: the standard error is that of the groups' means.
            _, number, size = np.unique(group, return_inverse=True, return_counts=True)
            decisions = np.bincount(number, right) / size * (size * len(size) / size.sum())
            trial = Trial(candidate, float(decisions.mean()), standard_error(decisions), decisions)
            self.report(trial)
            scored.append(trial)
        self.trials += scored
        return functools.reduce(better, scored)


def select(
    builder: SubspaceBuilder,
    supervision: Supervision,
    mean_square: float,
    given: dict[str, Any],
    margin: float,
    random: np.random.RandomState,
    report: Callable[[Trial], None] = lambda trial: None,
) -> list[Trial]:
    """Try candidates on held-out rows; return all trials, the chosen one first.

    Parameters
    ----------
    builder : SubspaceBuilder
        Builds subspaces of the training rows.
    supervision : Supervision
        Their labels or triplets.
    mean_square : float
        Mean squared length of the rows.
    given : dict
        ``ridge``, ``within``, ``local`` and ``rounds``, each a number or "auto".
    margin : float
        Margin of the rounds.
    random : RandomState
        Draws folds, rows and columns.
    report : callable
        Called with every trial.
    """
    forms = [form for form in FORMS if _agrees(form, given)] or _given_forms(given)
    discriminants = [form for form in forms if form.local < 1]
    geometries = [form for form in forms if form.local == 1]
    if "auto" not in given.values():
        return [Trial(Candidate(float(given["ridge"]), forms[0], int(given["rounds"])))]
    parts = held_out(supervision, random)
    folds = [Fold(builder, supervision, part, mean_square, random) for part in parts]
    if not folds:  # too few rows to hold any out
        ridge = 1.0 if given["ridge"] == "auto" else float(given["ridge"])
        return [Trial(Candidate(ridge, forms[0], 0 if given["rounds"] == "auto" else int(given["rounds"])))]
    selection = Selection(folds, margin, report)
    rounds = 0 if given["rounds"] == "auto" else int(given["rounds"])
    ridges = ridge_grid(folds) if given["ridge"] == "auto" else [float(given["ridge"])]
    best: Trial | None = None
    if discriminants:
        first = discriminants[0]
        best = selection.score(Candidate(ridge, first, rounds) for ridge in ridges)
        if len(ridges) > 1:
            fine = [best.candidate.ridge * 10**power for power in (-0.5, 0.5)]
            best = better(best, selection.score(Candidate(ridge, first, rounds) for ridge in fine))
        for form in discriminants[1:]:
            best = better(best, selection.score([Candidate(best.candidate.ridge, form, rounds)]))
    if geometries:
        few = sorted({ridges[0], ridges[len(ridges) // 2], ridges[-1]})
        own = selection.score(Candidate(ridge, form, rounds) for form in geometries for ridge in few)
        reached = best is None or own.score >= best.score - FAR * best.std_error
        if given["rounds"] == "auto" and reached:
            selection.score(Candidate(ridge, form, ROUNDS) for form in geometries for ridge in few[1:] or few)
    elif given["rounds"] == "auto" and best is not None:
        selection.score([Candidate(best.candidate.ridge, best.candidate.form, ROUNDS)])
    return one_standard_error(selection.trials)


def better(one: Trial, other: Trial) -> Trial:
    """Return the trial with the higher score, or with the larger ridge if the scores are equal."""
    return max(one, other, key=lambda trial: (trial.score, trial.candidate.ridge))


def held_out(supervision: Supervision, random: np.random.RandomState) -> list[Parts]:
    """Return rows to learn from and rows to judge by: one fold, or of few rows each fold in turn."""
    folds = [(rows, held) for rows, held in supervision.folds(random) if len(rows) and len(held)]
    few = len(supervision.groups) < FEW_ROWS
    return folds if few else [(rows, at_most(JUDGES, held, random)) for rows, held in folds[:1]]


def ridge_grid(folds: list[Fold]) -> list[float]:
    """Return the powers of ten from the smallest to the largest eigenvalue of the scatter, over the mean σ²."""
    plane, scale = folds[0].plane, folds[0].scale
    low, high = np.floor(np.log10(plane.eigenvalues[[-plane.rank, -1]] / scale))
    return [float(10.0**exponent) for exponent in np.arange(low, high + 1)]


def one_standard_error(trials: list[Trial]) -> list[Trial]:
    """Order trials by score, but put the data's own geometry first if it is within one standard error of the best.

    The error is that of the difference, as the same rows judge both. Without rounds the own geometry knows no
    labels, so that it counts only if no rounds were tried from it.
    """
    ordered = sorted(trials, key=lambda trial: (trial.score, trial.candidate.ridge), reverse=True)
    own = [trial for trial in ordered if trial.candidate.form.local == 1]
    with_rounds = [trial for trial in own if trial.candidate.rounds]
    admitted = [trial for trial in ordered if trial not in own or trial in (with_rounds or own)]
    best = admitted[0]
    simple = next((trial for trial in with_rounds or own), best)
    tied = best.score - simple.score <= standard_error(best.decisions - simple.decisions)
    chosen = simple if tied else best
    return [chosen, *(trial for trial in ordered if trial is not chosen)]


def standard_error(values: NDArray) -> float:
    """Return the standard error of the mean."""
    return float(np.std(values) / np.sqrt(len(values)))


def at_most(most: int, rows: NDArray, random: np.random.RandomState) -> NDArray:
    """Return the rows, or ``most`` random ones of them."""
    return rows if len(rows) <= most else np.sort(random.choice(rows, most, replace=False))


def _agrees(form: Form, given: dict[str, Any]) -> bool:
    return all(given[name] in ("auto", getattr(form, name)) for name in ("within", "local"))


def _given_forms(given: dict[str, Any]) -> list[Form]:
    """Return forms with a given value that none of FORMS has; the other parameter takes each of its values."""
    withins = sorted({form.within for form in FORMS}) if given["within"] == "auto" else [float(given["within"])]
    locals_ = sorted({form.local for form in FORMS}) if given["local"] == "auto" else [float(given["local"])]
    return [Form(within, local) for local in locals_ for within in withins]
