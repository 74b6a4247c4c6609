"""The tables of the experiment: the paper's Tables 1 to 4 with ours, a summary, memory, reproduction and splits."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.stats import rankdata

from flrml import paper
from flrml.datasets.preparation import paper_table
from flrml.datasets.registry import REGISTRY
from flrml.methods import METHODS
from flrml.pipeline.report.results import Record, Results, by, exponent, mean, title
from flrml.pipeline.report.table import Cell, Table, figures, minus

NOTE = (
    "Accuracy in per cent; training time in seconds. M: out of memory, T: out of time, E: no finite non-zero "
    "solution, F: failed. Mean rank: of the accuracy among all but controls, over the data sets. Methods that did "
    "not end come last. Bold: the best of a column."
)
PRINTED_NOTE = (
    " In brackets: the paper's accuracy and the difference to it; its time, measured on another machine, and ours "
    "as a multiple of it; its mean rank on the same data sets. M in the paper: beyond 16 GB; *: bold there."
)
PRINTED: dict[int, dict[str, Any]] = {3: paper.WITH_SVD, 4: paper.WITHOUT_SVD}
PRINTED_DATASETS = {3: paper.WITH_SVD_DATASETS, 4: paper.WITHOUT_SVD_DATASETS}
PRINTED_BOLD = {3: paper.BOLD_WITH_SVD, 4: paper.BOLD_WITHOUT_SVD}

KINDS = ("plain", "centered")  # of rows that are decomposed

# Costs of an iteration here where they differ from the paper's Table 2, counted from the code, and why they differ.
OURS = {
    "LMNN": ("n r d + |T|", "r d", "n r", "the map is learned itself, and triplets cost a hinge each"),
    "LRSML": ("n r² + |T| r + r³", "r² + |T|", "n r", "only pairs of the triplets are kept, as vectors"),
    "FRML": ("n r d + r d²", "r d", "n r", "on the SVD, with neighbours in place of all pairs"),
    "DRML": ("nnz(X) d + |T| d + D d²", "D d", "nnz(X)", "X enters through products; no difference is formed"),
    "SGDINC": (
        "D d² + nnz(X_I) (d + n_I) + (d + n_I)³",
        "D d",
        "nnz(X_I)",
        "zeros of the mini-batch cost nothing, and the rest is done in its Gram matrix",
    ),
    "FLRML": ("2 n r d + n d²", "r d + n d", "n r", "K is never formed: products with V stand in for it"),
    "M-FLRML": (
        "nnz(X_I) (n_I + 2 d) + n_I³",
        "D d",
        "nnz(X_I)",
        "the SVD of a mini-batch comes from its Gram matrix, and zeros cost nothing",
    ),
}


def printed_cell(table: int, method: str | None, dataset: str) -> tuple[Any, bool]:
    """Return what the paper prints for a method on a data set, else None, and whether its accuracy is bold."""
    rows, datasets = PRINTED[table], PRINTED_DATASETS[table]
    if method not in rows or dataset not in datasets:
        return None, False
    place = datasets.index(dataset)
    return rows[method][place], method in PRINTED_BOLD[table][place]


def dataset_table(results: Results) -> Table:
    """Return the paper's Table 1 with ours, and the data sets that were left out."""
    sizes = ["D", "n", "n test", "classes"]
    body = []
    for row in paper_table(results.metas.values()):
        ours = [f"{row[key]:,}" for key in ("D", "n", "n_test", "classes")]
        theirs = [row[f"paper {key}"] for key in ("D", "n", "n_test", "classes")]
        printed = ", ".join(f"{value:,}" for value in theirs) if theirs[0] is not None else "–"
        cells = [row["dataset"], row["paper name"] or "–", *ours, printed, row["differences"] or "none"]
        body.append([Cell(cell) for cell in cells])
    for name, reason in results.missing.items():
        known = paper.DATASETS.get(_paper_name(name))
        printed = ", ".join(f"{value:,}" for value in known) if known else "–"
        cells = [name, _paper_name(name) or "–", "–", "–", "–", "–", printed, f"missing: {reason}"]
        body.append([Cell(cell) for cell in cells])
    head = ["data set", "in the paper", *sizes, f"paper: {', '.join(sizes)}", "differences"]
    shows_paper = any(cells[1].text != "–" for cells in body)
    shown = [column for column, name in enumerate(head) if shows_paper or "paper" not in name]
    return Table([head[column] for column in shown], [[cells[column] for column in shown] for cells in body])


