"""Check the claims of the paper's sections 3 and 4 on result files."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from flrml.files import read_json
from flrml.methods import METHODS
from flrml.paper import BATCH_TRIPLETS, MARGIN_RATIO, N_BATCHES, PEAK_GIGABYTES
from flrml.pipeline.layout import NOISE
from flrml.pipeline.report.results import exponent, read_sweep

# Points behind the best method: in the paper's own tables FLRML and M-FLRML are at most 1.9 behind.
COMPARABLE = 2.0
UNTESTED = "cannot be tested here"
NEAR_BEST = 1.0  # points behind the best of a sweep that still work well
LINEAR = 1.1  # exponent up to which growth counts as linear
LARGE = 10_000  # features times samples, in millions, from which a data set counts as large


@dataclass(frozen=True)
class Finding:
    """A measurement, and whether it agrees with the claim; None if it cannot be tested."""

    text: str
    agrees: bool | None = None


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, the check of it, and the figure that shows it."""

    section: str
    text: str
    check: Callable[["Evidence"], list[Finding]]
    figure: str | None = None

    def verdict(self, evidence: "Evidence") -> tuple[str, str]:
        """Return the measurement in words, and "agrees", "in part", "does not agree" or "cannot be tested here"."""
        found = [finding for finding in self.check(evidence) if finding.agrees is not None]
        if not found:
            return "no such run", UNTESTED
        agreeing = sum(bool(finding.agrees) for finding in found)
        word = "agrees" if agreeing == len(found) else "in part" if agreeing else "does not agree"
        return "; ".join(finding.text for finding in found), word


