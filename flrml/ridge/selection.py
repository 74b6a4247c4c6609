"""Choose the parameters of RidgeFLRML on validation rows, by grid search.

1. A fifth of the groups is held out; with few groups, 5-fold cross-validation is used. With many rows, a sample is
   searched. Validation rows take no part in the subspace, the whitening or the map.
2. Discriminants are tried with the powers of ten among the eigenvalues of the scatter as ridge, and every scale.
3. Unless they make far fewer errors than the cosine of X, the unsupervised form is tried as well, for two large
   ridges, without and with rounds.
4. Discriminants with scaled features and a ridge of 1 are chosen unless another candidate is better by more than a
   standard error; then the best one is.
5. If a sample was searched, the ridge of the unsupervised form and the number of rounds grow with the groups.

For new classes, each half of the classes is held out in turn, the score is MAP@R among their rows, and more forms
are tried, but no rounds. :class:`flrml.ridge.policy.SearchPolicy` has the limits.
"""

import functools
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import product
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
PSEUDO_DISAGREEMENTS = (
    2  # rows on which any two candidates count as different, so that a single row decides nothing
)


@dataclass(frozen=True, eq=False)
class Trial:
    """A candidate and its evaluation on validation rows.

    ``score`` is the mean score of a validation row, ``fold_scores`` that of each fold; ``decisions`` and
    ``neighbour_purity`` are those of each group, weighted by its size.
    """

    candidate: Candidate
    score: float = np.nan
    standard_error: float = np.nan
    fold_scores: NDArray = field(default_factory=lambda: np.empty(0), repr=False)
    decisions: NDArray = field(default_factory=lambda: np.empty(0), repr=False)
    neighbour_purity: NDArray = field(default_factory=lambda: np.full(1, np.nan), repr=False)

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
        train, validation = parts
        self.X, self.scaled, self.supervision, self.settings = X, scaled, supervision, settings
        self._train, self._subset = train, supervision.subset(train)
        most = 0 if supervision.new_classes else policy.max_reference_rows  # new classes are searched by themselves
        self.all = (draw_at_most(most, train, random), validation)
        self.sample = (
            draw_at_most(policy.max_cosine_reference_rows, self.all[0], random),
            draw_at_most(policy.max_cosine_validation_rows, validation, random),
        )
        self.seed = random.randint(2**31)
        # A cache of functools would refer back to the fold, which would then keep what workers hold for it.
        self._solvers: dict[Basis, Solver] = {}
        self._maps: dict[Candidate, NDArray] = {}

    def solver(self, basis: Basis) -> Solver:
        """Return the solver of the candidates of a basis."""
        if basis not in self._solvers:
            random = np.random.RandomState(self.seed)
            self._solvers[basis] = Solver(
                self.scaled(basis), self._subset, self._train, basis[0], self.settings, random
            )
        return self._solvers[basis]

    def solve(self, candidate: Candidate) -> NDArray:
        """Return the map of a candidate on the images."""
        if candidate not in self._maps:
            C = self.solver(candidate.basis).solve(candidate, np.random.RandomState(self.seed))[0]
            self._maps[candidate] = C.astype(self.X.dtype)
        return self._maps[candidate]

    def evaluate(self, candidate: Candidate | None, *, sample: bool) -> tuple[NDArray, NDArray, NDArray]:
        """Evaluate a candidate, or the cosine of X if it is None; see ``Supervision.evaluate``."""
        rows, validation = self.sample if sample else self.all
        if candidate is None:
            search = self.X.nearest if is_remote(self.X) else nearest
            Y, Y_validation = take_rows(self.X, rows), take_rows(self.X, validation)
            return self.supervision.evaluate(Y, rows, Y_validation, validation, search)
        images, C = self.solver(candidate.basis).subspace.images, self.solve(candidate)
        return self.supervision.evaluate(images[rows] @ C, rows, images[validation] @ C, validation)


