"""Tables as CSV, Markdown and LaTeX (booktabs), from result files alone."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flrml.files import atomic_write, read_json
from flrml.methods import METHODS
from flrml.pipeline import paper

NOTE = (
    "Accuracy in per cent, in brackets the paper's figure and the difference to it; training time in seconds, in "
    "brackets the peak memory of its process in MB. "
    "M: out of memory, T: out of time, E: no finite non-zero solution, F: failed; bold: the best of a column."
)


@dataclass(frozen=True)
class Cell:
    """Text of a cell, and whether it stands out."""

    text: str
    bold: bool = False


@dataclass
class Table:
    """A head, rows of cells, and a note below."""

    head: list[str]
    rows: list[list[Cell]]
    note: str = ""

    def csv(self) -> str:
        """Comma-separated values."""
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([self.head, *([c.text for c in row] for row in self.rows)])
        return out.getvalue()

    def markdown(self) -> str:
        """A Markdown table."""
        lines = [self.head, ["---"] + ["---:"] * (len(self.head) - 1)]
        lines += [[f"**{c.text}**" if c.bold and c.text else c.text for c in row] for row in self.rows]
        text = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        return text + (f"\n\n{self.note}\n" if self.note else "\n")

    def latex(self) -> str:
        """A LaTeX tabular with booktabs rules."""
        body = [" & ".join(_tex(cell) for cell in self.head) + r" \\", r"\midrule"]
        for row in self.rows:
            cells = (rf"\textbf{{{_tex(c.text)}}}" if c.bold and c.text else _tex(c.text) for c in row)
            body.append(" & ".join(cells) + r" \\")
        columns = "l" + "r" * (len(self.head) - 1)
        lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", *body, r"\bottomrule", r"\end{tabular}"]
        return "\n".join(lines) + (f"\n% {self.note}\n" if self.note else "\n")

    def write(self, stem: str | Path) -> None:
        """Write ``stem``.csv, .md and .tex."""
        for suffix, content in ((".csv", self.csv()), (".md", self.markdown()), (".tex", self.latex())):
            with atomic_write(f"{stem}{suffix}") as beside:
                beside.write_text(content)


def dataset_table(rows: Iterable[dict[str, Any]]) -> Table:
    """The paper's Table 1 with ours, from :func:`flrml.datasets.paper_table`."""
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
    return Table(head, body)


def comparison_table(
    paths: Iterable[str], table: int, stands_for: dict[str, str], svd_seconds: dict[str, float]
) -> Table:
    """The paper's Table 3 (methods on an SVD) or 4 (on the data), from the metrics.json of all runs.

    Parameters
    ----------
    paths : iterable of paths
        metrics.json files.
    table : {3, 4}
        Which one.
    stands_for : dict
        Name in the paper of each data set that is the paper's own.
    svd_seconds : dict
        Seconds that the SVD of each data set took.
    """
    runs: dict[tuple[str, str], list[dict]] = {}
    for path in paths:
        result = read_json(path)
        method = METHODS[result["method"]]
        if method.table == table or method.control:
            runs.setdefault((result["method"], result["dataset"]), []).append(result)
    datasets = list(dict.fromkeys(dataset for _, dataset in runs))
    methods = [name for name in METHODS if any(method == name for method, _ in runs)]
    # A data set without any run of this table's own methods has no column.
    datasets = [d for d in datasets if any((m, d) in runs for m in methods if not METHODS[m].control)]
    head = ["method"]
    for dataset in datasets:
        mark = stands_for.get(dataset, "")
        head += [f"{dataset} ({mark or 'not the paper’s'}) %", f"{dataset} s (MB)"]
    best = {
        dataset: max((_mean(runs.get((m, dataset), []), "accuracy") or 0 for m in methods), default=0)
        for dataset in datasets
    }
    fastest = {
        dataset: min(
            (
                _mean(runs.get((m, dataset), []), "train_seconds") or np.inf
                for m in methods
                if not METHODS[m].control
            ),
            default=np.inf,
        )
        for dataset in datasets
    }
    rows = []
    for name in sorted(methods, key=lambda name: METHODS[name].control):
        method = METHODS[name]
        row = [Cell(method.label + (" (control)" if method.control else ""))]
        for dataset in datasets:
            found = runs.get((name, dataset), [])
            accuracy, seconds = _mean(found, "accuracy"), _mean(found, "train_seconds")
            printed = paper.ACCURACY.get(method.paper or "", {}).get(stands_for.get(dataset, ""))
            row.append(Cell(_accuracy(found, printed), accuracy is not None and accuracy >= best[dataset] - 1e-9))
            quickest = not method.control and seconds is not None and seconds <= fastest[dataset]
            memory = _mean(found, "peak_mb")
            row.append(Cell("" if seconds is None else f"{_figure(seconds)} ({memory:,.0f})", quickest))
        rows.append(row)
    if table == 3:
        seconds_row = [Cell("t_svd")]
        for dataset in datasets:
            seconds_row += [Cell(""), Cell(_figure(svd_seconds[dataset]) if dataset in svd_seconds else "")]
        rows.append(seconds_row)
    return Table(head, rows, NOTE)


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
        accuracy, seconds = _mean(found, "accuracy"), _mean(found, "train_seconds")
        if method is None or accuracy is None or seconds is None:
            return Cell("–")
        if METHODS[method].uses_spectrum:
            seconds += svd_seconds.get(dataset, 0.0)
        label = f"{METHODS[method].label}: " if name else ""
        best = max(_mean(each, "accuracy") or 0 for each in runs[dataset].values())
        return Cell(f"{label}{100 * accuracy:.1f} % in {_figure(seconds)} s", accuracy >= best - 1e-9)

    rows = []
    for dataset, methods in runs.items():
        others = [method for method in methods if method not in ("cosine", "flrml", "flrml-ridge")]
        other = max(others, key=lambda method: _mean(methods[method], "accuracy") or 0, default=None)
        cells = [cell(dataset, method) for method in ("cosine", "flrml", "flrml-ridge")]
        rows.append([Cell(dataset), *cells, cell(dataset, other, name=True)])
    note = "5-NN accuracy on the test part; seconds of training, with the SVD if a method needs one; bold: best."
    return Table(["data set", "cosine on X", "FLRML", "RidgeFLRML", "best other method"], rows, note)


