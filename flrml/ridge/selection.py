"""The choice of the parameters of RidgeFLRML on held-out rows.

The singular directions are those of all rows, found without any label; the Gram matrix that whitens is that of the
rows that do not judge, so that the overfitting of a small ridge shows. For each ridge one plane serves all else.
Of few rows, each fifth is held out in turn: a fifth alone would leave the choice to chance.
Two kinds of form compete: discriminants, a closed form, and the data's own geometry as a start for rounds.
Each climbs to its best ridge by its closed form. Rounds are tried where they can decide: not where the data's own
geometry wins without them, nor where it is hopelessly behind.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flrml.ridge.plane import Choice, Form, Plane, WhitenedRows, explicit, rows_of
from flrml.ridge.supervision import Parts, Supervision
from flrml.spectrum import Spectrum

RIDGES = (0.03, 0.3, 3.0, 30.0)
# Two forms of discriminants, and the data's own geometry.
FORMS: tuple[Form, ...] = (Form(0.9, 0.1), Form(1.0, 0.1), Form(0.0, 1.0))
ROUNDS = 10  # the number that is tried
FAR = 3.0  # standard errors behind the best closed form that rounds are not expected to make up for
FOLDS = 5  # parts of the groups


@dataclass(frozen=True)
class Effort:
    """How much is spent on the choice.

    Attributes
    ----------
    few_rows : int
        Below this many rows each fold is held out in turn, else one of them.
    working_rows : int
        Rows to learn from, at most. Too few favour too large a ridge.
    held_out_rows : int
        Rows to validate on, at most.
    caution : float
        Ties within this many standard errors go to the unsupervised start.
    """

    few_rows: int = 2000
    working_rows: int = 20_000
    held_out_rows: int = 2000
    caution: float = 1.0


@dataclass(frozen=True)
class Candidates:
    """Values to try: of the ridge, of the form, and the number of rounds, or None to try none and some."""

    ridges: tuple[float, ...] = RIDGES
    forms: tuple[Form, ...] = FORMS
    rounds: int | None = None

    @classmethod
    def of(cls, ridge: Any, within: Any, local: Any, rounds: Any) -> "Candidates":
        """Return the candidates that parameters, numbers or "auto", leave open."""
        forms = FORMS
        if (within, local) != ("auto", "auto"):
            # what is given goes with every value that the other has in some form
            withins = sorted({form.within for form in FORMS}) if within == "auto" else [float(within)]
            locals_ = sorted({form.local for form in FORMS}) if local == "auto" else [float(local)]
            forms = tuple(Form(*pair) for pair in product(withins, locals_))
        return cls(RIDGES if ridge == "auto" else (float(ridge),), forms, None if rounds == "auto" else int(rounds))


class Fold:
    """Rows to learn from and rows that judge, with one plane for each ridge.

    Parameters
    ----------
    spectrum, supervision
        All training rows and what is supervision of them.
    d : int
        Number of directions.
    rows, held : ndarray
        Numbers of the rows to learn from and of those that judge.
    n : int
        Number of rows that whiten, of which ``rows`` are a sample.
    """

    def __init__(self, spectrum: Spectrum, supervision: Supervision, d: int, rows: NDArray, held: NDArray, n: int):
        self.rows, self.held = rows, held
        self._supervision, self._learned_from, self._d, self._n = supervision, supervision.subset(rows), d, n
        self._V, self._V_held = rows_of(spectrum, rows), rows_of(spectrum, held)
        self._F = explicit(self._V_held)
        self._planes: dict[float, tuple[Plane, NDArray]] = {}
        self._whitenings: dict[tuple[float, float], NDArray] = {}

    def _plane(self, ridge: float) -> tuple[Plane, NDArray]:
        """The plane, and the rows that judge in it."""
        if ridge not in self._planes:
            whitened = WhitenedRows(self._V, ridge, self._F, self._n)
            plane = Plane(whitened, self._learned_from, self._d)
            self._planes[ridge] = plane, whitened.embed(plane.directions, self._V_held)
        return self._planes[ridge]

    def _whitening(self, choice: Choice) -> NDArray:
        key = (choice.ridge, choice.form.within)
        if key not in self._whitenings:
            self._whitenings[key] = self._plane(choice.ridge)[0].whitening(choice.form.within)
        return self._whitenings[key]

    def closed_form(self, choice: Choice) -> NDArray:
        """The map of a choice without rounds, in the plane."""
        return self._plane(choice.ridge)[0].solve(self._whitening(choice), choice.form.local)

    def rounds(self, choice: Choice, B: NDArray, margin: float, random: np.random.RandomState) -> NDArray:
        """That map after the choice's rounds."""
        T = self._whitening(choice)
        return self._plane(choice.ridge)[0].rounds(T, B, choice.rounds, margin, random)[0]

    def judge(self, choice: Choice, B: NDArray) -> tuple[int, int]:
        """How often a map is right about the rows that judge, and how often it is asked."""
        plane, judges = self._plane(choice.ridge)
        return self._supervision.judge(plane.images @ B, self.rows, judges @ B, self.held)


