"""Check the claims of the paper's sections 3 and 4 on result files."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from flrml.methods import METHODS
from flrml.paper import BATCH_TRIPLETS, MARGIN_RATIO, N_BATCHES, PEAK_GIGABYTES
from flrml.pipeline.report.results import Results, exponent, title
from flrml.pipeline.report.table import Cell, Table, minus

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
    check: Callable[[Results], list[Finding]]
    figure: str | None = None

    def verdict(self, results: Results) -> tuple[str, str]:
        """Return the measurement in words, and "agrees", "in part", "does not agree" or "cannot be tested here"."""
        found = [finding for finding in self.check(results) if finding.agrees is not None]
        if not found:
            return "no such run", UNTESTED
        agreeing = sum(bool(finding.agrees) for finding in found)
        word = "agrees" if agreeing == len(found) else "in part" if agreeing else "does not agree"
        return "; ".join(finding.text for finding in found), word


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


def _faster(name: str, of: str | None = None) -> Callable[[Results], list[Finding]]:
    def check(results: Results) -> list[Finding]:
        found = {}
        for dataset, seconds in results.means("train_seconds").items():
            others = [method for method in rivals(name, seconds) if of in (None, method)]
            if name in seconds and others:
                quickest = min(others, key=lambda method: seconds[method])
                ratio = seconds[quickest] / seconds[name]
                found[dataset] = _times(ratio) + ("" if of else f" ({title(quickest)})"), ratio >= 1
        rival = title(of) if of else "the fastest other"
        return _each(found, f"time of {rival} over that of {title(name)}: ")

    return check


def _comparable(name: str) -> Callable[[Results], list[Finding]]:
    def check(results: Results) -> list[Finding]:
        found = {}
        for dataset, accuracy in results.means("accuracy").items():
            others = rivals(name, accuracy)
            if name in accuracy and others:
                best = max(others, key=lambda method: accuracy[method])
                gap = 100 * (accuracy[name] - accuracy[best])
                found[dataset] = f"{minus(f'{gap:+.1f}')} ({title(best)})", gap >= -COMPARABLE
        return _each(found, f"points of {title(name)} above the best other: ")

    return check


def _highest(results: Results) -> list[Finding]:
    ahead = {
        f"{title(name)} on {dataset}": accuracy[name] > max(accuracy[method] for method in others)
        for dataset, accuracy in results.means("accuracy").items()
        for name in ("flrml", "mflrml")
        if name in accuracy and (others := rivals(name, accuracy))
    }
    best = [place for place, is_best in ahead.items() if is_best]
    return [Finding(f"highest: {', '.join(best) or 'nowhere'}", len(best) > 1)] if ahead else []


def _less_accurate(results: Results) -> list[Finding]:
    found = {
        dataset: (minus(f"{100 * (a['mflrml'] - a['flrml']):+.1f}"), a["mflrml"] <= a["flrml"])
        for dataset, a in results.means("accuracy").items()
        if {"mflrml", "flrml"} <= set(a)
    }
    return _each(found, "points of M-FLRML above FLRML: ")


def _less_memory(results: Results) -> list[Finding]:
    found = {}
    seconds, memory = results.means("train_seconds"), results.means("peak_mb")
    for dataset, of_dataset in seconds.items():
        if {"mflrml", "flrml"} <= set(of_dataset):
            saved = [one[dataset]["flrml"] / one[dataset]["mflrml"] for one in (seconds, memory)]
            found[dataset] = f"{_times(saved[0])} the time, {_times(saved[1])} the memory", min(saved) >= 1
    return _each(found, "FLRML takes, relative to M-FLRML: ")


def _fits_memory(results: Results) -> list[Finding]:
    found = {}
    for run in results.finished:
        size = run.get("n", 0) * run.get("D", 0)
        if run["method"] == "mflrml" and size >= LARGE * 1e6:
            text = f"{run['peak_mb'] / 1024:.1f} GB, dense {8 * size / 2**30:,.0f} GB"
            found[run["dataset"]] = text, run["peak_mb"] / 1024 <= PEAK_GIGABYTES
    return _each(found, "peak of M-FLRML: ")


def _svd_is_longer(results: Results) -> list[Finding]:
    found = {}
    for dataset, seconds in results.means("train_seconds").items():
        decomposed = results.svd_seconds(dataset, "flrml")
        if "flrml" in seconds and decomposed:
            found[dataset] = _times(decomposed / seconds["flrml"]), decomposed > seconds["flrml"]
    return _each(found, "SVD over training of FLRML: ")


def _limited(results: Results) -> list[Finding]:
    others = [run for run in results.runs if METHODS[run["method"]].paper not in (None, "FLRML", "M-FLRML")]
    ended = [
        f"{title(run['method'])} on {run['dataset']} ({run['outcome']})"
        for run in others
        if run["outcome"] in ("M", "T")
    ]
    if not others:
        return []
    return [Finding(f"out of memory or time: {', '.join(dict.fromkeys(ended)) or 'none'}", bool(ended))]


def _start_rounds(results: Results) -> list[Finding]:
    return _range(results, "start_rounds", lambda most: most <= 3)


def _iterations(results: Results) -> list[Finding]:
    return _range(results, "n_iter", lambda most: most < 15)


def _range(results: Results, quantity: str, agrees: Callable[[int], bool]) -> list[Finding]:
    """Return the range of a count over data sets, with null steps if any, of FLRML and of the reference."""
    found = []
    for method in ("flrml", "flrml-reference"):
        runs = [run for run in results.finished if run["method"] == method and quantity in run]
        counts = [run[quantity] for run in runs]
        if counts:
            null = sum(run.get("null_steps", 0) for run in runs) if quantity == "n_iter" else 0
            aside = f", {null} of {sum(counts)} null steps" if null else ""
            text = f"{title(method)} {min(counts)}" + (f"–{max(counts)}" if len(set(counts)) > 1 else "")
            found.append(Finding(text + aside, agrees(max(counts))))
    return found


def _ratio_one(results: Results) -> list[Finding]:
    found = []
    for method in dict.fromkeys(result["method"] for result in results.margin):
        behind: dict[str, float] = {}
        for dataset in dict.fromkeys(result["dataset"] for result in results.margin):
            curve = {
                result["margin_ratio"]: 100 * float(np.mean([point["accuracy"] for point in result["points"]]))
                for result in results.margin
                if (result["dataset"], result["method"]) == (dataset, method)
            }
            if MARGIN_RATIO in curve:
                behind[dataset] = max(curve.values()) - curve[MARGIN_RATIO]
        if behind:
            near = sum(value <= NEAR_BEST for value in behind.values())
            worst = ", ".join(f"{dataset} {value:.1f}" for dataset, value in behind.items())
            text = f"{title(method)}: points behind the best ratio: {worst}"
            found.append(Finding(text, near > len(behind) / 2))
    return found


def _curves(results: Results) -> dict[tuple[str, str], dict[int, dict[int, float]]]:
    """Return mean accuracies in per cent by number of mini-batches, by data set and method, and by N_t."""
    curves: dict[tuple[str, str], dict[int, dict[int, float]]] = {}
    for result in results.batches:
        means = 100 * np.mean([point["accuracies"] for point in result["points"]], axis=0)
        curve = dict(zip(result["points"][0]["steps"], means, strict=True))
        curves.setdefault((result["dataset"], result["method"]), {})[result["batch_triplets"]] = curve
    return curves


def _larger_is_faster(results: Results) -> list[Finding]:
    """Compare accuracies after a quarter of the paper's mini-batches, from the smallest N_t to the largest."""
    found, early = [], N_BATCHES // 4
    for (dataset, method), by_size in _curves(results).items():
        sizes = sorted(by_size)
        if len(sizes) > 1 and all(early in curve for curve in by_size.values()):
            after = [by_size[size][early] for size in sizes]
            text = ", ".join(f"{size}: {value:.1f}" for size, value in zip(sizes, after, strict=True))
            rises = all(later >= earlier for earlier, later in pairwise(after))
            noise = "" if rises else _noise(results, dataset, method)
            found.append(Finding(f"{dataset}, {title(method)}, after {early} mini-batches: {text}{noise}", rises))
    return found