@dataclass
class Evidence:
    """Results that claims are checked on: runs, points of sweeps, growth, kinds of steps, seconds of each SVD."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    margin: list[dict[str, Any]] = field(default_factory=list)
    batches: list[dict[str, Any]] = field(default_factory=list)
    growth: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    svd_seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        runs: Iterable[str] = (),
        margin: Iterable[str] = (),
        batches: Iterable[str] = (),
        growth: Iterable[str] = (),
        steps: Iterable[str] = (),
        svd_seconds: dict[str, float] | None = None,
    ) -> "Evidence":
        """Read result files; what did not finish counts by its outcome alone."""
        sweeps = (read_sweep(margin, "margin_ratio"), read_sweep(batches, "batch_triplets"))
        return cls(
            [*map(read_json, runs)], *sweeps, [*map(read_json, growth)], [*map(read_json, steps)], svd_seconds or {}
        )

    @cached_property
    def finished(self) -> list[dict[str, Any]]:
        """The runs that came to a solution."""
        return [run for run in self.runs if run["outcome"] == "ok"]

    def means(self, quantity: str) -> dict[str, dict[str, float]]:
        """Return the mean of a quantity over seeds, by data set and method."""
        values: dict[str, dict[str, list[float]]] = {}
        for run in self.finished:
            values.setdefault(run["dataset"], {}).setdefault(run["method"], []).append(run[quantity])
        return {
            dataset: {method: float(np.mean(found)) for method, found in of_dataset.items()}
            for dataset, of_dataset in values.items()
        }


def rivals(name: str, methods: Iterable[str]) -> list[str]:
    """Return those of some methods that the paper lists in the table of a method, without the method itself."""
    own = METHODS[name]
    listed = (METHODS[method] for method in methods)
    return [m.name for m in listed if m.paper not in (None, own.paper) and m.table == own.table]


def _each(found: dict[str, tuple[str, bool]], head: str = "") -> list[Finding]:
    """Return one finding per name, the first with a head."""
    texts = [f"{name} {text}" for name, (text, _) in found.items()]
    return [
        Finding((head if number == 0 else "") + text, agrees)
        for number, (text, (_, agrees)) in enumerate(zip(texts, found.values(), strict=True))
    ]


def _times(ratio: float) -> str:
    """Return a ratio with two digits that count, or all before the point."""
    return f"{ratio:.0f} ×" if ratio >= 10 else f"{ratio:.2g} ×"


def _faster(name: str, of: str | None = None) -> Callable[[Evidence], list[Finding]]:
    def check(evidence: Evidence) -> list[Finding]:
        found = {}
        for dataset, seconds in evidence.means("train_seconds").items():
            others = [method for method in rivals(name, seconds) if of in (None, method)]
            if name in seconds and others:
                quickest = min(others, key=lambda method: seconds[method])
                ratio = seconds[quickest] / seconds[name]
                found[dataset] = _times(ratio) + ("" if of else f" ({METHODS[quickest].title})"), ratio >= 1
        rival = METHODS[of].title if of else "the fastest other"
        return _each(found, f"time of {rival} over that of {METHODS[name].title}: ")

    return check


def _comparable(name: str) -> Callable[[Evidence], list[Finding]]:
    def check(evidence: Evidence) -> list[Finding]:
        found = {}
        for dataset, accuracy in evidence.means("accuracy").items():
            others = rivals(name, accuracy)
            if name in accuracy and others:
                best = max(others, key=lambda method: accuracy[method])
                gap = 100 * (accuracy[name] - accuracy[best])
                text = f"{gap:+.1f} ({METHODS[best].title})".replace("-", "−")
                found[dataset] = text, gap >= -COMPARABLE
        return _each(found, f"points of {METHODS[name].title} above the best other: ")

    return check


def _highest(evidence: Evidence) -> list[Finding]:
    ahead = {
        f"{METHODS[name].title} on {dataset}": accuracy[name] > max(accuracy[method] for method in others)
        for dataset, accuracy in evidence.means("accuracy").items()
        for name in ("flrml", "mflrml")
        if name in accuracy and (others := rivals(name, accuracy))
    }
    best = [place for place, is_best in ahead.items() if is_best]
    return [Finding(f"highest: {', '.join(best) or 'nowhere'}", len(best) > 1)] if ahead else []


def _less_accurate(evidence: Evidence) -> list[Finding]:
    found = {
        dataset: (f"{100 * (a['mflrml'] - a['flrml']):+.1f}".replace("-", "−"), a["mflrml"] <= a["flrml"])
        for dataset, a in evidence.means("accuracy").items()
        if {"mflrml", "flrml"} <= set(a)
    }
    return _each(found, "points of M-FLRML above FLRML: ")


def _less_memory(evidence: Evidence) -> list[Finding]:
    found = {}
    seconds, memory = evidence.means("train_seconds"), evidence.means("peak_mb")
    for dataset, of_dataset in seconds.items():
        if {"mflrml", "flrml"} <= set(of_dataset):
            saved = [one[dataset]["flrml"] / one[dataset]["mflrml"] for one in (seconds, memory)]
            found[dataset] = f"{_times(saved[0])} the time, {_times(saved[1])} the memory", min(saved) >= 1
    return _each(found, "FLRML takes, relative to M-FLRML: ")


def _fits_memory(evidence: Evidence) -> list[Finding]:
    found = {}
    for run in evidence.finished:
        size = run.get("n", 0) * run.get("D", 0)
        if run["method"] == "mflrml" and size >= LARGE * 1e6:
            text = f"{run['peak_mb'] / 1024:.1f} GB, dense {8 * size / 2**30:,.0f} GB"
            found[run["dataset"]] = text, run["peak_mb"] / 1024 <= PEAK_GIGABYTES
    return _each(found, "peak of M-FLRML: ")


def _svd_is_longer(evidence: Evidence) -> list[Finding]:
    found = {
        dataset: (_times(evidence.svd_seconds[dataset] / s["flrml"]), evidence.svd_seconds[dataset] > s["flrml"])
        for dataset, s in evidence.means("train_seconds").items()
        if "flrml" in s and dataset in evidence.svd_seconds
    }
    return _each(found, "SVD over training of FLRML: ")


def _limited(evidence: Evidence) -> list[Finding]:
    others = [run for run in evidence.runs if METHODS[run["method"]].paper not in (None, "FLRML", "M-FLRML")]
    ended = [
        f"{METHODS[run['method']].title} on {run['dataset']} ({run['outcome']})"
        for run in others
        if run["outcome"] in ("M", "T")
    ]
    if not others:
        return []
    return [Finding(f"out of memory or time: {', '.join(dict.fromkeys(ended)) or 'none'}", bool(ended))]


def _start_rounds(evidence: Evidence) -> list[Finding]:
    return _range(evidence, "start_rounds", lambda most: most <= 3)


def _iterations(evidence: Evidence) -> list[Finding]:
    return _range(evidence, "n_iter", lambda most: most < 15)


def _range(evidence: Evidence, quantity: str, agrees: Callable[[int], bool]) -> list[Finding]:
    """Return the range of a count over data sets, with null steps if any, of FLRML and of the reference."""
    found = []
    for method in ("flrml", "flrml-reference"):
        runs = [run for run in evidence.finished if run["method"] == method and quantity in run]
        counts = [run[quantity] for run in runs]
        if counts:
            null = sum(run.get("null_steps", 0) for run in runs) if quantity == "n_iter" else 0
            aside = f", {null} of {sum(counts)} null steps" if null else ""
            text = f"{METHODS[method].title} {min(counts)}" + (f"–{max(counts)}" if len(set(counts)) > 1 else "")
            found.append(Finding(text + aside, agrees(max(counts))))
    return found


def _ratio_one(evidence: Evidence) -> list[Finding]:
    found = []
    for method in dict.fromkeys(result["method"] for result in evidence.margin):
        behind: dict[str, float] = {}
        for dataset in dict.fromkeys(result["dataset"] for result in evidence.margin):
            curve = {
                result["margin_ratio"]: 100 * float(np.mean([point["accuracy"] for point in result["points"]]))
                for result in evidence.margin
                if (result["dataset"], result["method"]) == (dataset, method)
            }
            if MARGIN_RATIO in curve:
                behind[dataset] = max(curve.values()) - curve[MARGIN_RATIO]
        if behind:
            near = sum(value <= NEAR_BEST for value in behind.values())
            worst = ", ".join(f"{dataset} {value:.1f}" for dataset, value in behind.items())
            text = f"{METHODS[method].title}: points behind the best ratio: {worst}"
            found.append(Finding(text, near > len(behind) / 2))
    return found


def _curves(evidence: Evidence) -> dict[tuple[str, str], dict[int, dict[int, float]]]:
    """Return mean accuracies in per cent by number of mini-batches, by data set and method, and by N_t."""
    curves: dict[tuple[str, str], dict[int, dict[int, float]]] = {}
    for result in evidence.batches:
        means = 100 * np.mean([point["accuracies"] for point in result["points"]], axis=0)
        curve = dict(zip(result["points"][0]["steps"], means, strict=True))
        curves.setdefault((result["dataset"], result["method"]), {})[result["batch_triplets"]] = curve
    return curves


def _larger_is_faster(evidence: Evidence) -> list[Finding]:
    """Compare accuracies after a quarter of the paper's mini-batches, from the smallest N_t to the largest."""
    found, early = [], N_BATCHES // 4
    for (dataset, method), by_size in _curves(evidence).items():
        sizes = sorted(by_size)
        if len(sizes) > 1 and all(early in curve for curve in by_size.values()):
            after = [by_size[size][early] for size in sizes]
            text = ", ".join(f"{size}: {value:.1f}" for size, value in zip(sizes, after, strict=True))
            rises = all(later >= earlier for earlier, later in pairwise(after))
            noise = "" if rises else _noise(evidence, dataset, method)
            found.append(
                Finding(f"{dataset}, {METHODS[method].title}, after {early} mini-batches: {text}{noise}", rises)
            )
    return found


