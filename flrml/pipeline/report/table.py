"""Tables as CSV, Markdown, LaTeX (booktabs) and HTML that sorts."""

import csv
import io
from dataclasses import dataclass
from html import escape
from pathlib import Path

from flrml.files import atomic_write

# A page of its own: a click on a head sorts by the first number of the cells, or by their text.
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><style>
body {{ font: 14px/1.4 system-ui, sans-serif; margin: 1.5em; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: .3em .7em; border-bottom: 1px solid #ddd; text-align: {align}; vertical-align: top; }}
th:first-child, td:first-child {{ text-align: left; }}
th {{ cursor: pointer; border-bottom: 2px solid #444; position: sticky; top: 0; background: white; }}
p {{ color: #555; max-width: 60em; }}
</style></head><body><table><thead>{head}</thead><tbody>{body}</tbody></table><p>{note}</p><script>
const number = text => parseFloat(text.replace(/,/g, "").replace("−", "-"));
document.querySelectorAll("th").forEach((head, column) => head.onclick = () => {{
  const body = document.querySelector("tbody"), up = head.dataset.up !== "1";
  head.dataset.up = up ? "1" : "";
  const key = row => row.children[column].textContent;
  [...body.rows].sort((a, b) => {{
    const [x, y] = [number(key(a)), number(key(b))];
    const order = isNaN(x) && isNaN(y) ? key(a).localeCompare(key(b)) : isNaN(x) ? 1 : isNaN(y) ? -1 : x - y;
    return up ? order : -order;
  }}).forEach(row => body.append(row));
}});
</script></body></html>
"""


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

    def html(self) -> str:
        """A page whose rows are sorted by a click on the head of a column."""
        head = "<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in self.head) + "</tr>"
        body = ""
        for row in self.rows:
            cells = (f"<b>{escape(c.text)}</b>" if c.bold else escape(c.text) for c in row)
            body += "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
        return PAGE.format(head=head, body=body, note=escape(self.note), align="left" if self.words else "right")

    def write(self, stem: str | Path) -> None:
        """Write ``stem``.csv, .md, .tex and .html."""
        formats = {".csv": self.csv, ".md": self.markdown, ".tex": self.latex, ".html": self.html}
        for suffix, content in ((suffix, make()) for suffix, make in formats.items()):
            with atomic_write(f"{stem}{suffix}") as temporary:
                temporary.write_text(content)


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
