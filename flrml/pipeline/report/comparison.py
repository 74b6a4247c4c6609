"""The tables of the experiment: the paper's Tables 1 to 4 with ours, a summary, memory, reproduction and claims."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from flrml import paper
from flrml.datasets.registry import REGISTRY
from flrml.files import read_json
from flrml.methods import METHODS
from flrml.pipeline.report.claims import CLAIMS, Evidence
from flrml.pipeline.report.results import exponent, mean
from flrml.pipeline.report.table import Cell, Table, figures, minus

Runs = dict[tuple[str, str], list[dict[str, Any]]]

NOTE = (
    "Accuracy in per cent, in brackets the paper's and the difference to it; training time in seconds, in brackets "
    "the paper's and ours as a multiple of it, measured on another machine. M: out of memory, T: out of time, "
    "E: no finite non-zero solution, F: failed. Bold: the best of a column; *: bold in the paper."
)
PRINTED: dict[int, dict[str, Any]] = {3: paper.WITH_SVD, 4: paper.WITHOUT_SVD}
PRINTED_DATASETS = {3: paper.WITH_SVD_DATASETS, 4: paper.WITHOUT_SVD_DATASETS}
PRINTED_BOLD = {3: paper.BOLD_WITH_SVD, 4: paper.BOLD_WITHOUT_SVD}

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


def dataset_table(rows: Iterable[dict[str, Any]], missing: dict[str, str] | None = None) -> Table:
    """The paper's Table 1 with ours, from :func:`flrml.datasets.paper_table`.

    Parameters
    ----------
    rows : iterable of dict
        A row per prepared data set.
    missing : dict, optional
        Data sets that were left out, with the reason.
    """
    head = [
        "data set",
        "in the paper",
        "D",
        "n",
        "n test",
        "classes",
        "paper: D, n, n test, classes",
        "differences",
    ]
    body = []
    for row in rows:
        ours = [f"{row[key]:,}" for key in ("D", "n", "n_test", "classes")]
        theirs = [row[f"paper {key}"] for key in ("D", "n", "n_test", "classes")]
        printed = ", ".join(f"{value:,}" for value in theirs) if theirs[0] is not None else "–"
        cells = [row["dataset"], row["paper name"] or "–", *ours, printed, row["differences"] or "none"]
        body.append([Cell(cell) for cell in cells])
    for name, reason in (missing or {}).items():
        known = paper.DATASETS.get(_paper_name(name))
        printed = ", ".join(f"{value:,}" for value in known) if known else "–"
        cells = [name, _paper_name(name) or "–", "–", "–", "–", "–", printed, f"missing: {reason}"]
        body.append([Cell(cell) for cell in cells])
    return Table(head, body)


def comparison_table(
    paths: Iterable[str],
    table: int,
    names: dict[str, str],
    svd_seconds: dict[str, float],
    missing: dict[str, str] | None = None,
) -> Table:
    """The paper's Table 3 (methods on an SVD) or 4 (on the data), from the metrics.json of all runs.

    Parameters
    ----------
    paths : iterable of paths
        metrics.json files.
    table : {3, 4}
        Which one.
    names : dict
        Name in the paper of each data set that is the paper's own.
    svd_seconds : dict
        Seconds that the SVD of each data set took.
    missing : dict, optional
        Data sets that were left out, with the reason; the paper's figures alone stand in their columns.
    """
    runs: Runs = {}
    for path in paths:
        result = read_json(path)
        method = METHODS[result["method"]]
        if method.table == table or method.control:
            runs.setdefault((result["method"], result["dataset"]), []).append(result)
    methods = [name for name in METHODS if any(method == name for method, _ in runs)]
    # A data set without any run of this table's own methods has no column.
    datasets = [
        dataset
        for dataset in dict.fromkeys(dataset for _, dataset in runs)
        if any((name, dataset) in runs for name in methods if not METHODS[name].control)
    ]
    absent = {name: _paper_name(name) for name in missing or {} if _paper_name(name) in PRINTED_DATASETS[table]}
    head = ["method"]
    for dataset in datasets:
        head += [f"{dataset} ({names.get(dataset) or 'not the paper’s'}) %", f"{dataset} s"]
    for dataset, name in absent.items():
        head += [f"{dataset} ({name}, missing) %", f"{dataset} s"]
    accuracy = {key: mean(found, "accuracy") for key, found in runs.items()}
    seconds = {key: mean(found, "train_seconds") for key, found in runs.items() if not METHODS[key[0]].control}
    best = {d: max((accuracy.get((m, d)) or 0 for m in methods), default=0) for d in datasets}
    fastest = {d: min((seconds.get((m, d)) or np.inf for m in methods), default=np.inf) for d in datasets}
    rows = []
    for name in sorted(methods, key=lambda name: METHODS[name].control):
        method = METHODS[name]
        row = [Cell(method.title + (" (control)" if method.control else ""))]
        for dataset in datasets:
            found, key = runs.get((name, dataset), []), (name, dataset)
            printed, bold = printed_cell(table, method.paper, names.get(dataset, ""))
            is_best = accuracy.get(key) is not None and (accuracy[key] or 0) >= best[dataset] - 1e-9
            is_fastest = seconds.get(key) is not None and (seconds[key] or np.inf) <= fastest[dataset]
            row += [Cell(_accuracy(found, printed, bold), is_best), Cell(_seconds(found, printed), is_fastest)]
        for dataset in absent.values():
            printed, bold = printed_cell(table, method.paper, dataset)
            row += [Cell(_accuracy([], printed, bold)), Cell(_seconds([], printed))]
        rows.append(row)
    if table == 3:
        rows.append([Cell("t_svd")])
        printed_seconds = dict(zip(paper.WITH_SVD_DATASETS, paper.SVD_SECONDS, strict=True))
        for dataset in (*datasets, *absent):
            theirs = printed_seconds.get(names.get(dataset) or absent.get(dataset, ""))
            rows[-1] += [Cell(""), Cell(_beside(svd_seconds.get(dataset), theirs))]
    return Table(head, rows, NOTE)


def memory_table(paths: Iterable[str]) -> Table:
    """Return the peak memory of every training in MB, a row per method and a column per data set."""
    runs: Runs = {}
    for path in paths:
        result = read_json(path)
        runs.setdefault((result["method"], result["dataset"]), []).append(result)
    datasets = list(dict.fromkeys(dataset for _, dataset in runs))
    rows = []
    for name in (name for name in METHODS if any(method == name for method, _ in runs)):
        cells = [Cell(METHODS[name].title)]
        for dataset in datasets:
            found = runs.get((name, dataset), [])
            peak = mean(found, "peak_mb")
            cells.append(Cell(f"{peak:,.0f}" if peak is not None else found[0]["outcome"] if found else ""))
        rows.append(cells)
    note = "Peak memory of a training's process in MB, data and libraries included; letters as in the other tables."
    return Table(["method", *datasets], rows, note)


def summary_table(paths: Iterable[str], svd_seconds: dict[str, float]) -> Table:
    """Compare RidgeFLRML with cosine, FLRML and the best other method, a row per data set.

    Parameters
    ----------
    paths : iterable of paths
        metrics.json files.
    svd_seconds : dict
        Seconds that the SVD of each data set took; methods that start from it have them added.
    """
    runs: dict[str, dict[str, list[dict]]] = {}
    for path in paths:
        result = read_json(path)
        runs.setdefault(result["dataset"], {}).setdefault(result["method"], []).append(result)

    def cell(dataset: str, method: str | None, name: bool = False) -> Cell:
        found = runs[dataset].get(method or "", [])
        accuracy, seconds = mean(found, "accuracy"), mean(found, "train_seconds")
        if method is None or accuracy is None or seconds is None:
            return Cell("–")
        if METHODS[method].uses_spectrum:
            seconds += svd_seconds.get(dataset, 0.0)
        label = f"{METHODS[method].title}: " if name else ""
        best = max(mean(each, "accuracy") or 0 for each in runs[dataset].values())
        return Cell(f"{label}{100 * accuracy:.1f} % in {figures(seconds)} s", accuracy >= best - 1e-9)

    rows = []
    for dataset, methods in runs.items():
        others = [method for method in methods if method not in ("cosine", "flrml", "flrml-ridge")]
        other = max(others, key=lambda method: mean(methods[method], "accuracy") or 0, default=None)
        cells = [cell(dataset, method) for method in ("cosine", "flrml", "flrml-ridge")]
        rows.append([Cell(dataset), *cells, cell(dataset, other, name=True)])
    note = "5-NN accuracy on the test part; seconds of training, with the SVD if a method needs one; bold: best."
    return Table(["data set", "cosine on X", "FLRML", "RidgeFLRML", "best other method"], rows, note)


def complexity_table(paths: Iterable[str]) -> Table:
    """The paper's Table 2, our costs where they differ, and measured exponents.

    Parameters
    ----------
    paths : iterable of paths
        Results of the growth with the size of the data.
    """
    measured: dict[str | None, list[str]] = {}
    for path in paths:
        result = read_json(path)
        if (power := exponent(result)) is not None:
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


def reproduction_table(paths: Iterable[str], names: dict[str, str]) -> Table:
    """FLRML and M-FLRML on the paper's data sets: the paper, the authors' code, and ours by both votes."""
    head = [
        "data set",
        "method",
        "paper %",
        "authors' code %",
        "ours %",
        "ours, authors' vote %",
        "start rounds",
        "iterations",
        "null steps",
        "s",
    ]
    rows = []
    for path in paths:
        result = read_json(path)
        method, name = METHODS[result["method"]], names.get(result["dataset"])
        if name is None or method.paper not in paper.AUTHORS_CODE:
            continue
        printed, _ = printed_cell(method.table, method.paper, name)
        cells = [result["dataset"], method.title, printed[0] if isinstance(printed, tuple) else printed or "–"]
        cells.append(paper.AUTHORS_CODE[method.paper].get(name, "–") if "reference" in method.name else "–")
        if result["outcome"] == "ok":
            votes = (f"{100 * result[vote]:.1f}" for vote in ("accuracy", "accuracy_reference_vote"))
            counts = (result.get(count, "–") for count in ("start_rounds", "n_iter", "null_steps"))
            cells += [*votes, *counts, figures(result["train_seconds"])]
        else:
            cells += [result["outcome"], *[""] * 5]
        rows.append([Cell(str(cell)) for cell in cells])
    note = "The authors' code ran under GNU Octave on the same files; its vote weighs farther neighbours more."
    return Table(head, rows, note)


def splits_table(paths: Iterable[str]) -> Table:
    """Mean and deviation of the accuracy over splits and seeds, a row per method and a column per data set.

    Parameters
    ----------
    paths : iterable of paths
        metrics.json files of runs on splits, or of methods under other names.
    """
    runs: Runs = {}
    for path in paths:
        result = read_json(path)
        runs.setdefault((result["label"], result["study"] or result["dataset"]), []).append(result)
    datasets, labels = (list(dict.fromkeys(key[place] for key in runs)) for place in (1, 0))
    best = {d: max(mean(found, "accuracy") or 0 for (_, of), found in runs.items() if of == d) for d in datasets}
    rows = []
    for label in labels:
        row = [Cell(METHODS[label].title if label in METHODS else label)]
        for dataset in datasets:
            found = runs.get((label, dataset), [])
            accuracy = mean(found, "accuracy")
            row.append(
                Cell(_accuracy(found, None, False), accuracy is not None and accuracy >= best[dataset] - 1e-9)
            )
        rows.append(row)
    count = max((len(found) for found in runs.values()), default=0)
    note = f"5-NN accuracy in per cent on rows held out: mean and deviation of up to {count} runs; bold: best."
    return Table(["method", *datasets], rows, note)


def claims_table(evidence: Evidence) -> Table:
    """Every claim of the paper's sections 3 and 4, the measurement, and whether it agrees."""
    rows = [[Cell(cell) for cell in (c.section, c.text, *c.verdict(evidence))] for c in CLAIMS]
    note = (
        "Agrees: in every measurement; in part: in some. Comparable: at most 2 points behind, which holds in the "
        "paper's own tables. Works well: at most 1 point behind the best of the sweep. Times are compared with one "
        "another as measured on this machine."
    )
    return Table(["section", "the paper's claim", "measured here", "verdict"], rows, note, words=True)