class Selection:
    """Scores of candidates on the same folds, of few rows or many; ``report`` is called with every trial."""

    def __init__(self, folds: list[Fold], report: Callable[[Trial], None], few: bool):
        self.folds, self.report, self.few = folds, report, few
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

    def prefer(self, trials: list[Trial], simple: Trial | None) -> Trial:
        """Return the best trial, or the simple one if it is within a standard error of the best.

        The error is that of the difference, because both are evaluated on the same rows. Of few rows the neighbour
        purity is compared, which is less noisy than the votes.
        """
        by = "neighbour_purity" if self.few else "decisions"
        best = ordered(trials, by)[0]
        if simple is None:
            return best
        gain = getattr(best, by) - getattr(simple, by)
        return best if mean(gain) > standard_error(gain, PSEUDO_DISAGREEMENTS) else simple

    def _evaluate(self, candidate: Candidate | None, sample: bool) -> tuple[NDArray, NDArray, NDArray]:
        """Return the scores of the folds, and scores and purity of the groups, with the mean of all rows.

        Rows of one group are not independent, so the standard error is that of the means of groups.
        """
        found = [fold.evaluate(candidate, sample=sample) for fold in self.folds]
        scores, purity, group = (np.concatenate(parts) for parts in zip(*found, strict=True))
        _, number, size = np.unique(group, return_inverse=True, return_counts=True)
        weight = len(size) / max(size.sum(), 1)
        by_group = [np.bincount(number, values) * weight for values in (scores, purity)]
        return np.array([mean(part) for part, _, _ in found]), *by_group


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
    if forms[0].unsupervised and given["scale"] == "auto":
        given = given | {"scale": 0.0}
    default = Candidate(
        1.0 if given["ridge"] == "auto" else float(given["ridge"]),
        forms[0],
        policy.scales[0] if given["scale"] == "auto" else float(given["scale"]),
        settings.d,
        0 if given["rounds"] == "auto" else int(given["rounds"]),
    )
    if "auto" not in given.values():
        return [Trial(default)]
    searched, scaled, known = _searched_rows(X, scaled, supervision, settings, forms, policy, random)
    parts = validation_parts(
        known.folds(random),
        known.groups,
        random,
        cross_validate_below=np.inf if known.new_classes else policy.cross_validate_below,
        max_validation_rows=policy.max_validation_rows,
    )
    folds = [Fold(searched, scaled, known, pair, settings, policy, random) for pair in parts]
    if not folds:  # too few rows for a split
        return [Trial(default)]
    selection = Selection(folds, report, len(known.groups) < policy.cross_validate_below)
    chosen = _choose(selection, default, forms, given, policy)
    if any(form.unsupervised for form in forms) and selection.loss(chosen.candidate) > 1:
        warnings.warn(
            "on validation rows the cosine of X is better than the learned map by more than a standard error; "
            "raise n_components, or compare the rows of X as they are",
            FlrmlWarning,
            stacklevel=2,
        )
    if given["n_components"] == "auto":
        chosen = _fewest_directions(selection, chosen)
    growth, number = supervision.n_groups / known.n_groups, policy.rounds_for(supervision.n_groups)
    rest = (trial for trial in ordered(selection.trials) if trial is not chosen)
    return [_for_all_rows(trial, growth, number, given) for trial in (chosen, *rest)]


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
    selection: Selection, default: Candidate, forms: list[Form], given: dict[str, Any], policy: SearchPolicy
) -> Trial:
    """Return the best trial, or the default candidate's if that is within a standard error of it."""
    discriminants, unsupervised = ([form for form in forms if form.unsupervised == kind] for kind in (False, True))
    new_classes = selection.folds[0].supervision.new_classes  # rounds fit the classes that are known
    rounds = [policy.rounds] if given["rounds"] == "auto" and not new_classes else []
    best = _try_discriminants(selection, default, discriminants, given, policy) if discriminants else None
    if best is not None and not unsupervised:
        selection.score(replace(best.candidate, rounds=number) for number in rounds)
    bound = policy.cosine_error_ratio * selection.error_rate(None) if unsupervised and best is not None else 0.0
    if unsupervised and (best is None or selection.error_rate(best.candidate) > bound):
        start = default if given["scale"] != "auto" else replace(default, scale=0.0)
        starts = [replace(start, form=form) for form in unsupervised]
        if given["ridge"] == "auto":
            large = selection.folds[0].solver(starts[0].basis).ridges()[-1]
            starts = [replace(start, ridge=ridge) for start in starts for ridge in (large / 10, large * 10)]
        starts += [replace(start, rounds=number) for number in rounds for start in starts]
        selection.score(starts)
    simple = (trial for trial in selection.trials if trial.candidate == default)
    return selection.prefer(selection.trials, next(simple, None))


def _try_discriminants(
    selection: Selection, default: Candidate, forms: list[Form], given: dict[str, Any], policy: SearchPolicy
) -> Trial:
    """Score the first form with every scale and ridge, and the others with the best of them; return the best."""
    trials = []
    for scale in policy.scales if given["scale"] == "auto" else (default.scale,):
        start = replace(default, scale=scale)
        ridges = selection.folds[0].solver(start.basis).ridges() if given["ridge"] == "auto" else [default.ridge]
        trials += selection.score(replace(start, ridge=ridge) for ridge in ridges)
    best = selection.prefer(trials, next(trial for trial in trials if trial.candidate == default))
    others = selection.score(replace(best.candidate, form=form) for form in forms[1:])
    return selection.prefer([best, *others], best)


def _fewest_directions(selection: Selection, chosen: Trial) -> Trial:
    """Return the trial with the smallest number of directions within a standard error of the best."""
    candidate = chosen.candidate
    most = selection.folds[0].solver(candidate.basis).problem.d
    numbers = [2**power for power in range(2, most.bit_length()) if 2**power < most]
    trials = selection.score(replace(candidate, n_components=number) for number in (*numbers, most))
    best = selection.prefer(trials, None)
    return next(trial for trial in trials if selection.prefer([best, trial], trial) is trial)


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


def mean(values: NDArray) -> float:
    """Return the mean, 0 of no values."""
    return float(values.mean()) if len(values) else 0.0


def standard_error(values: NDArray, pseudo: int = 0) -> float:
    """Return the standard error of the mean, with ``pseudo`` added to the sum of the squares of the values."""
    return float(np.sqrt(np.var(values) + pseudo / len(values)) / np.sqrt(len(values))) if len(values) else 0.0


def _forms(policy: SearchPolicy, given: dict[str, Any], new_classes: bool) -> list[Form]:
    """Return the forms of the policy with the given values; if there are none, these with all of the policy's."""
    known = policy.forms(new_classes)
    forms = [
        form
        for form in known
        if given["within"] in ("auto", form.within) and given["local"] in ("auto", form.local)
    ]
    if forms:
        return forms
    within, local = (
        sorted({getattr(form, name) for form in known}) if given[name] == "auto" else [float(given[name])]
        for name in ("within", "local")
    )
    return [Form(*pair) for pair in product(within, local)]
