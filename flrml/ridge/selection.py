"""The choice of the parameters of RidgeFLRML on held-out rows, by grid search.

1. A fifth of the rows is held out, groups together; of few groups, each fifth in turn. Of many rows, a sample is
   searched. The held-out rows take no part in the subspace, the whitening or the map.
2. Discriminants are tried with every power of ten among the eigenvalues of the scatter as ridge, judged by a sample
   of the held-out rows; then the best ridge, half powers of ten around it and the other forms, judged by all.
3. The cosine of X itself is judged by the sample. If it is far behind, the best discriminants win.
4. Else the data's own geometry is tried as well, for two large ridges, without and with rounds.
5. The one-standard-error rule decides: discriminants, the simpler model, are taken if the best of them is within
   one standard error of the best candidate, else the best.
"""

import functools
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from flrml.exceptions import FlrmlWarning
from flrml.ridge.plane import Form
from flrml.ridge.scaling import RemoteRows, ScaledRows
from flrml.ridge.solver import Candidate, Settings, Solver, scaled_for
from flrml.ridge.supervision import N_FOLDS, Contrasts, Parts, Supervision
from flrml.rows import take_rows
from flrml.wide import is_wide, with_inner_products

# Forms of discriminants, and the data's own geometry.
FORMS = (Form(0.9, 0.1), Form(1.0, 0.1), Form(0.0, 0.1), Form(0.0, 1.0))
ROUNDS = 10  # more gain nothing on held-out rows
FAR = 4.0  # standard errors behind discriminants that rounds from the own geometry do not make up for
FEW = 2000  # below this many groups each fold is held out in turn, and below this many rows no sample is taken
SEARCHED = 10_000  # rows that are searched at most
JUDGES, REFERENCES = 1500, 3000  # rows that are judged at most, and rows that are their neighbours at most
SAMPLE = (400, 2000)  # the same for the first ridges and for the cosine of X


@dataclass(frozen=True, eq=False)
class Trial:
    """A candidate, its score on held-out rows, the standard error of that, and the decisions of each group."""

    candidate: Candidate
    score: float = np.nan
    std_error: float = np.nan
    decisions: NDArray = field(default_factory=lambda: np.empty(0), repr=False)


class Fold:
    """Rows to learn from and rows to judge by.

    Parameters
    ----------
    X : rows of shape (n, D)
        The data, or rows with the same inner products.
    scaled : callable
        Returns them scaled, for discriminants or, if its argument is true, for the data's own geometry.
    supervision : Supervision
        Labels or triplets of all rows.
    parts : pair of ndarrays
        Numbers of the rows to learn from and of the rows to judge by.
    settings : Settings
        What all candidates have in common.
    random : RandomState
        Draws rows and columns.
    """

    def __init__(
        self,
        X: Any,
        scaled: Callable[[bool], ScaledRows],
        supervision: Supervision,
        parts: Parts,
        settings: Settings,
        random: np.random.RandomState,
    ):
        rows, held = parts
        self.X, self.scaled, self.supervision, self.settings = X, scaled, supervision, settings
        self.learned_from, self._subset = rows, supervision.subset(rows)
        self.all = (at_most(REFERENCES, rows, random), held)
        few = len(supervision.groups) < FEW
        sample = (at_most(SAMPLE[1], self.all[0], random), at_most(SAMPLE[0], held, random))
        self.sample = self.all if few else sample
        self.seed = random.randint(2**31)
        self.solver, self.solve = functools.cache(self._solver), functools.cache(self._solve)

    def _solver(self, own: bool) -> Solver:
        random = np.random.RandomState(self.seed)
        return Solver(self.scaled(own), self._subset, self.learned_from, own, self.settings, random)

    def _solve(self, candidate: Candidate) -> NDArray:
        solver = self.solver(candidate.form.local == 1)
        return solver.solve(candidate, np.random.RandomState(self.seed))[0].astype(self.X.dtype)

    def judge(self, candidate: Candidate | None, *, sample: bool) -> tuple[NDArray, NDArray]:
        """Return the decisions about held-out rows and the group of each; None is the cosine of X."""
        rows, held = self.sample if sample else self.all
        if candidate is None:
            return self.supervision.judge(self.X[rows], rows, self.X[held], held)
        images, C = self.solver(candidate.form.local == 1).subspace.images, self.solve(candidate)
        Y, Y_held = (images[some] @ C for some in (rows, held))
        return self.supervision.judge(Y, rows, Y_held, held)


