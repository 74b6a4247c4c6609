"""Check the claims of the paper's sections 3 and 4 on result files."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from flrml.methods import METHODS
from flrml.paper import BATCH_TRIPLETS, MARGIN_RATIO, N_BATCHES, PEAK_GIGABYTES
from flrml.pipeline.report.results import Results, by, exponent, title
from flrml.pipeline.report.table import Cell, Table, minus

# Points behind the best method: in the paper's own tables FLRML and M-FLRML are at most 1.9 behind.
COMPARABLE = 2.0
UNTESTED = "cannot be tested here"
NEAR_BEST = 1.0  # points behind the best of a sweep that still work well
LINEAR = (0.5, 1.1)  # exponents that count as linear; smaller ones are those of fixed costs
LARGE = 10_000  # features times samples, in millions, from which a data set counts as large


# A measurement, and whether it agrees with the claim; None if it cannot tell.
Finding = tuple[str, bool | None]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, the check of it, what the check measures, and the figure that shows it."""

    section: str
    text: str
    check: Callable[[Results], Iterable[Finding]]
    measures: str = ""
    figure: str | None = None

    def verdict(self, results: Results) -> tuple[str, str]:
        """Return the measurement in words, and "agrees", "in part", "does not agree" or "cannot be tested here"."""
        found = list(self.check(results))
        if not found:
            return "no such run", UNTESTED
        told = [agrees for _, agrees in found if agrees is not None]
        word = "agrees" if all(told) else "in part" if any(told) else "does not agree"
        word = word if told else UNTESTED
        head = f"{self.measures}: " if self.measures else ""
        return head + "; ".join(text for text, _ in found), word


def rivals(name: str, methods: Iterable[str]) -> list[str]:
    """Return those of some methods that the paper lists in the table of a method, without the method itself."""
    own = METHODS[name]
    listed = (METHODS[method] for method in methods)
    return [m.name for m in listed if m.paper not in (None, own.paper) and m.table == own.table]


def _times(ratio: float) -> str:
    """Return a ratio with two digits that count, or all before the point."""
    return f"{ratio:.0f} ×" if ratio >= 10 else f"{ratio:.2g} ×"


def _faster(name: str, results: Results, of: str | None = None) -> Iterator[Finding]:
    for dataset, seconds in results.means("train_seconds").items():
        others = [method for method in rivals(name, seconds) if of in (None, method)]
        if name in seconds and others:
            quickest = min(others, key=lambda method: seconds[method])
            ratio = seconds[quickest] / seconds[name]
            yield f"{dataset} {_times(ratio)} ({title(quickest)})", ratio >= 1


def _comparable(name: str, results: Results) -> Iterator[Finding]:
    for dataset, accuracy in results.means("accuracy").items():
        others = rivals(name, accuracy)
        if name in accuracy and others:
            best = max(others, key=lambda method: accuracy[method])
            gap = 100 * (accuracy[name] - accuracy[best])
            yield f"{dataset} {minus(f'{gap:+.1f}')} ({title(best)})", gap >= -COMPARABLE


def _highest(results: Results) -> Iterator[Finding]:
    ahead = {
        f"{title(name)} on {dataset}": accuracy[name] > max(accuracy[method] for method in others)
        for dataset, accuracy in results.means("accuracy").items()
        for name in ("flrml", "mflrml")
        if name in accuracy and (others := rivals(name, accuracy))
    }
    best = [place for place, is_best in ahead.items() if is_best]
    if ahead:
        yield ", ".join(best) or "nowhere", len(best) > 1


def _both(results: Results, quantity: str) -> Iterator[tuple[str, float, float]]:
    """Yield the mean of a quantity for FLRML and for M-FLRML on each data set that has both."""
    for dataset, of in results.means(quantity).items():
        if {"flrml", "mflrml"} <= set(of):
            yield dataset, of["flrml"], of["mflrml"]


def _less_accurate(results: Results) -> Iterator[Finding]:
    for dataset, whole, batches in _both(results, "accuracy"):
        yield f"{dataset} {minus(f'{100 * (batches - whole):+.1f}')}", batches <= whole


def _less_memory(results: Results) -> Iterator[Finding]:
    both = zip(_both(results, "train_seconds"), _both(results, "peak_mb"), strict=True)
    for (dataset, *seconds), (_, *memory) in both:
        saved = [whole / batches for whole, batches in (seconds, memory)]
        yield f"{dataset} {_times(saved[0])} the time, {_times(saved[1])} the memory", min(saved) >= 1