@dataclass(frozen=True)
class Trial:
    """A choice with its score, and its map in every fold."""

    choice: Choice
    maps: list[NDArray]


def folds(supervision: Supervision, random: np.random.RandomState, few_rows: int = Effort.few_rows) -> list[Parts]:
    """Rows to learn from and rows that judge: one part of them, and of few rows each fifth in turn."""
    few = len(supervision.groups) < few_rows
    parts = supervision.folds(FOLDS, random) if few else [supervision.hold_out(1 / FOLDS, random)]
    return [(rows, held) for rows, held in parts if len(rows) and len(held)]


def choose(
    spectrum: Spectrum,
    supervision: Supervision,
    d: int,
    margin: float,
    random: np.random.RandomState,
    candidates: Candidates,
    report: Callable[[Choice], None] = lambda choice: None,
    effort: Effort = Effort(),  # noqa: B008 - frozen
) -> list[Choice]:
    """Try candidates on rows that are held out; return what was tried, the best first.

    Parameters
    ----------
    spectrum, supervision
        All training rows and what is supervision of them.
    d : int
        Number of directions.
    margin : float
        Margin of the cosine.
    random : RandomState
        Draws the rows.
    candidates : Candidates
        What to try.
    report : callable
        Called with every trial.
    effort : Effort
        Sizes of the trials.
    """
    ridges, forms, wanted = sorted(candidates.ridges), candidates.forms, candidates.rounds
    if len(ridges) == len(forms) == 1 and wanted is not None:
        return [Choice(ridges[0], forms[0], wanted)]
    parts = [
        Fold(
            spectrum,
            supervision,
            d,
            _at_most(effort.working_rows, rows, random),
            _at_most(effort.held_out_rows, held, random),
            len(rows),
        )
        for rows, held in folds(supervision, random, effort.few_rows)
    ]
    if not parts:  # too few rows to learn anything from
        return [Choice(ridges[len(ridges) // 2], forms[len(forms) // 2], wanted or 0)]
    # rows of one group count as one
    n_judges = sum(len(np.unique(supervision.groups[part.held])) for part in parts)
    tried: list[Choice] = []

    def error(score: float) -> float:
        return float(np.sqrt(score * (1 - score) / n_judges))

    def judge(choice: Choice, maps: list[NDArray]) -> Trial:
        right, asked = np.sum([part.judge(choice, B) for part, B in zip(parts, maps, strict=True)], axis=0)
        choice = replace(choice, score=float(right / max(asked, 1)))
        tried.append(choice)
        report(choice)
        return Trial(choice, maps)

    def closed_form(form: Form, ridge: float) -> Trial:
        choice = Choice(ridge, form)
        return judge(choice, [part.closed_form(choice) for part in parts])

    def with_rounds(trial: Trial, number: int) -> Trial:
        choice, pairs = replace(trial.choice, rounds=number), zip(parts, trial.maps, strict=True)
        return judge(choice, [part.rounds(choice, B, margin, random) for part, B in pairs])

    def needed(form: Form) -> Callable[[float], float]:
        """What another ridge must gain: rounds level small differences of the data's own geometry."""
        return lambda score: effort.caution * error(score) if form.unsupervised else 0.0

    only_start = len({form.local for form in forms}) == 1  # then rounds start from it, else from the own geometry
    geometries = [form for form in forms if form.unsupervised]
    only_geometry = geometries[0] if len(geometries) == 1 else None
    best: Choice | None = None
    for form in forms:
        enough = -np.inf if best is None else best.score - FAR * error(best.score)
        if best is not None and form.local == best.form.local:  # differs in whitening alone: the ridge serves again
            trial = closed_form(form, best.ridge)
        else:
            trial = _climb(functools.partial(closed_form, form), ridges, enough, needed(form), error)
        promising = trial.choice.score >= enough and (form.unsupervised or only_start)
        if (
            wanted is None
            and form == only_geometry
            and (best is None or _wins(trial.choice, best, effort.caution * error(best.score)))
        ):
            tried.append(replace(trial.choice, rounds=ROUNDS))
        elif wanted or (wanted is None and promising):
            with_rounds(trial, wanted or ROUNDS)
        best = trial.choice if best is None else max(best, trial.choice, key=lambda choice: choice.score)
    admitted = [choice for choice in tried if _admitted(choice, wanted)]
    spare = effort.caution * error(max(choice.score for choice in admitted))
    return sorted(admitted, key=functools.partial(_rank, spare=spare), reverse=True)


def _wins(geometry: Choice, best: Choice, spare: float) -> bool:
    """Whether the data's own geometry is chosen whatever its rounds gain: they need not be tried then."""
    return geometry.score + spare >= best.score


def _admitted(choice: Choice, rounds: int | None) -> bool:
    """Whether the number of rounds is the wanted one; without labels (β = 1), rounds are needed to learn any."""
    return choice.rounds == rounds if rounds is not None else choice.rounds > 0 or not choice.form.unsupervised


def _rank(choice: Choice, spare: float = 0.0) -> tuple[float, bool, float, int]:
    """Order of choices: by score; of equal ones, the larger ridge and then fewer rounds are safer.

    The data's own geometry is safer still, and may be worse by ``spare``.
    """
    own = choice.form.unsupervised
    return choice.score + spare * own, own, choice.ridge, -choice.rounds


def _climb(
    attempt: Callable[[float], Trial],
    ridges: list[float],
    enough: float,
    needed: Callable[[float], float],
    error: Callable[[float], float],
) -> Trial:
    """Try the ridge in the middle, then larger ones while the score does not fall, else smaller ones.

    Nothing further is tried where the first score is not enough. Another ridge must gain what is needed; where that
    is nothing, of equal ones the larger ridge is safer. Smaller ones are tried, too, where larger ones gain less
    than a standard error: where these are all as good as guessing, chance would bar the way to the right one.
    """
    middle = len(ridges) // 2
    best = first = attempt(ridges[middle])
    if first.choice.score < enough:
        return first
    for side in (ridges[middle + 1 :], ridges[:middle][::-1]):
        for ridge in side:
            trial = attempt(ridge)
            gain = trial.choice.score - best.choice.score
            if gain < needed(trial.choice.score) or (gain == 0 and ridge < best.choice.ridge):
                break
            best = trial
        if best.choice.score - first.choice.score > error(first.choice.score):
            break
    return best


def _at_most(most: int, rows: NDArray, random: np.random.RandomState) -> NDArray:
    return rows if len(rows) <= most else np.sort(random.choice(rows, most, replace=False))