class Selection:
    """Scores of candidates on the same folds.

    Parameters
    ----------
    folds : list of Fold
        The folds.
    report : callable
        Called with every trial.
    """

    def __init__(self, folds: list[Fold], report: Callable[[Trial], None]):
        self.folds, self.report = folds, report
        self.trials: list[Trial] = []  # judged by all held-out rows
        self.first_trials: list[Trial] = []  # judged by a sample

    def score(self, candidates: Iterable[Candidate], *, sample: bool = False) -> Trial:
        """Judge candidates by all held-out rows or by a sample of them; return the best."""
        scored = []
        for candidate in candidates:
            decisions = self._decisions(candidate, sample)
            score = float(decisions.mean()) if len(decisions) else 0.0
            scored.append(Trial(candidate, score, standard_error(decisions), decisions))
            self.report(scored[-1])
        (self.first_trials if sample else self.trials).extend(scored)
        return functools.reduce(better, scored)

    def gain(self, candidate: Candidate) -> float:
        """Return by how many standard errors a candidate is better than the cosine of X, judged by the sample."""
        gain = self._decisions(candidate, True) - self._cosine
        return float(gain.mean() / max(standard_error(gain), np.finfo(np.float64).tiny)) if len(gain) else 0.0

    @functools.cached_property
    def _cosine(self) -> NDArray[np.float64]:
        return self._decisions(None, True)

    def _decisions(self, candidate: Candidate | None, sample: bool) -> NDArray[np.float64]:
        """Return the share of right decisions about each group, 1 on average if all are right."""
        found = [fold.judge(candidate, sample=sample) for fold in self.folds]
        right, group = (np.concatenate(parts) for parts in zip(*found, strict=True))
        # Rows of one group are not independent: the standard error is that of the groups' means.
        _, number, size = np.unique(group, return_inverse=True, return_counts=True)
        return np.bincount(number, right) * (len(size) / max(size.sum(), 1))


