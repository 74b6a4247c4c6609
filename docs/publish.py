"""Copy the tables and figures of the last `make run` to docs/results, and the summary into the README."""

import re
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS, TARGET = ROOT / "results", ROOT / "docs" / "results"
TABLES = ("summary", "with_svd", "without_svd", "complexity", "datasets")
FIGURES = ("ridge", "front", "convergence", "margin", "batches")


def main(machine: str) -> None:
    """Replace what an earlier run left in docs/results; ``machine`` says where it ran."""
    TARGET.mkdir(exist_ok=True)
    page = ["# Results of the bundled experiment", ""]
    written = datetime.fromtimestamp((RESULTS / "tables" / "summary.md").stat().st_mtime, UTC)
    source = f"`make run`, {written:%Y-%m-%d}, {machine}"
    page += [f"Written by {source}.", ""]
    for name in TABLES:
        page += [f"## {name.replace('_', ' ').capitalize()}", "", (RESULTS / "tables" / f"{name}.md").read_text()]
    for name in FIGURES:
        shutil.copy(RESULTS / "figures" / f"{name}.png", TARGET / f"{name}.png")
        page += [f"## Figure: {name}", "", f"![{name}]({name}.png)", ""]
    (TARGET / "README.md").write_text("\n".join(page))
    summary = (RESULTS / "tables" / "summary.md").read_text().strip()
    readme = (ROOT / "README.md").read_text()
    between = re.compile(r"(<!-- results -->\n).*?(<!-- end of results -->)", re.DOTALL)
    text = f"\\g<1>{summary}\n\nWritten by {source}; [all tables and figures](docs/results/README.md).\n\\g<2>"
    (ROOT / "README.md").write_text(between.sub(text, readme))


if __name__ == "__main__":
    main(sys.argv[1])
