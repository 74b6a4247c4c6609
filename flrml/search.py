"""The choice of what the ``"ridge"`` variant leaves open, on rows that are held out.

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

from flrml.ridge import Choice, Plane, WhitenedRows, explicit, rows_of
from flrml.spectrum import Spectrum
from flrml.supervision import Parts, Supervision

Form = tuple[float, float]  # ω and β

RIDGES = (0.03, 0.3, 3.0, 30.0)
FORMS: tuple[Form, ...] = ((0.9, 0.1), (1.0, 0.1), (0.0, 1.0))  # two of discriminants, and the data's own geometry
ROUNDS = 10  # the number that is tried
WORKING_ROWS = 20_000  # rows that are learned from: with too few, the search favours too large a ridge
CAUTION = 1.0  # standard errors by which discriminants must be better than a start from the data's own geometry
FAR = 3.0  # standard errors behind the best closed form that rounds are not expected to make good
FOLDS = 5  # parts of the groups, one of which is held out,
FEW_ROWS = 2000  # or each of them in turn below so many rows, where that costs little
MOST_HELD_OUT = 2000  # rows of them that are judged: with half as many, chance decides between ridges on text


@dataclass(frozen=True)
class Candidates:
    """Values to try: of the ridge, of (ω, β), and the number of rounds, or None to try none and some."""

    ridges: tuple[float, ...] = RIDGES
    forms: tuple[Form, ...] = FORMS
    rounds: int | None = None

    @classmethod
    def of(cls, parameters: Any) -> "Candidates":
        """What parameters ``ridge``, ``within``, ``local`` and ``rounds``, numbers or "auto", leave open."""
        given = (parameters.within, parameters.local)
        forms = FORMS
        if given != ("auto", "auto"):
            # what is given goes with every value that the other has in some form
            withins, locals_ = (
                sorted(set(values)) if value == "auto" else [float(value)]
                for value, values in zip(given, zip(*FORMS, strict=True), strict=True)
            )
            forms = tuple(product(withins, locals_))
        return cls(
            RIDGES if parameters.ridge == "auto" else (float(parameters.ridge),),
            forms,
            None if parameters.rounds == "auto" else int(parameters.rounds),
        )


class Fold:
    """Rows to learn from and rows that judge, with one plane for each ridge.

    Parameters
    ----------
    spectrum, known
        All training rows and what is known of them.
    d : int
        Number of directions.
    rows, held : ndarray
        Numbers of the rows to learn from and of those that judge.
    n : int
        Number of rows that whiten, of which ``rows`` are a sample.
    """

    def __init__(self, spectrum: Spectrum, known: Supervision, d: int, rows: NDArray, held: NDArray, n: int):
        self.rows, self.held = rows, held
        self._known, self._learned_from, self._d, self._n = known, known.subset(rows), d, n
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
        key = (choice.ridge, choice.within)
        if key not in self._whitenings:
            self._whitenings[key] = self._plane(choice.ridge)[0].whitening(choice.within)
        return self._whitenings[key]

    def closed_form(self, choice: Choice) -> NDArray:
        """The map of a choice without rounds, in the plane."""
        return self._plane(choice.ridge)[0].solve(self._whitening(choice), choice.local)

    def rounds(self, choice: Choice, B: NDArray, margin: float, random: np.random.RandomState) -> NDArray:
        """That map after the choice's rounds."""
        T = self._whitening(choice)
        return self._plane(choice.ridge)[0].rounds(T, B, choice.rounds, margin, random)[0]

    def judge(self, choice: Choice, B: NDArray) -> tuple[int, int]:
        """How often a map is right about the rows that judge, and how often it is asked."""
        plane, judges = self._plane(choice.ridge)
        return self._known.judge(plane.images @ B, self.rows, judges @ B, self.held)


@dataclass(frozen=True)
class Trial:
    """A choice with its score, and its map in every fold."""

    choice: Choice
    maps: list[NDArray]