def _fits_memory(results: Results) -> Iterator[Finding]:
    for dataset, run in {run["dataset"]: run for run in results.finished if run["method"] == "mflrml"}.items():
        size, gigabytes = run.get("n", 0) * run.get("D", 0), run["peak_mb"] / 1024
        if size >= LARGE * 1e6:
            yield f"{dataset} {gigabytes:.1f} GB, dense {8 * size / 2**30:,.0f} GB", gigabytes <= PEAK_GIGABYTES


def _svd_is_longer(results: Results) -> Iterator[Finding]:
    for dataset, seconds in results.means("train_seconds").items():
        decomposed = results.svd_seconds(dataset, "flrml")
        if "flrml" in seconds and decomposed:
            yield f"{dataset} {_times(decomposed / seconds['flrml'])}", decomposed > seconds["flrml"]


def _limited(results: Results) -> Iterator[Finding]:
    others = [run for run in results.runs if METHODS[run["method"]].paper not in (None, "FLRML", "M-FLRML")]
    ended = {
        f"{title(run['method'])} on {run['dataset']} ({run['outcome']})": None
        for run in others
        if run["outcome"] in ("M", "T")
    }
    if others:
        yield ", ".join(ended) or "none", bool(ended)


def _range(quantity: str, most: int, results: Results) -> Iterator[Finding]:
    """Compare the range of a count over data sets, with null steps if any, of FLRML and of the reference."""
    for method in ("flrml", "flrml-reference"):
        runs = [run for run in results.finished if run["method"] == method and quantity in run]
        counts = [run[quantity] for run in runs]
        if counts:
            null = sum(run.get("null_steps", 0) for run in runs) if quantity == "n_iter" else 0
            aside = f", {null} of {sum(counts)} null steps" if null else ""
            text = f"{title(method)} {min(counts)}" + (f"–{max(counts)}" if len(set(counts)) > 1 else "")
            places = ", ".join(dict.fromkeys(run["dataset"] for run in runs))
            yield f"{text} on {places}{aside}", max(counts) <= most


def _ratio_one(results: Results) -> Iterator[Finding]:
    for method, of_method in by(results.margin, "method", "dataset").items():
        behind: dict[str, float] = {}
        for dataset, found in of_method.items():
            accuracies = {r["margin_ratio"]: [point["accuracy"] for point in r["points"]] for r in found}
            means = {ratio: 100 * float(np.mean(values)) for ratio, values in accuracies.items()}
            if MARGIN_RATIO in means:
                behind[dataset] = max(means.values()) - means[MARGIN_RATIO]
        if behind:
            near = sum(value <= NEAR_BEST for value in behind.values())
            worst = ", ".join(f"{dataset} {value:.1f}" for dataset, value in behind.items())
            yield f"{title(method)}: points behind the best ratio: {worst}", near > len(behind) / 2


def _curves(results: Results) -> dict[tuple[str, str], dict[int, dict[int, float]]]:
    """Return mean accuracies in per cent by number of mini-batches, by data set and method, and by N_t."""
    curves: dict[tuple[str, str], dict[int, dict[int, float]]] = {}
    for result in results.batches:
        means = 100 * np.mean([point["accuracies"] for point in result["points"]], axis=0)
        curve = dict(zip(result["points"][0]["steps"], means, strict=True))
        curves.setdefault((result["dataset"], result["method"]), {})[result["batch_triplets"]] = curve
    return curves


def _larger_is_faster(results: Results) -> Iterator[Finding]:
    """Compare accuracies after a quarter of the paper's mini-batches, from the smallest N_t to the largest."""
    early = N_BATCHES // 4
    for (dataset, method), by_size in _curves(results).items():
        if len(by_size) > 1 and all(early in curve for curve in by_size.values()):
            after = {size: by_size[size][early] for size in sorted(by_size)}
            text = ", ".join(f"{size}: {value:.1f}" for size, value in after.items())
            rises = all(later >= earlier for earlier, later in pairwise(after.values()))
            noise = "" if rises else _noise(results, dataset, method)
            yield f"{dataset}, {title(method)}, after {early} mini-batches: {text}{noise}", rises


def _noise(results: Results, dataset: str, method: str) -> str:
    """Say how many singular values of the largest mini-batches are noise, which whitening blows up."""
    found = by(results.batches, "dataset", "method")[dataset][method]
    largest = max(found, key=lambda result: result["batch_triplets"])
    batch = largest.get("batch", {"noise": 0})
    if not batch["noise"]:
        return ""
    return (
        f" (at N_t = {largest['batch_triplets']}, {batch['noise']} of the {batch['singular_values']} singular "
        f"values of a mini-batch are below {batch['threshold']:.0%} of the largest, noise that whitening gives the "
        "weight of the others)"
    )


