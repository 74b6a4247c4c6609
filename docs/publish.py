"""Copy the tables and figures of a finished run to docs/results, and summaries into the README."""

import re
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

import yaml

from flrml.pipeline.report.catalog import FIGURES, TABLES

ROOT = Path(__file__).parents[1]
TITLES = {
    "flrml": "Results of the bundled experiment",
    "flrml-paper": "The paper, regenerated",
    "flrml-ablation": "What each choice of RidgeFLRML contributes",
    "flrml-retrieval": "Search among new classes",
    "flrml-embeddings": "Vectors of an encoder, smaller and better",
}
SUMMARISED = ("flrml", "flrml-paper")  # in the README's table


def publish(config_file: str, machine: str) -> None:
    """Replace what an earlier run left in docs/results; ``machine`` says where it ran."""
    config = yaml.safe_load((ROOT / config_file).read_text())
    results, experiment = ROOT / config["results"], config["experiment"]
    target = ROOT / "docs" / "results" / experiment
    target.mkdir(parents=True, exist_ok=True)
    written = datetime.fromtimestamp((results / "tables").stat().st_mtime, UTC)
    command = "make run" if config_file == "config.yaml" else f"make run CONFIG={config_file}"
    source = f"`{command}`, {written:%Y-%m-%d}, {machine}"
    page = [f"# {TITLES.get(experiment, experiment)}", "", f"Written by {source}.", ""]
    for name, entry in TABLES.items():
        if (table := results / "tables" / f"{name}.md").exists():
            page += [f"## {entry.title}", "", table.read_text()]
    for name, entry in FIGURES.items():
        if (figure := results / "figures" / f"{name}.png").exists():
            shutil.copy(figure, target / figure.name)
            caption = figure.with_suffix(".rst").read_text()
            page += [f"## {entry.title}", "", f"![{entry.title}]({figure.name})", "", caption]
    (target / "README.md").write_text("\n".join(page))
    _update_readme()


def _update_readme() -> None:
    """Put the summaries of all published experiments into one table of the README."""
    head: list[str] = []
    rows, notes = [], []
    for experiment in SUMMARISED:
        page = ROOT / "docs" / "results" / experiment / "README.md"
        if not page.exists():
            continue
        text = page.read_text()
        section = text.split(f"## {TABLES['summary'].title}\n")[1].split("\n## ")[0].strip().splitlines()
        table = [line for line in section if line.startswith("|")]
        head = [*table[:2], "", section[-1], ""]
        rows += table[2:]
        written = next(line for line in text.splitlines() if line.startswith("Written by"))
        notes.append(f"{written} [All its tables and figures](docs/results/{experiment}/README.md).")
    lines = [*head[:2], *rows, *head[2:], *notes]
    between = re.compile(r"(<!-- results -->\n).*?(<!-- end of results -->)", re.DOTALL)
    readme = ROOT / "README.md"
    readme.write_text(between.sub(lambda found: found[1] + "\n".join(lines) + "\n" + found[2], readme.read_text()))


if __name__ == "__main__":
    publish(*sys.argv[1:])
