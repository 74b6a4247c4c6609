"""The choice of the parameters of RidgeFLRML on held-out rows, by grid search.

1. A fifth of the rows is held out, groups together; of few groups, each fifth in turn. Of many rows, a sample is
   searched. The held-out rows take no part in the subspace, the whitening or the map.
2. Discriminants are tried with every power of ten among the eigenvalues of the scatter as ridge. By the
   one-standard-error rule the ridge is 1 unless another is better by more than a standard error; then it is the
   best of them and of the half powers of ten beside it. Of few groups, shares of neighbours of the right class are
   compared, which are less noisy than votes.
3. The cosine of X itself is judged by a sample. If discriminants make far fewer errors, they win.
4. Else the data's own geometry is tried as well, for two large ridges, without and with rounds. The best of these
   four is taken if it is better than the discriminants, the simpler model, by more than two standard errors; or at
   all, if the discriminants are worse than the cosine of X by more than one.
5. If a sample was searched, the ridge of the own geometry and the number of rounds grow with the groups.
"""

import functools
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from flrml.exceptions import FlrmlWarning
from flrml.neighbors import nearest
from flrml.ridge.plane import Form
from flrml.ridge.scaling import RemoteRows, ScaledRows
from flrml.ridge.solver import Candidate, Settings, Solver, scaled_for
from flrml.ridge.supervision import N_FOLDS, Contrasts, Parts, Supervision
from flrml.rows import take_rows
from flrml.wide import is_wide, with_inner_products

FORMS = (Form(0.97, 0.1), Form(0.0, 1.0))  # discriminants, and the data's own geometry
ROUNDS, MOST_ROUNDS = 10, 30  # of up to SEARCHED groups, where more gain nothing on held-out rows, and at most
FEWER = 2 / 3  # of the errors of the cosine of X: discriminants that make fewer are not beaten by rounds
FEW = 2000  # below this many groups each fold is held out in turn, and below this many rows no sample is taken
SEARCHED = 10_000  # rows that are searched at most
JUDGES, REFERENCES = 1500, 3000  # rows that are judged at most, and rows that are their neighbours at most
SAMPLE = (400, 2000)  # the same for the cosine of X
ERRORS = 2  # standard errors by which another model than discriminants is better if it is taken
MORE = 2  # decisions that count as different besides those that are, so that a single row chooses nothing