def complexity_table(paths: Iterable[str]) -> Table:
    """The paper's Table 2: stated complexity, with the measured time per iteration and peak memory."""
    measured: dict[str, list[str]] = {}
    for path in paths:
        result = read_json(path)
        method = METHODS[result["method"]]
        reference = method.name.endswith("-reference")
        if result["outcome"] == "ok" and method.paper and result["n_iter"] and not reference:
            per_iteration = result["train_seconds"] / result["n_iter"]
            text = f"{result['dataset']} {_figure(1000 * per_iteration)} ms, {result['peak_mb']:,.0f} MB"
            measured.setdefault(method.paper, []).append(text)
    rows = []
    for name, (time, variable, constant) in paper.COMPLEXITY.items():
        ours = name.split(",")[0] if "ours" in name else "" if name in ("FLRML", "M-FLRML") else name
        rows.append([Cell(c) for c in (name, time, variable, constant, "; ".join(measured.get(ours, [])) or "–")])
    note = (
        "Per iteration: operations, entries of the variable and of the largest constant matrix; measured: wall "
        "time per iteration and peak memory of the whole process. n_I: samples of a mini-batch X_I. FLRML and FRML "
        "are as the paper states them, the others are counted from the algorithms."
    )
    return Table(["method", "time", "variable", "constant", "measured here"], rows, note)


def reproduction_table(paths: Iterable[str], stands_for: dict[str, str]) -> Table:
    """FLRML and M-FLRML on the paper's data sets: the paper, the authors' code, and ours by both votes."""
    head = [
        "data set",
        "method",
        "paper %",
        "authors' code %",
        "ours %",
        "ours, authors' vote %",
        "iterations",
        "s",
    ]
    rows = []
    for path in paths:
        result = read_json(path)
        method, name = METHODS[result["method"]], stands_for.get(result["dataset"])
        if name is None or method.paper not in paper.AUTHORS_CODE:
            continue
        cells = [result["dataset"], method.label, paper.ACCURACY[method.paper].get(name, "–")]
        cells.append(paper.AUTHORS_CODE[method.paper].get(name, "–") if "reference" in method.name else "–")
        if result["outcome"] == "ok":
            votes = (f"{100 * result[vote]:.1f}" for vote in ("accuracy", "accuracy_reference_vote"))
            cells += [*votes, result["n_iter"], _figure(result["train_seconds"])]
        else:
            cells += [result["outcome"], "", "", ""]
        rows.append([Cell(str(cell)) for cell in cells])
    note = "The authors' code ran under GNU Octave on the same files; its vote weighs farther neighbours more."
    return Table(head, rows, note)


def _mean(found: list[dict], name: str) -> float | None:
    values = [result[name] for result in found if result["outcome"] == "ok" and name in result]
    return float(np.mean(values)) if values else None


def _figure(value: float) -> str:
    """Three digits, in plain notation."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _accuracy(found: list[dict], printed: float | str | None) -> str:
    """Mean accuracy, ± its standard deviation over seeds, or the letter; the paper's figure in brackets."""
    if not found:
        return "" if printed is None else f"(paper {printed})"
    accuracy = _mean(found, "accuracy")
    if accuracy is None:
        return found[0]["outcome"] + ("" if printed is None else f" (paper {printed})")
    values = [100 * result["accuracy"] for result in found if result["outcome"] == "ok"]
    text = f"{100 * accuracy:.1f}" + (f" ± {np.std(values):.1f}" if len(values) > 1 else "")
    if isinstance(printed, float):
        text += f" ({printed}, {100 * accuracy - printed:+.1f})".replace("-", "−")
    elif printed is not None:
        text += f" (paper {printed})"
    return text


def _tex(text: str) -> str:
    replaced = text.replace("\\", r"\textbackslash ")
    for plain, tex in (
        ("%", r"\%"), ("_", r"\_"), ("&", r"\&"), ("±", r"$\pm$"), ("−", r"$-$"), ("²", r"$^2$"), ("³", r"$^3$"),
        ("–", "--"), ("’", "'"), ("|", r"$|$"),
    ):  # fmt: skip
        replaced = replaced.replace(plain, tex)
    return replaced
