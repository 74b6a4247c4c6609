"""Print one table of ratios; each row is two things measured side by side in one process."""

import argparse
import importlib

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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*MODULES, []], help="which to run (all)")
    print("| what | against | outcome |\n|---|---|---|")
    for name in parser.parse_args().names or MODULES:
        for row in importlib.import_module(f"benchmarks.{name}").rows():
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