@dataclass(frozen=True, eq=False)
class Trial:
    """A candidate, its score on held-out rows, the standard error of that, and decisions and support by group."""

    candidate: Candidate
    score: float = np.nan
    std_error: float = np.nan
    decisions: NDArray = field(default_factory=lambda: np.empty(0), repr=False)
    support: NDArray = field(default_factory=lambda: np.full(1, np.nan), repr=False)


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
        # A cache of functools would refer back to the fold, which would then keep what workers hold for it.
        self._solvers: dict[bool, Solver] = {}
        self._maps: dict[Candidate, NDArray] = {}

    def solver(self, own: bool) -> Solver:
        """Return the solver of discriminants, or that of the data's own geometry."""
        if own not in self._solvers:
            random = np.random.RandomState(self.seed)
            self._solvers[own] = Solver(
                self.scaled(own), self._subset, self.learned_from, own, self.settings, random
            )
        return self._solvers[own]

    def solve(self, candidate: Candidate) -> NDArray:
        """Return the map of a candidate on the images."""
        if candidate not in self._maps:
            C = self.solver(candidate.form.local == 1).solve(candidate, np.random.RandomState(self.seed))[0]
            self._maps[candidate] = C.astype(self.X.dtype)
        return self._maps[candidate]

    def judge(self, candidate: Candidate | None, *, sample: bool) -> tuple[NDArray, NDArray, NDArray]:
        """Return the decisions about held-out rows, their support and their groups; None is the cosine of X."""
        rows, held = self.sample if sample else self.all
        if candidate is None:
            search = self.X.nearest if isinstance(self.X, RemoteRows) else nearest
            return self.supervision.judge(take_rows(self.X, rows), rows, take_rows(self.X, held), held, search)
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
        self.trials: list[Trial] = []
        self._by_sample: dict[Candidate | None, NDArray] = {}

    def score(self, candidates: Iterable[Candidate]) -> list[Trial]:
        """Judge candidates by the held-out rows."""
        scored = []
        for candidate in candidates:
            decisions, support = self._judge(candidate, False)
            scored.append(Trial(candidate, mean(decisions), standard_error(decisions), decisions, support))
            self.report(scored[-1])
        self.trials.extend(scored)
        return scored

    def errors(self, candidate: Candidate | None) -> float:
        """Return the share of the sample that a candidate gets wrong; None is the cosine of X."""
        decisions = self._sample_decisions(candidate)
        return float(1 - decisions.mean()) if len(decisions) else 0.0

    def loss(self, candidate: Candidate) -> float:
        """Return by how many standard errors a candidate is worse than the cosine of X, judged by the sample."""
        loss = self._sample_decisions(None) - self._sample_decisions(candidate)
        return float(loss.mean() / max(standard_error(loss), np.finfo(np.float64).tiny)) if len(loss) else 0.0

    def _sample_decisions(self, candidate: Candidate | None) -> NDArray:
        if candidate not in self._by_sample:
            self._by_sample[candidate] = self._judge(candidate, True)[0]
        return self._by_sample[candidate]

    def _judge(self, candidate: Candidate | None, sample: bool) -> list[NDArray[np.float64]]:
        """Return the share of right decisions by group, 1 on average if all are right, and its support."""
        found = [fold.judge(candidate, sample=sample) for fold in self.folds]
        right, support, group = (np.concatenate(parts) for parts in zip(*found, strict=True))
        # Rows of one group are not independent: the standard error is that of the groups' means.
        _, number, size = np.unique(group, return_inverse=True, return_counts=True)
        return [np.bincount(number, values) * (len(size) / max(size.sum(), 1)) for values in (right, support)]


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
        The training rows. Of remote ones, a sample is searched.
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
        searched = X.sample(rows) if isinstance(X, RemoteRows) else take_rows(X, rows)
        known = supervision.subset(rows)
        scaled = functools.cache(lambda own: scaled_for(searched, own, settings))
    elif is_wide(X.shape) and any(form.local == 1 for form in forms) and scaled(True).is_plain:
        searched = with_inner_products(scaled(True).gram).astype(X.dtype)
    folds = [Fold(searched, scaled, known, parts, settings, random) for parts in held_out(known, random)]
    if not folds:  # too few rows to hold any out
        return [Trial(default)]
    selection = Selection(folds, report)
    discriminants, own = ([form for form in forms if (form.local == 1) == wanted] for wanted in (False, True))
    simple: Trial | None = None
    rivals: list[Trial] = []
    if discriminants:
        simple = _try_discriminants(selection, default, discriminants, given)
        if given["rounds"] == "auto" and not own:
            rivals = selection.score([replace(simple.candidate, rounds=ROUNDS)])
    if own and (simple is None or selection.errors(simple.candidate) > FEWER * selection.errors(None)):
        large = folds[0].solver(True).ridges()[-1]
        ridges = [large / 10, large * 10] if given["ridge"] == "auto" else [default.ridge]
        starts = [Candidate(ridge, form, rounds) for form in own for ridge in ridges]
        if given["rounds"] == "auto":
            starts += [replace(start, rounds=ROUNDS) for start in starts]
        rivals = selection.score(starts)
    trials = rivals if simple is None else [simple, *rivals]
    if own and simple is not None and selection.loss(simple.candidate) > 1:
        simple = None  # worse than the cosine of X, and so preferred to nothing
    chosen = prefer_simple(trials, simple, ERRORS)[0]
    if own and selection.loss(chosen.candidate) > 1:
        warnings.warn(
            "on held-out rows the cosine of X is better than the learned map by more than a standard error; "
            "raise n_components, or compare the rows of X as they are",
            FlrmlWarning,
            stacklevel=2,
        )
    growth, number = supervision.n_groups / known.n_groups, rounds_for(supervision.n_groups)
    rest = (trial for trial in ordered(selection.trials) if trial is not chosen)
    return [_for_all_rows(trial, growth, number, given) for trial in (chosen, *rest)]


