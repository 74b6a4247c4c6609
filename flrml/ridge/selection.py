"""Choose the parameters of RidgeFLRML on validation rows, by grid search.

1. A fifth of the groups is held out; with few groups, 5-fold cross-validation is used. With many rows, a sample is
   searched. Validation rows take no part in the subspace, the whitening or the map.
2. Discriminants are tried with every power of ten among the eigenvalues of the scatter as ridge. By the
   one-standard-error rule the ridge is 1 unless another one is better by more than a standard error; then it is the
   best of that one and its neighbouring half powers of ten. In cross-validation the neighbour purity is compared,
   which is less noisy than the votes.
3. The cosine of X itself is evaluated on a sample. If discriminants make far fewer errors, they are chosen.
4. Otherwise the unsupervised form is tried as well, for two large ridges, without and with rounds. The best of
   these four is chosen if it is better than the discriminants, the simpler model, by more than two standard errors;
   or if it is better at all and the discriminants are worse than the cosine of X by more than one.
5. If a sample was searched, the ridge of the unsupervised form and the number of rounds grow with the groups.

:class:`flrml.ridge.policy.SearchPolicy` has the thresholds.
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
from flrml.ridge.candidates import Candidate, Form, Settings
from flrml.ridge.policy import SearchPolicy
from flrml.ridge.scaling import ScaledRows, is_remote
from flrml.ridge.solver import Solver, scaled_for
from flrml.ridge.supervision import Contrasts, Supervision
from flrml.rows import take_rows
from flrml.rows.wide import is_wide, with_inner_products


@dataclass(frozen=True, eq=False)
class Trial:
    """A candidate and its evaluation on validation rows.

    ``score`` is the share of correct decisions, ``fold_scores`` that of each fold; ``decisions`` and
    ``neighbour_purity`` are those of each group, weighted by its size.
    """

    candidate: Candidate
    score: float = np.nan
    standard_error: float = np.nan
    fold_scores: NDArray = field(default_factory=lambda: np.empty(0), repr=False)
    decisions: NDArray = field(default_factory=lambda: np.empty(0), repr=False)
    neighbour_purity: NDArray = field(default_factory=lambda: np.full(1, np.nan), repr=False)

    @property
    def params(self) -> dict[str, float]:
        """The candidate as parameters of :class:`flrml.RidgeFLRML`."""
        candidate, form = self.candidate, self.candidate.form
        return {"ridge": candidate.ridge, "within": form.within, "local": form.local, "rounds": candidate.rounds}

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
        scaled: Callable[[bool], ScaledRows],
        supervision: Supervision,
        parts: Parts,
        settings: Settings,
        policy: SearchPolicy,
        random: np.random.RandomState,
    ):
        train, validation = parts
        self.X, self.scaled, self.supervision, self.settings = X, scaled, supervision, settings
        self._train, self._subset = train, supervision.subset(train)
        self.all = (draw_at_most(policy.max_reference_rows, train, random), validation)
        sample = (
            draw_at_most(policy.max_cosine_reference_rows, self.all[0], random),
            draw_at_most(policy.max_cosine_validation_rows, validation, random),
        )
        self.sample = self.all if len(supervision.groups) < policy.sample_cosine_from_rows else sample
        self.seed = random.randint(2**31)
        # A cache of functools would refer back to the fold, which would then keep what workers hold for it.
        self._solvers: dict[bool, Solver] = {}
        self._maps: dict[Candidate, NDArray] = {}

    def solver(self, unsupervised: bool) -> Solver:
        """Return the solver of discriminants, or that of the unsupervised form."""
        if unsupervised not in self._solvers:
            random = np.random.RandomState(self.seed)
            self._solvers[unsupervised] = Solver(
                self.scaled(unsupervised), self._subset, self._train, unsupervised, self.settings, random
            )
        return self._solvers[unsupervised]

    def solve(self, candidate: Candidate) -> NDArray:
        """Return the map of a candidate on the images."""
        if candidate not in self._maps:
            solver = self.solver(candidate.form.unsupervised)
            C = solver.solve(candidate, np.random.RandomState(self.seed))[0]
            self._maps[candidate] = C.astype(self.X.dtype)
        return self._maps[candidate]

    def evaluate(self, candidate: Candidate | None, *, sample: bool) -> tuple[NDArray, NDArray, NDArray]:
        """Evaluate a candidate, or the cosine of X if it is None; see ``Supervision.evaluate``."""
        rows, validation = self.sample if sample else self.all
        if candidate is None:
            search = self.X.nearest if is_remote(self.X) else nearest
            Y, Y_validation = take_rows(self.X, rows), take_rows(self.X, validation)
            return self.supervision.evaluate(Y, rows, Y_validation, validation, search)
        images, C = self.solver(candidate.form.unsupervised).subspace.images, self.solve(candidate)
        return self.supervision.evaluate(images[rows] @ C, rows, images[validation] @ C, validation)


class Selection:
    """Scores of candidates on the same folds; ``report`` is called with every trial."""

    def __init__(self, folds: list[Fold], report: Callable[[Trial], None]):
        self.folds, self.report = folds, report
        self.trials: list[Trial] = []
        self._by_sample: dict[Candidate | None, NDArray] = {}

    def score(self, candidates: Iterable[Candidate]) -> list[Trial]:
        """Evaluate candidates on the validation rows."""
        scored = []
        for candidate in candidates:
            fold_scores, decisions, purity = self._evaluate(candidate, False)
            error = standard_error(decisions)
            scored.append(Trial(candidate, mean(decisions), error, fold_scores, decisions, purity))
            self.report(scored[-1])
        self.trials.extend(scored)
        return scored

    def error_rate(self, candidate: Candidate | None) -> float:
        """Return the error rate of a candidate on the sample; None is the cosine of X."""
        decisions = self._sample_decisions(candidate)
        return float(1 - decisions.mean()) if len(decisions) else 0.0

    def loss(self, candidate: Candidate) -> float:
        """Return by how many standard errors a candidate is worse than the cosine of X on the sample."""
        loss = self._sample_decisions(None) - self._sample_decisions(candidate)
        return float(loss.mean() / max(standard_error(loss), np.finfo(np.float64).tiny)) if len(loss) else 0.0

    def _sample_decisions(self, candidate: Candidate | None) -> NDArray:
        if candidate not in self._by_sample:
            self._by_sample[candidate] = self._evaluate(candidate, True)[1]
        return self._by_sample[candidate]

    def _evaluate(self, candidate: Candidate | None, sample: bool) -> list[NDArray[np.float64]]:
        """Return the scores of the folds, and correct decisions and neighbour purity by group, with mean 1 at best.

        Rows of one group are not independent, so the standard error is that of the means of groups.
        """
        found = [fold.evaluate(candidate, sample=sample) for fold in self.folds]
        correct, purity, group = (np.concatenate(parts) for parts in zip(*found, strict=True))
        _, number, size = np.unique(group, return_inverse=True, return_counts=True)
        weight = len(size) / max(size.sum(), 1)
        by_group = [np.bincount(number, values) * weight for values in (correct, purity)]
        return [np.array([mean(part) for part, _, _ in found]), *by_group]


def select(
    X: Any,
    scaled: Callable[[bool], ScaledRows],
    supervision: Contrasts,
    settings: Settings,
    given: dict[str, Any],
    random: np.random.RandomState,
    *,
    policy: SearchPolicy = SearchPolicy(),  # noqa: B008  # frozen
    report: Callable[[Trial], None] = lambda trial: None,
) -> list[Trial]:
    """Evaluate candidates on validation rows; return all trials, the chosen one first and the others by score.

    Of remote rows X, a sample is searched. ``scaled`` returns the rows scaled, for discriminants or, if called with
    True, for the unsupervised form. ``given`` has ``ridge``, ``within``, ``local`` and ``rounds``, each a number or
    "auto". ``report`` is called with every trial.
    """
    forms = [form for form in policy.forms if _agrees(form, given)] or _given_forms(policy, given)
    rounds = 0 if given["rounds"] == "auto" else int(given["rounds"])
    default = Candidate(1.0 if given["ridge"] == "auto" else float(given["ridge"]), forms[0], rounds)
    if "auto" not in given.values():
        return [Trial(default)]
    searched, scaled, known = _searched_rows(X, scaled, supervision, settings, forms, policy, random)
    parts = validation_parts(
        known.folds(random),
        known.groups,
        random,
        cross_validate_below_groups=policy.cross_validate_below_groups,
        max_validation_rows=policy.max_validation_rows,
    )
    folds = [Fold(searched, scaled, known, pair, settings, policy, random) for pair in parts]
    if not folds:  # too few rows for a split
        return [Trial(default)]
    selection = Selection(folds, report)
    chosen = _choose(selection, default, forms, given, policy)
    if any(form.unsupervised for form in forms) and selection.loss(chosen.candidate) > 1:
        warnings.warn(
            "on validation rows the cosine of X is better than the learned map by more than a standard error; "
            "raise n_components, or compare the rows of X as they are",
            FlrmlWarning,
            stacklevel=2,
        )
    growth, number = supervision.n_groups / known.n_groups, policy.rounds_for(supervision.n_groups)
    rest = (trial for trial in ordered(selection.trials) if trial is not chosen)
    return [_for_all_rows(trial, growth, number, given) for trial in (chosen, *rest)]


def _searched_rows(
    X: Any,
    scaled: Callable[[bool], ScaledRows],
    supervision: Contrasts,
    settings: Settings,
    forms: list[Form],
    policy: SearchPolicy,
    random: np.random.RandomState,
) -> tuple[Any, Callable[[bool], ScaledRows], Supervision]:
    """Return the rows to search with, scaled, and their supervision: all rows, or a sample of them."""
    most = policy.max_search_rows
    if X.shape[0] > most or is_remote(X):
        rows = supervision.draw(min(most, X.sample_rows) if is_remote(X) else most, random)
        sample = X.sample(rows) if is_remote(X) else take_rows(X, rows)
        return sample, functools.cache(lambda kind: scaled_for(sample, kind, settings)), supervision.subset(rows)
    if is_wide(X.shape) and any(form.unsupervised for form in forms) and scaled(True).is_plain:
        X = with_inner_products(scaled(True).gram).astype(X.dtype)
    return X, scaled, cast(Supervision, supervision)


def _choose(
    selection: Selection, default: Candidate, forms: list[Form], given: dict[str, Any], policy: SearchPolicy
) -> Trial:
    """Return the trial of the best candidate; ties within some standard errors go to the discriminants."""
    discriminants, unsupervised = ([form for form in forms if form.unsupervised == kind] for kind in (False, True))
    simple: Trial | None = None
    rivals: list[Trial] = []
    if discriminants:
        simple = _try_discriminants(selection, default, discriminants, given, policy)
        if given["rounds"] == "auto" and not unsupervised:
            rivals = selection.score([replace(simple.candidate, rounds=policy.rounds)])
    bound = policy.cosine_error_ratio * selection.error_rate(None) if unsupervised and simple is not None else 0.0
    if unsupervised and (simple is None or selection.error_rate(simple.candidate) > bound):
        large = selection.folds[0].solver(True).ridges()[-1]
        ridges = [large / 10, large * 10] if given["ridge"] == "auto" else [default.ridge]
        starts = [replace(default, ridge=ridge, form=form) for form in unsupervised for ridge in ridges]
        if given["rounds"] == "auto":
            starts += [replace(start, rounds=policy.rounds) for start in starts]
        rivals = selection.score(starts)
    trials = rivals if simple is None else [simple, *rivals]
    if unsupervised and simple is not None and selection.loss(simple.candidate) > 1:
        simple = None  # worse than the cosine of X, so it is not preferred
    return prefer_simple(trials, simple, policy, policy.standard_errors_to_switch)


def _try_discriminants(
    selection: Selection, default: Candidate, forms: list[Form], given: dict[str, Any], policy: SearchPolicy
) -> Trial:
    """Score the first form with a grid of ridges, and the others with the best of them; return the best."""
    first, solver = replace(default, form=forms[0]), selection.folds[0].solver(False)
    # With many rows, pure neighbourhoods mislead.
    by = "neighbour_purity" if len(selection.folds) > 1 else "decisions"
    if given["ridge"] == "auto":
        trials = selection.score(replace(first, ridge=ridge) for ridge in solver.ridges())
        simple = next(trial for trial in trials if trial.candidate.ridge == 1)
        best = prefer_simple(trials, simple, policy, by=by)
        if best is not simple:
            half = [replace(first, ridge=best.candidate.ridge * 10**power) for power in (-0.5, 0.5)]
            best = ordered([best, *selection.score(half)], by)[0]
    else:
        (best,) = selection.score([first])
    others = [replace(best.candidate, form=form) for form in forms[1:]]
    return ordered([best, *selection.score(others)])[0]


def _for_all_rows(trial: Trial, growth: float, number: int, given: dict[str, Any]) -> Trial:
    """Return a trial with the ridge for ``growth`` times as many groups as were searched, and a number of rounds.

    The ridge of the unsupervised form keeps its ratio to the scatter. More rows of the same groups do not count.
    """
    candidate = trial.candidate
    if given["ridge"] == "auto" and candidate.form.unsupervised:
        candidate = replace(candidate, ridge=candidate.ridge * growth)
    if given["rounds"] == "auto" and candidate.rounds:
        candidate = replace(candidate, rounds=number)
    return replace(trial, candidate=candidate)


def ordered(trials: list[Trial], by: str = "decisions") -> list[Trial]:
    """Order trials by the mean of their decisions or neighbour purity; ties go to the larger ridge."""
    return sorted(trials, key=lambda trial: (mean(getattr(trial, by)), trial.candidate.ridge), reverse=True)


def prefer_simple(
    trials: list[Trial], simple: Trial | None, policy: SearchPolicy, errors: float = 1, by: str = "decisions"
) -> Trial:
    """Return the best trial, or the simple one if it is within that many standard errors of the best.

    The error is that of the difference, because both are evaluated on the same rows.
    """
    best = ordered(trials, by)[0]
    if simple is None:
        return best
    gain = getattr(best, by) - getattr(simple, by)
    return best if mean(gain) > errors * standard_error(gain, policy.pseudo_disagreements) else simple


def mean(values: NDArray) -> float:
    """Return the mean, 0 of no values."""
    return float(values.mean()) if len(values) else 0.0


def standard_error(values: NDArray, pseudo: int = 0) -> float:
    """Return the standard error of the mean, with ``pseudo`` added to the sum of the squares of the values."""
    return float(np.sqrt(np.var(values) + pseudo / len(values)) / np.sqrt(len(values))) if len(values) else 0.0


def _agrees(form: Form, given: dict[str, Any]) -> bool:
    return all(given[name] in ("auto", getattr(form, name)) for name in ("within", "local"))


def _given_forms(policy: SearchPolicy, given: dict[str, Any]) -> list[Form]:
    """Return forms with a given value that the policy does not have; the other one takes each of its values."""

    def values(name: str) -> list[float]:
        known = sorted({getattr(form, name) for form in policy.forms})
        return known if given[name] == "auto" else [float(given[name])]

    return [Form(within, local) for local in values("local") for within in values("within")]
