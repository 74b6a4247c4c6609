"""Choose the parameters of RidgeFLRML on validation rows, by grid search.

1. With at least 1,500 groups, that many are held out, a third of them at most. Of fewer groups, each fifth is held
   out in turn, until 500 groups were. With many rows, a sample is searched. Validation rows take no part in the
   subspace, the whitening or the map.
2. Discriminants are tried with every scale, and with the powers of ten among the eigenvalues of the scatter as
   ridge. The best are taken, unless those of the features as they are, with a ridge of 1, are within a standard
   error of them.
3. Unless they make far fewer errors than the cosine of X, they are tried with rounds, and the unsupervised form is
   tried with their scale, the two largest ridges, and rounds.
4. The best candidate is taken.

For new classes, each fifth of the classes is held out in turn, and the score is the mean of recall at 1 and MAP@R
of its rows among the others and rows of known classes. The search starts from scaled features, and tries more
shares ``local``, but neither rounds nor the unsupervised form. :class:`flrml.ridge.policy.SearchPolicy` has the
limits.
"""

import functools
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from flrml.exceptions import FlrmlWarning
from flrml.folds import Parts, draw_at_most, validation_parts
from flrml.neighbors import nearest
from flrml.ridge.candidates import Basis, Candidate, Form, Settings
from flrml.ridge.policy import SearchPolicy
from flrml.ridge.scaling import ScaledRows, is_remote
from flrml.ridge.solver import Solver, scaled_for
from flrml.ridge.supervision import Contrasts, Supervision
from flrml.rows import take_rows
from flrml.rows.wide import is_wide, with_inner_products

SEARCHED = ("ridge", "within", "local", "scale", "rounds", "n_components")  # parameters that can be "auto"


@dataclass(frozen=True, eq=False)
class Trial:
    """A candidate and its evaluation on validation rows.

    ``score`` is the mean score of a validation row, ``fold_scores`` that of each fold, ``decisions`` that of each
    group, weighted by its size.
    """

    candidate: Candidate
    score: float = np.nan
    standard_error: float = np.nan
    fold_scores: NDArray = field(default_factory=lambda: np.empty(0), repr=False)
    decisions: NDArray = field(default_factory=lambda: np.empty(0), repr=False)

    @property
    def params(self) -> dict[str, Any]:
        """The candidate as parameters of :class:`flrml.RidgeFLRML`."""
        candidate, form = self.candidate, self.candidate.form
        values = (
            candidate.ridge,
            form.within,
            form.local,
            candidate.scale,
            candidate.rounds,
            candidate.n_components,
        )
        return dict(zip(SEARCHED, values, strict=True))

    @property
    def fold_std(self) -> float:
        """Standard deviation of the score over folds, nan with a single fold."""
        return float(np.std(self.fold_scores)) if len(self.fold_scores) > 1 else np.nan


class Fold:
    """Training rows and validation rows, and the solutions of candidates on the training rows.

    ``parts`` are the numbers of the training rows and of the validation rows. The other parameters are those of
    :func:`select`.
    """

    def __init__(
        self,
        X: Any,
        scaled: Callable[[Basis], ScaledRows],
        supervision: Supervision,
        parts: Parts,
        settings: Settings,
        policy: SearchPolicy,
        random: np.random.RandomState,
    ):
        train, self.validation = parts
        self.X, self.scaled, self.supervision, self.settings = X, scaled, supervision, settings
        self._train, self._subset = train, supervision.subset(train)
        self.reference = draw_at_most(policy.max_reference_rows, train, random)
        if supervision.new_classes:  # their rows find one another among the rows of known classes
            self.reference = np.concatenate((self.reference, self.validation))
        self.seed = random.randint(2**31)
        # A cache of functools would refer back to the fold, which would then keep what workers hold for it.
        self._solvers: dict[Basis, Solver] = {}

    def solver(self, basis: Basis) -> Solver:
        """Return the solver of the candidates of a basis."""
        if basis not in self._solvers:
            random = np.random.RandomState(self.seed)
            self._solvers[basis] = Solver(
                self.scaled(basis), self._subset, self._train, basis[0], self.settings, random
            )
        return self._solvers[basis]

    def evaluate(self, candidate: Candidate | None) -> tuple[NDArray, NDArray]:
        """Evaluate a candidate, or the cosine of X if it is None; see ``Supervision.evaluate``."""
        rows, validation = self.reference, self.validation
        if candidate is None:
            search = self.X.nearest if is_remote(self.X) else nearest
            Y, Y_validation = take_rows(self.X, rows), take_rows(self.X, validation)
            return self.supervision.evaluate(Y, rows, Y_validation, validation, search)
        solver = self.solver(candidate.basis)
        images, C = solver.subspace.images, solver.solve(candidate, np.random.RandomState(self.seed))[0]
        C = C.astype(self.X.dtype)
        return self.supervision.evaluate(images[rows] @ C, rows, images[validation] @ C, validation)


