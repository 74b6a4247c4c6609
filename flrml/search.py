"""The choice of what the ``"ridge"`` variant leaves open, on rows that are held out.

The singular directions are those of all rows, found without any label; the Gram matrix that whitens is that of the
rows that are not judged, so that the overfitting of a small ridge shows. For each ridge one plane serves all else.
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
from flrml.supervision import Supervision

Form = tuple[float, float]  # ω and β

RIDGES = (0.03, 0.3, 3.0, 30.0)
FORMS: tuple[Form, ...] = ((0.9, 0.1), (1.0, 0.1), (0.0, 1.0))  # two of discriminants, and the data's own geometry
ROUNDS = 10  # the number that is tried
WORKING_ROWS = 20_000  # rows that are learned from: with too few, the search favours too large a ridge
CAUTION = 1.0  # standard errors by which discriminants must be better than a start from the data's own geometry
FAR = 3.0  # standard errors behind the best closed form that rounds are not expected to make good
HELD_OUT = 0.2  # share of the groups
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


@dataclass
class Trial:
    """A map in a plane, with the rows that judge it, and what made it."""

    plane: Plane
    judges: NDArray
    T: NDArray
    B: NDArray
    choice: Choice


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
    rows, held = known.hold_out(HELD_OUT, random)
    if len(held) == 0 or len(rows) == 0:  # too few rows to learn anything from
        return [Choice(ridges[len(ridges) // 2], *forms[len(forms) // 2], wanted or 0)]
    n = len(rows)
    rows, held = _at_most(WORKING_ROWS, rows, random), _at_most(MOST_HELD_OUT, held, random)
    learned_from, V, V_held = known.subset(rows), rows_of(spectrum, rows), rows_of(spectrum, held)
    F = explicit(V_held)
    tried: list[Choice] = []

    def judge(trial: Trial) -> Trial:
        score = known.score(trial.plane.images @ trial.B, rows, trial.judges @ trial.B, held)
        trial.choice = replace(trial.choice, score=score)
        tried.append(trial.choice)
        report(trial.choice)
        return trial

    @functools.cache
    def in_plane(ridge: float) -> tuple[Plane, NDArray, Callable[[float], NDArray]]:
        whitened = WhitenedRows(V, ridge, F, n)
        plane = Plane(whitened, learned_from, d)
        return plane, whitened.embed(plane.directions, V_held), functools.cache(plane.whitening)

    def closed_form(form: Form, ridge: float) -> Trial:
        plane, judges, whitening = in_plane(ridge)
        T = whitening(form[0])
        return judge(Trial(plane, judges, T, plane.solve(T, form[1]), Choice(ridge, *form)))

    def with_rounds(trial: Trial, number: int) -> Trial:
        B = trial.plane.rounds(trial.T, trial.B, number, margin, random)[0]
        return judge(replace(trial, B=B, choice=replace(trial.choice, rounds=number)))

    def caution(form: Form) -> Callable[[float], float]:
        """What another ridge must gain: rounds level small differences of the data's own geometry."""
        return lambda score: CAUTION * _error(score, known, held) if form[1] == 1 else 0.0

    only_start = len({local for _, local in forms}) == 1  # then rounds start from it, else from the own geometry
    geometries = [form for form in forms if form[1] == 1]
    only_geometry = geometries[0] if len(geometries) == 1 else None
    best: Trial | None = None
    for form in forms:
        enough = -np.inf if best is None else best.choice.score - FAR * _error(best.choice.score, known, held)
        if best is not None and form[1] == best.choice.local:  # differs in whitening alone: the ridge serves again
            trial = closed_form(form, best.choice.ridge)
        else:
            trial = _climb(functools.partial(closed_form, form), ridges, enough, caution(form))
        promising = trial.choice.score >= enough and (form[1] == 1 or only_start)
        if wanted is None and form == only_geometry and _wins(trial, best, known, held):
            tried.append(replace(trial.choice, rounds=ROUNDS))
        elif wanted or (wanted is None and promising):
            with_rounds(trial, wanted or ROUNDS)
        best = trial if best is None else max(best, trial, key=lambda trial: trial.choice.score)
    admitted = [choice for choice in tried if _admitted(choice, wanted)]
    spare = CAUTION * _error(max(choice.score for choice in admitted), known, held)
    return sorted(admitted, key=functools.partial(_rank, spare=spare), reverse=True)


def _error(score: float, known: Supervision, held: NDArray) -> float:
    """Standard error of a score on the rows held out, of which those of one group count as one."""
    return float(np.sqrt(score * (1 - score) / len(np.unique(known.groups[held]))))


def _wins(geometry: Trial, best: Trial | None, known: Supervision, held: NDArray) -> bool:
    """Whether the data's own geometry is chosen whatever its rounds gain: they need not be tried then."""
    if best is None:
        return True
    return geometry.choice.score + CAUTION * _error(best.choice.score, known, held) >= best.choice.score


def _admitted(choice: Choice, rounds: int | None) -> bool:
    """Whether the number of rounds is the wanted one; without labels (β = 1), rounds are needed to learn any."""
    return choice.rounds == rounds if rounds is not None else choice.rounds > 0 or choice.local < 1


def _rank(choice: Choice, spare: float = 0.0) -> tuple[float, float, int]:
    """Order of choices: by score; of equal ones, the larger ridge and then fewer rounds are safer.

    The data's own geometry is safer, too, and may be worse by ``spare``.
    """
    return choice.score + spare * (choice.local == 1), choice.ridge, -choice.rounds


def _climb(
    attempt: Callable[[float], Trial], ridges: list[float], enough: float, caution: Callable[[float], float]
) -> Trial:
    """Try the ridge in the middle, then larger ones while the score does not fall, else smaller ones.

    Nothing further is tried where the first score is not enough. Another ridge must be better by the caution; where
    there is none, of equal ones the larger ridge is safer.
    """
    middle = len(ridges) // 2
    best = first = attempt(ridges[middle])
    if first.choice.score < enough:
        return first
    for side in (ridges[middle + 1 :], ridges[:middle][::-1]):
        for ridge in side:
            trial = attempt(ridge)
            gain, needed = trial.choice.score - best.choice.score, caution(trial.choice.score)
            if gain < needed or (gain == 0 and ridge < best.choice.ridge):
                break
            best = trial
        if best is not first:
            break
    return best


def _at_most(most: int, rows: NDArray, random: np.random.RandomState) -> NDArray:
    return rows if len(rows) <= most else np.sort(random.choice(rows, most, replace=False))