def _paper_name(dataset: str) -> str:
    return (REGISTRY[dataset].paper or "") if dataset in REGISTRY else ""


def _accuracy(found: list[dict], printed: Any, bold: bool) -> str:
    """Mean accuracy, ± its standard deviation over seeds, or the letter; the paper's figure in brackets."""
    theirs = printed[0] if isinstance(printed, tuple) else printed
    mark = f"{theirs}{'*' if bold else ''}"
    ours = mean(found, "accuracy")
    if ours is None:
        return (found[0]["outcome"] if found else "–" if theirs else "") + (f" ({mark})" if theirs else "")
    values = [100 * result["accuracy"] for result in found if result["outcome"] == "ok"]
    text = f"{100 * ours:.1f}" + (f" ± {np.std(values):.1f}" if len(values) > 1 else "")
    if isinstance(theirs, float):
        return f"{text} ({mark}, {minus(f'{100 * ours - theirs:+.1f}')})"
    return f"{text} ({theirs})" if theirs else text


def _seconds(found: list[dict], printed: Any) -> str:
    """Mean training time; the paper's and the ratio in brackets."""
    return _beside(mean(found, "train_seconds"), printed[1] if isinstance(printed, tuple) else None)


def _beside(ours: float | None, theirs: float | None) -> str:
    if ours is None:
        return f"– ({theirs})" if theirs else ""
    return figures(ours) + (f" ({theirs}, ×{figures(ours / theirs)})" if theirs else "")
