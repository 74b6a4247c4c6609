"""Methods on several splits: how much of a difference on one test part is chance.

    python -m benchmarks.splits results/data/mnist5k results/data/shapes10-16 --methods flrml-ridge frml lmnn cosine

holds out a fifth of each training part, groups together, once per seed, trains on the rest and prints mean and
standard deviation of the 5-NN accuracies on the rows held out. Test parts are not touched. With ``--rows 400``,
training has only that many of the other rows. Each accuracy is added to ``--results`` as soon as it is known, and
is not computed again.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.validation import Results, Validation
from flrml.datasets import open_groups
from flrml.methods import METHODS
from flrml.pipeline.inputs import load_rows
from flrml.ridge.supervision import Labels


def title(folder: Path, rows: int | None) -> str:
    """Name of a column."""
    return folder.name if rows is None else f"{folder.name}, {rows} rows"


def measure(folder: Path, methods: list[str], results: Results, seeds: int, rows: int | None = None) -> None:
    """Train what is missing for one data set, on some of its rows."""
    data = title(folder, rows)
    X, y = load_rows(folder / "train")
    groups = open_groups(folder / "train")
    for seed in range(seeds):
        missing = [name for name in methods if (data, name, seed) not in results.known]
        if missing:
            random = np.random.RandomState(seed)
            kept, held = Labels(y, groups).folds(random)[0]
            if rows is not None:
                if rows > len(kept):
                    raise SystemExit(f"--rows {rows}: {folder.name} has only {len(kept)} rows to train on")
                kept = np.sort(random.choice(kept, rows, replace=False))
            split = Validation(X, y, groups, kept, held, results.max_rank, seed)
            for name in missing:
                results.add(data, name, seed, split.accuracy(name, {}))


def main() -> None:
    """Measure what is missing, then print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", type=Path, help="folders of prepared data sets")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["flrml-ridge", "cosine"])
    parser.add_argument("--results", type=Path, default=Path("results/splits.jsonl"))
    parser.add_argument("--max-rank", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, help="rows to train on, default all that are not held out")
    arguments = parser.parse_args()
    results = Results(arguments.results, arguments.max_rank)
    for folder in arguments.data:
        measure(folder, arguments.methods, results, arguments.seeds, arguments.rows)
    names = [title(folder, arguments.rows) for folder in arguments.data]
    print(results.table("method", arguments.methods, names, arguments.seeds))


if __name__ == "__main__":
    main()