def _try_discriminants(selection: Selection, default: Candidate, forms: list[Form], given: dict[str, Any]) -> Trial:
    """Score the first form with a grid of ridges, and the others with the best of them; return the best."""
    first, solver = replace(default, form=forms[0]), selection.folds[0].solver(False)
    by = "support" if len(selection.folds) > 1 else "decisions"  # of many rows, pure neighbourhoods mislead
    if given["ridge"] == "auto":
        trials = selection.score(replace(first, ridge=ridge) for ridge in solver.ridges())
        simple = next(trial for trial in trials if trial.candidate.ridge == 1)
        best = prefer_simple(trials, simple, by=by)[0]
        if best is not simple:
            half = [replace(first, ridge=best.candidate.ridge * 10**power) for power in (-0.5, 0.5)]
            best = ordered([best, *selection.score(half)], by)[0]
    else:
        (best,) = selection.score([first])
    others = [replace(best.candidate, form=form) for form in forms[1:]]
    return ordered([best, *selection.score(others)])[0]


def _for_all_rows(trial: Trial, growth: float, number: int, given: dict[str, Any]) -> Trial:
    """Return a trial with the ridge for ``growth`` times as many groups as were searched, and a number of rounds.

    The ridge of the own geometry keeps its size beside the scatter. More rows of the same objects do not count.
    """
    candidate = trial.candidate
    if given["ridge"] == "auto" and candidate.form.local == 1:
        candidate = replace(candidate, ridge=candidate.ridge * growth)
    if given["rounds"] == "auto" and candidate.rounds:
        candidate = replace(candidate, rounds=number)
    return replace(trial, candidate=candidate)


def rounds_for(n_groups: int) -> int:
    """Return the number of rounds: if the rows show few objects, more gain nothing or overfit."""
    return min(max(ROUNDS, ROUNDS * n_groups // SEARCHED), MOST_ROUNDS)


def held_out(supervision: Supervision, random: np.random.RandomState) -> list[Parts]:
    """Return rows to learn from and rows to judge by: one fold, or of few groups each fold in turn."""
    folds = [(rows, held) for rows, held in supervision.folds(random) if len(rows) and len(held)]
    few = len(np.unique(supervision.groups)) < FEW  # rows of one group err together, so that few groups tell little
    chosen, judges = (folds, FEW // N_FOLDS) if few else (folds[:1], JUDGES)
    return [(rows, at_most(judges, held, random)) for rows, held in chosen]


def ordered(trials: list[Trial], by: str = "decisions") -> list[Trial]:
    """Order trials by the mean of their decisions or support; of equal ones, the larger ridge comes first."""
    return sorted(trials, key=lambda trial: (mean(getattr(trial, by)), trial.candidate.ridge), reverse=True)


def prefer_simple(
    trials: list[Trial], simple: Trial | None, errors: float = 1, by: str = "decisions"
) -> list[Trial]:
    """Order trials, but put the simple one first if it is within that many standard errors of the best.

    The error is that of the difference, as the same rows judge both.
    """
    best, *rest = ordered(trials, by)
    if simple is None:
        return [best, *rest]
    gain = getattr(best, by) - getattr(simple, by)
    if mean(gain) > errors * standard_error(gain, MORE):
        return [best, *rest]
    return [simple, *(trial for trial in (best, *rest) if trial is not simple)]


def mean(values: NDArray) -> float:
    """Return the mean, 0 of no values."""
    return float(values.mean()) if len(values) else 0.0


def standard_error(values: NDArray, more: int = 0) -> float:
    """Return the standard error of the mean, as if the squares of the values had a sum larger by ``more``."""
    return float(np.sqrt(np.var(values) + more / len(values)) / np.sqrt(len(values))) if len(values) else 0.0


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