class Selection:
    """Scores of candidates on the same folds; ``report`` is called with every trial."""

    def __init__(self, folds: list[Fold], report: Callable[[Trial], None]):
        self.folds, self.report = folds, report
        self.trials: list[Trial] = []

    def score(self, candidates: Iterable[Candidate]) -> list[Trial]:
        """Evaluate candidates on the validation rows."""
        scored = []
        for candidate in candidates:
            fold_scores, decisions = self._evaluate(candidate)
            scored.append(Trial(candidate, mean(decisions), standard_error(decisions), fold_scores, decisions))
            self.report(scored[-1])
        self.trials.extend(scored)
        return scored

    @functools.cached_property
    def cosine(self) -> NDArray:
        """The decisions of the cosine of X."""
        return self._evaluate(None)[1]

    def _evaluate(self, candidate: Candidate | None) -> tuple[NDArray, NDArray]:
        """Return the scores of the folds, and those of the groups, with the mean of all rows.

        Rows of one group are not independent, so the standard error is that of the means of groups.
        """
        found = [fold.evaluate(candidate) for fold in self.folds]
        scores, group = (np.concatenate(parts) for parts in zip(*found, strict=True))
        _, number, size = np.unique(group, return_inverse=True, return_counts=True)
        decisions = np.bincount(number, scores) * (len(size) / max(size.sum(), 1))
        return np.array([mean(part) for part, _ in found]), decisions


def select(
    X: Any,
    scaled: Callable[[Basis], ScaledRows],
    supervision: Contrasts,
    settings: Settings,
    given: dict[str, Any],
    random: np.random.RandomState,
    *,
    policy: SearchPolicy = SearchPolicy(),  # noqa: B008  # frozen
    report: Callable[[Trial], None] = lambda trial: None,
) -> list[Trial]:
    """Evaluate candidates on validation rows; return all trials, the chosen one first and the others by score.

    Of remote rows X, a sample is searched. ``scaled`` returns the rows scaled for a basis. ``given`` has each of
    SEARCHED, a number or "auto". ``report`` is called with every trial.
    """
    forms = _forms(policy, given, supervision.new_classes)
    rounds = 0 if supervision.new_classes else policy.rounds_for(supervision.n_groups)  # they fit known classes
    scale = policy.start_scale(supervision.new_classes)
    starts = [_start(form, given, settings.d, rounds, scale) for form in forms]
    fixed = {"scale", "rounds"} if forms[0].unsupervised else {"rounds"} if supervision.new_classes else set()
    if all(name in fixed or value != "auto" for name, value in given.items()):
        return [Trial(starts[0])]
    searched, scaled, known = _searched_rows(X, scaled, supervision, settings, forms, policy, random)
    parts = validation_parts(
        known.folds(random),
        known.groups,
        random,
        enough_groups=np.inf if known.new_classes else policy.enough_validation_groups,
        max_rows=policy.max_validation_rows,
    )
    folds = [Fold(searched, scaled, known, pair, settings, policy, random) for pair in parts]
    if not folds:  # too few rows for a split
        return [Trial(starts[0])]
    selection = Selection(folds, report)
    chosen = _choose(selection, starts, given, rounds if given["rounds"] == "auto" else 0, policy)
    if given["local"] in ("auto", 1) and exceeds(selection.cosine, chosen.decisions):
        warnings.warn(
            "on validation rows the cosine of X is better than the learned map by more than a standard error; "
            "raise n_components, or compare the rows of X as they are",
            FlrmlWarning,
            stacklevel=2,
        )
    if given["n_components"] == "auto":
        chosen = _fewest_directions(selection, chosen)
    growth = 1.0 if given["ridge"] != "auto" else supervision.n_groups / known.n_groups
    rest = (trial for trial in ordered(selection.trials) if trial is not chosen)
    return [_for_all_rows(trial, growth) for trial in (chosen, *rest)]


def _searched_rows(
    X: Any,
    scaled: Callable[[Basis], ScaledRows],
    supervision: Contrasts,
    settings: Settings,
    forms: list[Form],
    policy: SearchPolicy,
    random: np.random.RandomState,
) -> tuple[Any, Callable[[Basis], ScaledRows], Supervision]:
    """Return the rows to search with, scaled, and their supervision: all rows, or a sample of them."""
    most = policy.max_search_rows
    if X.shape[0] > most or is_remote(X):
        rows = supervision.draw(min(most, X.sample_rows) if is_remote(X) else most, random)
        sample = X.sample(rows) if is_remote(X) else take_rows(X, rows)
        return sample, functools.cache(lambda basis: scaled_for(sample, basis, settings)), supervision.subset(rows)
    plain = (True, 0.0)
    if is_wide(X.shape) and any(form.unsupervised for form in forms) and scaled(plain).is_plain:
        X = with_inner_products(scaled(plain).gram).astype(X.dtype)
    return X, scaled, cast(Supervision, supervision)