def with_svd_table(results: Results) -> Table:
    """Return the paper's Table 3, methods on an SVD, with ours, and the seconds of each SVD."""
    table = _comparison(results, 3)
    printed = dict(zip(paper.WITH_SVD_DATASETS, paper.SVD_SECONDS, strict=True))
    row = [Cell("t_svd"), Cell("")]
    names, absent = _columns(results, 3)
    for dataset, name in (names | absent).items():
        ours = next((results.svd[dataset, kind] for kind in KINDS if (dataset, kind) in results.svd), None)
        row += [Cell(""), Cell(_beside(ours, printed.get(name)))]
    table.rows.append(row)
    return table


def without_svd_table(results: Results) -> Table:
    """Return the paper's Table 4, methods on the data, with ours."""
    return _comparison(results, 4)


def _columns(results: Results, number: int) -> tuple[dict[str, str], dict[str, str]]:
    """Return data sets with runs of a table's own methods and those left out, with their names in the paper."""
    own = Results(runs=[run for run in results.runs if _is_own(run, number)])
    names = {dataset: results.paper_names.get(dataset, "") for dataset in own.datasets}
    absent = {name: _paper_name(name) for name in results.missing if _paper_name(name) in PRINTED_DATASETS[number]}
    return names, absent


def _is_own(run: Record, number: int) -> bool:
    """Return whether a run belongs to a table of the paper; controls stand next to it."""
    return METHODS[run["method"]].table == number and not METHODS[run["method"]].control


def _comparison(results: Results, number: int) -> Table:
    """Return one of the paper's tables with ours; a data set that was left out has the paper's figures alone."""
    listed = Results(runs=[run for run in results.runs if _is_own(run, number) or METHODS[run["method"]].control])
    compared = Results(runs=[run for run in results.runs if _is_own(run, number)])
    runs = by(listed.runs, "method", "dataset")
    accuracies, seconds = listed.means("accuracy"), compared.means("train_seconds")
    names, absent = _columns(results, number)
    found_on = by(compared.runs, "dataset", "method")
    ranks = _mean_ranks(
        {on: {name: mean(runs, "accuracy") for name, runs in of.items()} for on, of in found_on.items()}
    )
    printed_ranks = _printed_ranks(number, names.values())
    head = ["method", "mean rank"]
    shows_paper = any((names | absent).values())
    for dataset, name in (names | absent).items():
        known = f"{name}, missing" if dataset in absent else name or "not the paper’s"
        head += [f"{dataset} ({known}) %" if shows_paper else f"{dataset} %", f"{dataset} s"]
    rows = []
    for name in sorted((name for name in METHODS if name in runs), key=lambda name: METHODS[name].control):
        row = [Cell(title(name) + (" (control)" if METHODS[name].control else ""))]
        theirs = f" ({printed_ranks[printed]:.1f})" if (printed := METHODS[name].paper) in printed_ranks else ""
        row.append(Cell(f"{ranks[name]:.1f}{theirs}" if name in ranks else "", _is_best(name, ranks, min)))
        for dataset, printed_name in (names | absent).items():
            printed, bold = printed_cell(number, METHODS[name].paper, printed_name)
            found = runs[name].get(dataset, [])
            row += [
                Cell(_accuracy(found, printed, bold), _is_best(name, accuracies.get(dataset, {}))),
                Cell(_seconds(found, printed), _is_best(name, seconds.get(dataset, {}), min)),
            ]
        rows.append(row)
    return Table(head, rows, NOTE + PRINTED_NOTE * shows_paper)


def _mean_ranks(accuracies: dict[str, dict[str, float | None]]) -> dict[str, float]:
    """Return the mean over data sets of the rank of each method's accuracy; None comes last, equal ones share."""
    ranks: dict[str, list[float]] = {}
    for of_dataset in accuracies.values():
        losses = [1.0 if value is None else -value for value in of_dataset.values()]
        for method, rank in zip(of_dataset, rankdata(losses), strict=True):
            ranks.setdefault(method, []).append(rank)
    return {method: float(np.mean(found)) for method, found in ranks.items()}