def _noise(evidence: Evidence, dataset: str, method: str) -> str:
    """Say how many singular values of the largest mini-batches are noise, which whitening blows up."""
    of = [r for r in evidence.batches if (r["dataset"], r["method"]) == (dataset, method) and "batch" in r]
    if not of:
        return ""
    batch = max(of, key=lambda result: result["batch_triplets"])
    noise, count = batch["batch"]["noise"], batch["batch"]["singular_values"]
    if not noise:
        return ""
    return (
        f" (at N_t = {batch['batch_triplets']}, {noise} of the {count} singular values of a mini-batch are below "
        f"{NOISE:.0%} of the largest, noise that whitening gives the weight of the others)"
    )


def _twenty_suffice(evidence: Evidence) -> list[Finding]:
    found = []
    for (dataset, method), by_size in _curves(evidence).items():
        curve = by_size.get(BATCH_TRIPLETS, {})
        if N_BATCHES in curve and max(curve) > N_BATCHES:  # else nothing tells what more would give
            reached, best = curve[N_BATCHES], max(curve.values())
            text = f"{dataset}, {METHODS[method].title}: {reached:.1f} after {N_BATCHES}, best {best:.1f}"
            found.append(Finding(f"{text} of {max(curve)}", best - reached <= NEAR_BEST))
    return found


