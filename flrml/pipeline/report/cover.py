"""Write the cover of the report."""

import csv
from pathlib import Path

from flrml.files import atomic_write
from flrml.pipeline.report.claims import UNTESTED

# Snakemake centres the page, so that the head of a long one and the side of a wide one are out of reach, and lets
# text be 32 rem wide.
STYLE = (
    "<style>.h-screen.items-center {align-items: safe center; justify-content: safe center} "
    ".prose.max-w-lg {max-width: 56rem} .prose table:first-of-type td {white-space: nowrap}</style>"
)


def write_cover(path: str | Path, experiment: str, summary: str | Path, claims: str | Path | None) -> None:
    """Write the cover of the report in reStructuredText: the tables ``summary`` and ``claims``, given as CSV."""
    checked = _rows(claims) if claims else []
    tested = [row for row in checked if row[-1] != UNTESTED]
    measured = [
        "What the paper claims, and what this experiment measures "
        f"({len(checked) - len(tested)} further claims cannot be tested with its runs):",
        _table(tested, "8 30 50 12"),
    ]
    parts = [
        f".. raw:: html\n\n   {STYLE}",
        f"Experiment **{experiment}**: 5-NN accuracy on the test parts, and seconds of training.",
        _table(_rows(summary)),
        *(measured if checked else []),
        "Figures and tables are in the menu; tables are sorted by a click on the head of a column.",
    ]
    with atomic_write(path) as beside:
        beside.write_text("\n\n".join(parts) + "\n")


def _rows(path: str | Path) -> list[list[str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def _table(rows: list[list[str]], widths: str = "auto") -> str:
    """Return rows, the first of which is the head, as a table in reStructuredText."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    for row in rows:
        cells = [cell.replace("*", "\\*").replace("|", "\\|").replace("_", "\\_") or "–" for cell in row]
        lines += [f"   {'*' if number == 0 else ' '} - {cell}" for number, cell in enumerate(cells)]
    return "\n".join(lines)
