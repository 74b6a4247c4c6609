"""Tables as CSV, Markdown and LaTeX (booktabs)."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from flrml.files import atomic_write


@dataclass(frozen=True)
class Cell:
    """Text of a cell, and whether it stands out."""

    text: str
    bold: bool = False


@dataclass
class Table:
    """A head, rows of cells, a note below, and whether the cells are words, which are set to the left."""

    head: list[str]
    rows: list[list[Cell]]
    note: str = ""
    words: bool = False

    def csv(self) -> str:
        """Comma-separated values."""
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([self.head, *([c.text for c in row] for row in self.rows)])
        return out.getvalue()

    def markdown(self) -> str:
        """A Markdown table."""
        lines = [self.head, ["---"] + ["---" if self.words else "---:"] * (len(self.head) - 1)]
        lines += [[f"**{c.text}**" if c.bold and c.text else c.text for c in row] for row in self.rows]
        text = "\n".join("| " + " | ".join(_markdown(cell) for cell in line) + " |" for line in lines)
        return text + (f"\n\n{_markdown(self.note)}\n" if self.note else "\n")

    def latex(self) -> str:
        """A LaTeX tabular with booktabs rules."""
        body = [" & ".join(_tex(cell) for cell in self.head) + r" \\", r"\midrule"]
        for row in self.rows:
            cells = (rf"\textbf{{{_tex(c.text)}}}" if c.bold and c.text else _tex(c.text) for c in row)
            body.append(" & ".join(cells) + r" \\")
        columns = "l" + ("l" if self.words else "r") * (len(self.head) - 1)
        lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", *body, r"\bottomrule", r"\end{tabular}"]
        note = "".join(f"\n% {line}" for line in self.note.splitlines())
        return "\n".join(lines) + note + "\n"

    def write(self, stem: str | Path) -> None:
        """Write ``stem``.csv, .md and .tex."""
        for suffix, content in ((".csv", self.csv()), (".md", self.markdown()), (".tex", self.latex())):
            with atomic_write(f"{stem}{suffix}") as beside:
                beside.write_text(content)


def figures(value: float) -> str:
    """Return three digits, in plain notation."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def minus(text: str) -> str:
    """Return a number with a true minus sign."""
    return text.replace("-", "−")


def _markdown(text: str) -> str:
    return text.replace("|", "\\|")


def _tex(text: str) -> str:
    replaced = text.replace("\\", r"\textbackslash ")
    for plain, tex in (
        ("%", r"\%"), ("_", r"\_"), ("&", r"\&"), ("±", r"$\pm$"), ("−", r"$-$"), ("²", r"$^2$"), ("³", r"$^3$"),
        ("¹", r"$^1$"), ("×", r"$\times$"), ("–", "--"), ("’", "'"), ("|", r"$|$"),
    ):  # fmt: skip
        replaced = replaced.replace(plain, tex)
    return replaced
