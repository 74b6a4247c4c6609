"""Print one table of ratios; each row is two things measured side by side in one process."""

import argparse
import importlib
from datetime import UTC, datetime
from pathlib import Path

MODULES = (
    "iterations",
    "decomposition",
    "minibatches",
    "neighbours",
    "alternatives",
    "voxels",
    "ridge",
    "text",
    "distributed",
)
HEAD = "| what | against | outcome |\n|---|---|---|"
PAGE = """# Benchmarks

`make bench` measures two things side by side in one process and prints their ratio, because machines are noisy.

{table}

Written by `{command}`, {date:%Y-%m-%d}, {machine}.
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*MODULES, []], help="which to run (all)")
    parser.add_argument("--page", type=Path, help="Markdown page to write the table to")
    parser.add_argument("--machine", default="", help="where this runs, for the page")
    given = parser.parse_args()
    print(HEAD, flush=True)
    lines = [HEAD]
    for name in given.names or MODULES:
        for row in importlib.import_module(f"benchmarks.{name}").rows():
            lines.append("| " + " | ".join(row) + " |")
            print(lines[-1], flush=True)
    if given.page:
        command = " ".join(["python -m benchmarks", *given.names])
        text = PAGE.format(table="\n".join(lines), command=command, date=datetime.now(UTC), machine=given.machine)
        given.page.write_text(text)


if __name__ == "__main__":
    main()