def _grows(method: str, axis: str) -> Callable[[Evidence], list[Finding]]:
    def check(evidence: Evidence) -> list[Finding]:
        of = [result for result in evidence.growth if (result["method"], result["axis"]) == (method, axis)]
        powers = [power for result in of if (power := exponent(result)) is not None]
        return [Finding(f"fitted exponent {power:.2f}".replace("-", "−"), power <= LINEAR) for power in powers]

    return check


def _steps(evidence: Evidence) -> list[Finding]:
    """Compare the objectives after as many iterations of both kinds, relative to the first."""
    found = {}
    for result in (result for result in evidence.steps if result["outcome"] == "ok"):
        objectives = [result["variants"]["flrml"]["objective"], result["retraction"]]
        count = min(len(objective) for objective in objectives) - 1
        own, other = (objective[count] for objective in objectives)
        first = objectives[0][0]
        text = f"{own / first:.3g} against {other / first:.3g} after {count} iterations"
        found[result["dataset"]] = text, own < other
    return _each(found, "objective over the first: ")


CLAIMS = (
    Claim("3.2", "The start of s settles within 3 rounds.", _start_rounds, "convergence"),
    Claim("3.2", "Barzilai–Borwein steps converge faster than projection and retraction.", _steps),
    Claim("3.2", "The cost of an iteration of FLRML is linear in n.", _grows("flrml", "n")),
    Claim("3.3", "The SVD takes longer than the optimisation.", _svd_is_longer),
    Claim("3.3", "The cost of a mini-batch of M-FLRML is linear in D.", _grows("mflrml", "D")),
    Claim("4.2", "FLRML is faster than every other method on the SVD.", _faster("flrml")),
    Claim("4.2", "M-FLRML is faster than every other method on the data.", _faster("mflrml")),
    Claim("4.2", "M-FLRML is faster than SGDINC, whose complexity is close.", _faster("mflrml", "sgdinc")),
    Claim("4.2", "The accuracy of FLRML is comparable with the best.", _comparable("flrml")),
    Claim("4.2", "The accuracy of M-FLRML is comparable with the best.", _comparable("mflrml")),
    Claim("4.2", "FLRML or M-FLRML has the highest accuracy on several data sets.", _highest),
    Claim("4.2", "M-FLRML is generally less accurate than FLRML.", _less_accurate),
    Claim("4.2", "M-FLRML takes less time and memory than FLRML.", _less_memory),
    Claim("4.2", "M-FLRML handles a million features in 6.2 GB.", _fits_memory),
    Claim("4.2", "Methods polynomial in D, n or the triplets fail on large data.", _limited),
    Claim("4.2", "The descent converges in fewer than 15 iterations.", _iterations, "convergence"),
    Claim("4.2", "A margin ratio about 1 works well on most data sets.", _ratio_one, "margin"),
    Claim("4.2", "A larger N_t makes the accuracy rise faster.", _larger_is_faster, "batches"),
    Claim("4.2", "20 mini-batches suffice.", _twenty_suffice, "batches"),
)


def caption(figure: str, paths: Iterable[str]) -> str:
    """Return a sentence per claim that a figure shows: the claim, and whether the runs of the figure agree."""
    kind = "runs" if figure == "convergence" else figure
    shown = [claim for claim in CLAIMS if claim.figure == figure]
    if not shown:
        return ""
    given: dict[str, Any] = {kind: list(paths)}
    evidence = Evidence.read(**given)
    words = []
    for claim in shown:
        measured, verdict = claim.verdict(evidence)
        words.append(f"The paper: {claim.text} Here: {measured}; {verdict}.")
    return "\n".join(words)