def _noise(results: Results, dataset: str, method: str) -> str:
    """Say how many singular values of the largest mini-batches are noise, which whitening blows up."""
    of = [r for r in results.batches if (r["dataset"], r["method"]) == (dataset, method) and "batch" in r]
    if not of:
        return ""
    batch = max(of, key=lambda result: result["batch_triplets"])
    noise, count = batch["batch"]["noise"], batch["batch"]["singular_values"]
    if not noise:
        return ""
    return (
        f" (at N_t = {batch['batch_triplets']}, {noise} of the {count} singular values of a mini-batch are below "
        f"{batch['batch']['threshold']:.0%} of the largest, noise that whitening gives the weight of the others)"
    )


def _twenty_suffice(results: Results) -> list[Finding]:
    found = []
    for (dataset, method), by_size in _curves(results).items():
        curve = by_size.get(BATCH_TRIPLETS, {})
        if N_BATCHES in curve and max(curve) > N_BATCHES:  # else nothing tells what more would give
            reached, best = curve[N_BATCHES], max(curve.values())
            text = f"{dataset}, {title(method)}: {reached:.1f} after {N_BATCHES}, best {best:.1f}"
            found.append(Finding(f"{text} of {max(curve)}", best - reached <= NEAR_BEST))
    return found


def _grows(method: str, axis: str) -> Callable[[Results], list[Finding]]:
    def check(results: Results) -> list[Finding]:
        of = [result for result in results.growth if (result["method"], result["axis"]) == (method, axis)]
        powers = [power for result in of if (power := exponent(result)) is not None]
        return [Finding(f"fitted exponent {minus(f'{power:.2f}')}", power <= LINEAR) for power in powers]

    return check


def _steps(results: Results) -> list[Finding]:
    """Compare the objectives after as many iterations of both kinds, relative to the first."""
    found = {}
    for result in results.iterations:
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


def claims_shown(name: str, results: Results) -> str:
    """Return a sentence per claim that a figure shows: the claim, and whether the results of the figure agree."""
    sentences = []
    for claim in (claim for claim in CLAIMS if claim.figure == name):
        measured, verdict = claim.verdict(results)
        sentences.append(f"The paper: {claim.text} Here: {measured}; {verdict}.")
    return "\n".join(sentences)


def claims_table(results: Results) -> Table:
    """Return every claim of the paper's sections 3 and 4, the measurement, and whether it agrees."""
    rows = [[Cell(cell) for cell in (claim.section, claim.text, *claim.verdict(results))] for claim in CLAIMS]
    note = (
        "Agrees: in every measurement; in part: in some. Comparable: at most 2 points behind, which holds in the "
        "paper's own tables. Works well: at most 1 point behind the best of the sweep. Times are compared with one "
        "another as measured on this machine."
    )
    return Table(["section", "the paper's claim", "measured here", "verdict"], rows, note, words=True)