def select(
    X: Any,
    scaled: Callable[[bool], ScaledRows],
    supervision: Contrasts,
    settings: Settings,
    given: dict[str, Any],
    random: np.random.RandomState,
    report: Callable[[Trial], None] = lambda trial: None,
) -> list[Trial]:
    """Try candidates on held-out rows; return all trials, the chosen one first.

    Parameters
    ----------
    X : rows of shape (n, D)
        The training rows. Of remote ones, a sample is taken to this process.
    scaled : callable
        Returns them scaled, for discriminants or, if its argument is true, for the data's own geometry.
    supervision : Contrasts
        Their labels or triplets.
    settings : Settings
        What all candidates have in common.
    given : dict
        ``ridge``, ``within``, ``local`` and ``rounds``, each a number or "auto".
    random : RandomState
        Draws folds, rows and columns.
    report : callable
        Called with every trial.
    """
    forms = [form for form in FORMS if _agrees(form, given)] or _given_forms(given)
    rounds = 0 if given["rounds"] == "auto" else int(given["rounds"])
    default = Candidate(1.0 if given["ridge"] == "auto" else float(given["ridge"]), forms[0], rounds)
    if "auto" not in given.values():
        return [Trial(default)]
    searched, known = X, cast(Supervision, supervision)
    if X.shape[0] > SEARCHED or isinstance(X, RemoteRows):
        rows = supervision.draw(min(SEARCHED, X.sample_rows) if isinstance(X, RemoteRows) else SEARCHED, random)
        searched, known = take_rows(X, rows), supervision.subset(rows)
        scaled = functools.cache(lambda own: scaled_for(searched, own, settings))
    elif is_wide(X.shape) and any(form.local == 1 for form in forms) and scaled(True).is_plain:
        searched = with_inner_products(scaled(True).gram).astype(X.dtype)
    folds = [Fold(searched, scaled, known, parts, settings, random) for parts in held_out(known, random)]
    if not folds:  # too few rows to hold any out
        return [Trial(default)]
    selection = Selection(folds, report)
    discriminants, own = ([form for form in forms if (form.local == 1) == wanted] for wanted in (False, True))
    best: Trial | None = None
    if discriminants:
        first, *others = discriminants
        ridges, powers = [default.ridge], [0.0]
        if given["ridge"] == "auto":
            grid = [Candidate(ridge, first, rounds) for ridge in folds[0].solver(False).ridges()]
            ridges, powers = [selection.score(grid, sample=True).candidate.ridge], [-0.5, 0.0, 0.5]
        best = selection.score(Candidate(ridges[0] * 10**power, first, rounds) for power in powers)
        if others:
            best = better(best, selection.score(Candidate(best.candidate.ridge, form, rounds) for form in others))
        if given["rounds"] == "auto" and not own:
            selection.score([Candidate(best.candidate.ridge, best.candidate.form, ROUNDS)])
    if own and (best is None or selection.gain(best.candidate) < FAR):
        large = folds[0].solver(True).ridges()[-1]
        ridges = [large / 10, large * 10] if given["ridge"] == "auto" else [default.ridge]
        starts = [Candidate(ridge, form, rounds) for form in own for ridge in ridges]
        selection.score(starts)
        if given["rounds"] == "auto":
            selection.score(replace(start, rounds=ROUNDS) for start in starts)
    chosen, *rest = one_standard_error(selection.trials)
    if own and selection.gain(chosen.candidate) < -1:
        warnings.warn(
            "on held-out rows the cosine of X is better than the learned map by more than a standard error; "
            "raise n_components, or compare the rows of X as they are",
            FlrmlWarning,
            stacklevel=2,
        )
    return [chosen, *rest, *selection.first_trials]


def better(one: Trial, other: Trial) -> Trial:
    """Return the trial with the higher score, or with the larger ridge if the scores are equal."""
    return max(one, other, key=lambda trial: (trial.score, trial.candidate.ridge))


def held_out(supervision: Supervision, random: np.random.RandomState) -> list[Parts]:
    """Return rows to learn from and rows to judge by: one fold, or of few groups each fold in turn."""
    folds = [(rows, held) for rows, held in supervision.folds(random) if len(rows) and len(held)]
    few = len(np.unique(supervision.groups)) < FEW  # rows of one group err together, so that few groups tell little
    chosen, judges = (folds, FEW // N_FOLDS) if few else (folds[:1], JUDGES)
    return [(rows, at_most(judges, held, random)) for rows, held in chosen]


def one_standard_error(trials: list[Trial]) -> list[Trial]:
    """Order trials by score, but put discriminants first if they are within one standard error of the best.

    The error is that of the difference, as the same rows judge both.
    """
    ordered = sorted(trials, key=lambda trial: (trial.score, trial.candidate.ridge), reverse=True)
    best = ordered[0]
    simple = next((trial for trial in ordered if trial.candidate.form.local < 1), best)
    tied = best.score - simple.score <= standard_error(best.decisions - simple.decisions)
    chosen = simple if tied else best
    return [chosen, *(trial for trial in ordered if trial is not chosen)]


def standard_error(values: NDArray) -> float:
    """Return the standard error of the mean."""
    return float(np.std(values) / np.sqrt(len(values))) if len(values) else 0.0


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