def _printed_ranks(number: int, datasets: Iterable[str]) -> dict[str, float]:
    """Return the mean ranks in one of the paper's tables, over those of its data sets."""
    cells = {name: {row: printed_cell(number, row, name)[0] for row in PRINTED[number]} for name in datasets}
    return _mean_ranks(
        {
            name: {row: cell[0] if isinstance(cell, tuple) else None for row, cell in of_dataset.items()}
            for name, of_dataset in cells.items()
            if name in PRINTED_DATASETS[number]
        }
    )


def memory_table(results: Results) -> Table:
    """Return the peak memory of every training in MB, a row per method and a column per data set."""
    runs = by(results.runs, "method", "dataset")
    rows = []
    for name in (name for name in METHODS if name in runs):
        row = [Cell(title(name))]
        for dataset in results.datasets:
            found = runs[name].get(dataset, [])
            peak = mean(found, "peak_mb")
            row.append(Cell(_letter(found) if peak is None else f"{peak:,.0f}"))
        rows.append(row)
    note = "Peak memory of a training's process in MB, data and libraries included; letters as in the other tables."
    return Table(["method", *results.datasets], rows, note)


def summary_table(results: Results) -> Table:
    """Compare RidgeFLRML with cosine, FLRML and the best other method, a row per data set."""
    shown = ("cosine", "flrml", "flrml-ridge")
    accuracies, seconds = results.means("accuracy"), results.means("train_seconds")
    runs = by(results.runs, "dataset", "method")
    rows = []
    for dataset in results.datasets:
        accuracy = accuracies.get(dataset, {})
        others = [method for method in accuracy if method not in shown]
        other = max(others, key=lambda method: accuracy[method], default="")
        cells = []
        for method in (*shown, other):
            text = "–"
            if method in accuracy:
                time = seconds[dataset][method] + results.svd_seconds(dataset, method)
                name = f"{title(method)}: " if method == other else ""
                text = f"{name}{100 * accuracy[method]:.1f} % in {figures(time)} s"
                if size := sampled_rows(runs[dataset][method]):
                    text += f" (on {size:,} test rows)"
            cells.append(Cell(text, _is_best(method, accuracy)))
        rows.append([Cell(dataset), *cells])
    note = "5-NN accuracy on the test part; seconds of training, with the SVD if a method needs one; bold: best."
    return Table(["data set", "cosine on X", "FLRML", "RidgeFLRML", "best other method"], rows, note)


def complexity_table(results: Results) -> Table:
    """Return the paper's Table 2, our costs if they differ, and measured exponents."""
    measured: dict[str | None, list[str]] = {}
    for result in results.growth:
        if result["method"] in METHODS and (power := exponent(result)) is not None:
            measured.setdefault(METHODS[result["method"]].paper, []).append(f"{result['axis']}^{power:.2f}")
    rows: list[list[Cell]] = []
    reasons: list[str] = []
    for name, printed in paper.COMPLEXITY.items():
        *ours, reason = OURS[name]
        reasons.append(f"({len(reasons) + 1}) {reason}")
        here = [own if own != theirs else "as printed" for own, theirs in zip(ours, printed, strict=True)]
        growth = ", ".join(measured.get(name, [])) or "–"
        cells = (name, *printed, f"{here[0]} ({len(reasons)})", *here[1:], growth)
        rows.append([Cell(cell) for cell in cells])
    head = ["method", "paper: time", "variable", "constant", "here: time", "variable", "constant", "measured"]
    note = (
        "Per iteration: operations, entries of the variable and of the constant matrices; n_I: samples of a "
        "mini-batch X_I, |T|: triplets. Measured: fitted exponent of the time of an iteration. "
    ) + f"{'; '.join(reasons)}."
    return Table(head, rows, note, words=True)


def reproduction_table(results: Results) -> Table:
    """Compare FLRML and M-FLRML on the paper's data: the paper, the authors' code, and ours by both votes."""
    accuracies = ["paper %", "authors' code %", "ours %", "ours, authors' vote %"]
    counts_and_time = ["start rounds", "iterations", "null steps", "s"]
    rows = []
    for result in results.runs:
        method, name = METHODS[result["method"]], results.paper_names.get(result["dataset"])
        if name is None or method.paper not in paper.AUTHORS_CODE:
            continue
        printed, _ = printed_cell(method.table, method.paper, name)
        theirs = printed[0] if isinstance(printed, tuple) else printed or "–"
        authors = paper.AUTHORS_CODE[method.paper].get(name, "–") if "reference" in method.name else "–"
        cells = [result["dataset"], title(method.name), theirs, authors]
        if result["outcome"] == "ok":
            votes = (f"{100 * result[vote]:.1f}" for vote in ("accuracy", "accuracy_reference_vote"))
            counts = (result.get(count, "–") for count in ("start_rounds", "n_iter", "null_steps"))
            cells += [*votes, *counts, figures(result["train_seconds"])]
        else:
            cells += [result["outcome"], *[""] * 5]
        rows.append([Cell(str(cell)) for cell in cells])
    note = "The authors' code ran under GNU Octave on the same files; its vote weighs farther neighbours more."
    return Table(["data set", "method", *accuracies, *counts_and_time], rows, note)