def folds(known: Supervision, random: np.random.RandomState) -> list[Parts]:
    """Rows to learn from and rows that judge: one part of them, and of few rows each fifth in turn."""
    few = len(known.groups) < FEW_ROWS
    parts = known.folds(FOLDS, random) if few else [known.hold_out(1 / FOLDS, random)]
    return [(rows, held) for rows, held in parts if len(rows) and len(held)]


def choose(
    spectrum: Spectrum,
    known: Supervision,
    d: int,
    margin: float,
    random: np.random.RandomState,
    candidates: Candidates,
    report: Callable[[Choice], None] = lambda choice: None,
) -> list[Choice]:
    """Try candidates on rows that are held out; return what was tried, the best first.

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
    candidates : Candidates
        What to try.
    report : callable
        Called with every trial.
    """
    ridges, forms, wanted = sorted(candidates.ridges), candidates.forms, candidates.rounds
    if len(ridges) == len(forms) == 1 and wanted is not None:
        return [Choice(ridges[0], *forms[0], wanted)]
    parts = [
        Fold(
            spectrum,
            known,
            d,
            _at_most(WORKING_ROWS, rows, random),
            _at_most(MOST_HELD_OUT, held, random),
            len(rows),
        )
        for rows, held in folds(known, random)
    ]
    if not parts:  # too few rows to learn anything from
        return [Choice(ridges[len(ridges) // 2], *forms[len(forms) // 2], wanted or 0)]
    # rows of one group count as one
    n_judges = sum(len(np.unique(known.groups[part.held])) for part in parts)
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
        choice = Choice(ridge, *form)
        return judge(choice, [part.closed_form(choice) for part in parts])

    def with_rounds(trial: Trial, number: int) -> Trial:
        choice, pairs = replace(trial.choice, rounds=number), zip(parts, trial.maps, strict=True)
        return judge(choice, [part.rounds(choice, B, margin, random) for part, B in pairs])

    def needed(form: Form) -> Callable[[float], float]:
        """What another ridge must gain: rounds level small differences of the data's own geometry."""
        return lambda score: CAUTION * error(score) if form[1] == 1 else 0.0

    only_start = len({local for _, local in forms}) == 1  # then rounds start from it, else from the own geometry
    geometries = [form for form in forms if form[1] == 1]
    only_geometry = geometries[0] if len(geometries) == 1 else None
    best: Choice | None = None
    for form in forms:
        enough = -np.inf if best is None else best.score - FAR * error(best.score)
        if best is not None and form[1] == best.local:  # differs in whitening alone: the ridge serves again
            trial = closed_form(form, best.ridge)
        else:
            trial = _climb(functools.partial(closed_form, form), ridges, enough, needed(form), error)
        promising = trial.choice.score >= enough and (form[1] == 1 or only_start)
        if (
            wanted is None
            and form == only_geometry
            and (best is None or _wins(trial.choice, best, CAUTION * error(best.score)))
        ):
            tried.append(replace(trial.choice, rounds=ROUNDS))
        elif wanted or (wanted is None and promising):
            with_rounds(trial, wanted or ROUNDS)
        best = trial.choice if best is None else max(best, trial.choice, key=lambda choice: choice.score)
    admitted = [choice for choice in tried if _admitted(choice, wanted)]
    spare = CAUTION * error(max(choice.score for choice in admitted))
    return sorted(admitted, key=functools.partial(_rank, spare=spare), reverse=True)


def _wins(geometry: Choice, best: Choice, spare: float) -> bool:
    """Whether the data's own geometry is chosen whatever its rounds gain: they need not be tried then."""
    return geometry.score + spare >= best.score


def _admitted(choice: Choice, rounds: int | None) -> bool:
    """Whether the number of rounds is the wanted one; without labels (β = 1), rounds are needed to learn any."""
    return choice.rounds == rounds if rounds is not None else choice.rounds > 0 or choice.local < 1


def _rank(choice: Choice, spare: float = 0.0) -> tuple[float, bool, float, int]:
    """Order of choices: by score; of equal ones, the larger ridge and then fewer rounds are safer.

    The data's own geometry is safer still, and may be worse by ``spare``.
    """
    own = choice.local == 1
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