def _choose(
    selection: Selection, starts: list[Candidate], given: dict[str, Any], rounds: int, policy: SearchPolicy
) -> Trial:
    """Return the best trial of discriminants, of the best of them with rounds, and of the unsupervised form."""
    discriminants, unsupervised = ([c for c in starts if c.form.unsupervised == kind] for kind in (False, True))
    trials = []
    if discriminants:
        best = _try_discriminants(selection, discriminants, given, policy)
        if 1 - best.score <= policy.cosine_error_ratio * (1 - mean(selection.cosine)):
            return best
        trials += [best, *selection.score(replace(best.candidate, rounds=rounds) for _ in range(rounds > 0))]
        unsupervised = [replace(start, scale=best.candidate.scale) for start in unsupervised]
    for start in unsupervised:
        ridges = [start.ridge]
        if given["ridge"] == "auto":
            ridges = selection.folds[0].solver(start.basis).ridges()[-2:]
        trials += selection.score(replace(start, ridge=ridge) for ridge in ridges)
    return ordered(trials)[0]


def _try_discriminants(
    selection: Selection, starts: list[Candidate], given: dict[str, Any], policy: SearchPolicy
) -> Trial:
    """Score the first start with every scale and ridge, and the others with the best of them; return the best."""
    trials = []
    for scale in policy.scales if given["scale"] == "auto" else (starts[0].scale,):
        start = replace(starts[0], scale=scale)
        ridges = selection.folds[0].solver(start.basis).ridges() if given["ridge"] == "auto" else [start.ridge]
        trials += selection.score(replace(start, ridge=ridge) for ridge in ridges)
    best = prefer(trials, starts[0])
    others = selection.score(replace(best.candidate, form=start.form) for start in starts[1:])
    return prefer([best, *others], best.candidate)


def _fewest_directions(selection: Selection, chosen: Trial) -> Trial:
    """Return the trial with the smallest number of directions within a standard error of the best."""
    candidate = chosen.candidate
    most = selection.folds[0].solver(candidate.basis).problem.d
    numbers = [2**power for power in range(2, most.bit_length()) if 2**power < most]
    trials = selection.score(replace(candidate, n_components=number) for number in (*numbers, most))
    best = ordered(trials)[0]
    return next(trial for trial in trials if prefer([best, trial], trial.candidate) is trial)


def _for_all_rows(trial: Trial, growth: float) -> Trial:
    """Return a trial with the ridge for ``growth`` times as many groups as were searched.

    The ridge of the unsupervised form keeps its ratio to the scatter. More rows of the same groups do not count.
    """
    candidate = trial.candidate
    if candidate.form.unsupervised:
        candidate = replace(candidate, ridge=candidate.ridge * growth)
    return replace(trial, candidate=candidate)


def prefer(trials: list[Trial], simple: Candidate) -> Trial:
    """Return the best trial, or that of a simple candidate if it is within a standard error of the best."""
    best = ordered(trials)[0]
    for trial in trials:
        if trial.candidate == simple:
            return best if exceeds(best.decisions, trial.decisions) else trial
    return best


def exceeds(decisions: NDArray, others: NDArray) -> bool:
    """Return whether decisions are better than others on the same rows by more than a standard error."""
    gain = decisions - others
    return mean(gain) > standard_error(gain)


def ordered(trials: list[Trial]) -> list[Trial]:
    """Order trials by their scores; ties go to the larger ridge."""
    return sorted(trials, key=lambda trial: (mean(trial.decisions), trial.candidate.ridge), reverse=True)


def mean(values: NDArray) -> float:
    """Return the mean, 0 of no values."""
    return float(values.mean()) if len(values) else 0.0


def standard_error(values: NDArray) -> float:
    """Return the standard error of the mean, 0 of fewer than two values."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def _forms(policy: SearchPolicy, given: dict[str, Any], new_classes: bool) -> list[Form]:
    """Return the forms of the policy with the given values in place of theirs."""
    forms = []
    for form in [policy.unsupervised] if given["local"] == 1 else policy.forms(new_classes):
        within, local = (
            getattr(form, name) if given[name] == "auto" else float(given[name]) for name in ("within", "local")
        )
        if (local == 1) == form.unsupervised:
            forms.append(Form(within, local))
    return list(dict.fromkeys(forms))


def _start(form: Form, given: dict[str, Any], d: int, rounds: int, scale: float) -> Candidate:
    """Return the candidate of a form from which the search starts."""
    return Candidate(
        1.0 if given["ridge"] == "auto" else float(given["ridge"]),
        form,
        scale if given["scale"] == "auto" else float(given["scale"]),
        d,
        (rounds if form.unsupervised else 0) if given["rounds"] == "auto" else int(given["rounds"]),
    )