def _twenty_suffice(results: Results) -> Iterator[Finding]:
    for (dataset, method), by_size in _curves(results).items():
        curve = by_size.get(BATCH_TRIPLETS, {})
        if N_BATCHES in curve and max(curve) > N_BATCHES:  # else nothing tells what more would give
            reached, best = curve[N_BATCHES], max(curve.values())
            text = f"{dataset}, {title(method)}: {reached:.1f} after {N_BATCHES}, best {best:.1f} of {max(curve)}"
            yield text, best - reached <= NEAR_BEST


def _grows(method: str, axis: str, results: Results) -> Iterator[Finding]:
    for result in results.growth:
        power = exponent(result)
        if (result["method"], result["axis"]) == (method, axis) and power is not None:
            small = power < LINEAR[0]
            text = f"fitted exponent {minus(f'{power:.2f}')} on {result['dataset']}"
            yield text + small * ", because fixed costs prevail", None if small else power <= LINEAR[1]


def _steps(results: Results) -> Iterator[Finding]:
    """Compare the objectives after as many iterations of both kinds, relative to the first."""
    for result in results.iterations:
        objectives = [result["methods"]["flrml"]["objective"], result["retraction"]]
        count = min(len(objective) for objective in objectives) - 1
        own, other = (objective[count] / objectives[0][0] for objective in objectives)
        yield f"{result['dataset']} {own:.3g} against {other:.3g} after {count} iterations", own < other


OTHERS_TIME = "time of the fastest of the paper's other methods over its own"
POINTS_ABOVE = "points above the best of the paper's other methods"
HIGHEST = "highest of the paper's methods"
CLAIMS = (
    Claim(
        "3.2", "The start of s settles within 3 rounds.", partial(_range, "start_rounds", 3), figure="convergence"
    ),
    Claim(
        "3.2",
        "Barzilai–Borwein steps converge faster than projection and retraction.",
        _steps,
        "objective over the first",
    ),
    Claim("3.2", "The cost of an iteration of FLRML is linear in n.", partial(_grows, "flrml", "n")),
    Claim("3.3", "The SVD takes longer than the optimisation.", _svd_is_longer, "SVD over training of FLRML"),
    Claim("3.3", "The cost of a mini-batch of M-FLRML is linear in D.", partial(_grows, "mflrml", "D")),
    Claim("4.2", "FLRML is faster than every other method on the SVD.", partial(_faster, "flrml"), OTHERS_TIME),
    Claim("4.2", "M-FLRML is faster than every other method on the data.", partial(_faster, "mflrml"), OTHERS_TIME),
    Claim(
        "4.2",
        "M-FLRML is faster than SGDINC, whose complexity is close.",
        partial(_faster, "mflrml", of="sgdinc"),
        OTHERS_TIME,
    ),
    Claim("4.2", "The accuracy of FLRML is comparable with the best.", partial(_comparable, "flrml"), POINTS_ABOVE),
    Claim(
        "4.2", "The accuracy of M-FLRML is comparable with the best.", partial(_comparable, "mflrml"), POINTS_ABOVE
    ),
    Claim("4.2", "FLRML or M-FLRML has the highest accuracy on several data sets.", _highest, HIGHEST),
    Claim("4.2", "M-FLRML is generally less accurate than FLRML.", _less_accurate, "points of M-FLRML above FLRML"),
    Claim(
        "4.2", "M-FLRML takes less time and memory than FLRML.", _less_memory, "FLRML takes, relative to M-FLRML"
    ),
    Claim("4.2", "M-FLRML handles a million features in 6.2 GB.", _fits_memory, "peak of M-FLRML"),
    Claim(
        "4.2", "Methods polynomial in D, n or the triplets fail on large data.", _limited, "out of memory or time"
    ),
    Claim(
        "4.2",
        "The descent converges in fewer than 15 iterations.",
        partial(_range, "n_iter", 14),
        figure="convergence",
    ),
    Claim("4.2", "A margin ratio about 1 works well on most data sets.", _ratio_one, figure="margin"),
    Claim("4.2", "A larger N_t makes the accuracy rise faster.", _larger_is_faster, figure="batches"),
    Claim("4.2", "20 mini-batches suffice.", _twenty_suffice, figure="batches"),
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
        "paper's own tables. Methods that these do not list are left out. Works well: at most 1 point behind the "
        "best of the sweep. Times are compared with one another as measured on this machine."
    )
    return Table(["section", "the paper's claim", "measured here", "verdict"], rows, note, words=True)