def splits_table(results: Results) -> Table:
    """Return mean and deviation of the accuracy over splits and seeds, a row per method, a column per data set."""
    return _study(results, {"": "accuracy"}, "5-NN accuracy in per cent on rows held out")


def retrieval_table(results: Results) -> Table:
    """Return retrieval scores, a row per method, with means and deviations over splits and seeds."""
    scores = {" recall@1": "recall_at_1", " MAP@R": "map_at_r"}
    return _study(
        results, scores, "In per cent. Test rows search the training rows, those of new classes one another"
    )


def _study(results: Results, scores: dict[str, str], meaning: str) -> Table:
    """Return mean and deviation of scores over splits and seeds, a row per method, columns per data set."""
    shown = results.studies
    runs, means = by(shown.runs, "method", "dataset"), {score: shown.means(score) for score in scores.values()}
    rows = []
    for label, of_label in runs.items():
        row = [Cell(title(label))]
        for dataset in shown.datasets:
            for score in scores.values():
                text = _percent(of_label.get(dataset, []), score)
                row.append(Cell(text, _is_best(label, means[score].get(dataset, {}))))
        rows.append(row)
    count = max((len(found) for of_label in runs.values() for found in of_label.values()), default=0)
    head = [f"{dataset}{name}" for dataset in shown.datasets for name in scores]
    spread = f": mean and deviation of up to {count} runs" if count > 1 else ""
    return Table(["method", *head], rows, f"{meaning}{spread}; bold: best.")


def _percent(found: list[Record], score: str) -> str:
    """Return the mean of a score in per cent, ± its standard deviation over runs, or the letter."""
    values = [100 * result[score] for result in found if result["outcome"] == "ok"]
    return f"{np.mean(values):.1f}" + f" ± {np.std(values):.1f}" * (len(values) > 1) if values else _letter(found)


def _paper_name(dataset: str) -> str:
    return (REGISTRY[dataset].paper or "") if dataset in REGISTRY else ""


def _is_best(name: str, values: dict[str, float], choose: Callable = max) -> bool:
    return name in values and abs(values[name] - choose(values.values())) < 1e-9


def sampled_rows(found: list[Record]) -> int:
    """Return the size of the sample of test rows on which runs were evaluated; 0 if on all of them."""
    sizes = [
        run["n_test"] for run in found if run["outcome"] == "ok" and run["n_test"] < run["data"]["test"]["rows"]
    ]
    return min(sizes, default=0)


def _letter(found: list[Record]) -> str:
    """Return the outcome of runs that did not finish, or nothing if there is no run."""
    return found[0]["outcome"] if found else ""


def _accuracy(found: list[Record], printed: Any, bold: bool) -> str:
    """Mean accuracy, ± its standard deviation over seeds, or the letter; the paper's figure in brackets."""
    theirs = printed[0] if isinstance(printed, tuple) else printed
    mark = f"{theirs}{'*' if bold else ''}"
    ours, text = mean(found, "accuracy"), _percent(found, "accuracy")
    if size := sampled_rows(found):
        text += f" of {size:,} rows"
    if ours is None:
        return (text or ("–" if theirs else "")) + (f" ({mark})" if theirs else "")
    if isinstance(theirs, float):
        return f"{text} ({mark}, {minus(f'{100 * ours - theirs:+.1f}')})"
    return f"{text} ({theirs})" if theirs else text


def _seconds(found: list[Record], printed: Any) -> str:
    """Mean training time; the paper's and the ratio in brackets."""
    return _beside(mean(found, "train_seconds"), printed[1] if isinstance(printed, tuple) else None)


def _beside(ours: float | None, theirs: float | None) -> str:
    if ours is None:
        return f"– ({theirs})" if theirs else ""
    return figures(ours) + (f" ({theirs}, ×{figures(ours / theirs)})" if theirs else "")
