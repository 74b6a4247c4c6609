"""Choose the baselines' open parameters on validation data: a fifth of each training part, never the test part.

    python -m benchmarks.choose_parameters results/data/r8 results/data/mnist5k --methods kissme rmml

prints, for each method, every point of its grid with the 5-NN accuracy on each data set, best mean first. The
winners are kept in flrml/methods.py by hand.
"""

import argparse
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.validation import Validation
from flrml.datasets import open_split

RANK = 500
GRIDS: dict[str, dict[str, list]] = {
    "oasis": {"C": [1e-5, 1e-4, 1e-3, 1e-2, 1e-1], "n_passes": [1, 5]},
    "kissme": {"ridge": [1e-3, 1e-2, 1e-1, 1.0], "max_rank": [100, 200, 500]},
    "rmml": {"lam": [1e-3, 1e-2, 1e-1, 1.0, 10.0]},
    "lmnn": {"n_targets": [3, 5], "n_impostors": [20, 50]},
    "lrsml": {"alpha": [1e-4, 1e-3, 1e-2], "rho": [0.1, 1.0, 10.0]},
    "frml": {"lam": [1e-6, 1e-5, 1e-4, 1e-3]},
    "scml": {"shrinkage": [0.01, 0.1, 0.5]},
    "drml": {"lam": [1e-4, 1e-3, 1e-2, 1e-1]},
    "sgdinc": {"eta": [1.0, 10.0, 100.0], "lam": [1e-4, 1e-3, 1e-2]},
    "lda": {"shrinkage": [0.01, 0.1, 0.3, 0.6]},
    "nca": {"scale": [3.0, 10.0]},
}


def points(grid: dict[str, list]) -> Iterator[dict[str, Any]]:
    """Every combination of a grid's values."""
    for values in product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", type=Path, help="folders of prepared data sets")
    parser.add_argument("--methods", nargs="+", choices=GRIDS, default=list(GRIDS))
    arguments = parser.parse_args()
    data = []
    for folder in arguments.data:
        X, y = open_split(folder / "train")
        kept, held = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=1)
        data.append(Validation(X, y, None, kept, held, RANK, 0))
    for name in arguments.methods:
        found = []
        for parameters in points(GRIDS[name]):
            start = time.perf_counter()
            accuracies = [100 * part.accuracy(name, parameters) for part in data]
            found.append((np.mean(accuracies), accuracies, parameters, time.perf_counter() - start))
        print(f"{name}: {', '.join(folder.name for folder in arguments.data)}")
        for mean, accuracies, parameters, seconds in sorted(found, key=lambda point: -point[0]):
            print(f"  {mean:5.1f}  {' '.join(f'{a:5.1f}' for a in accuracies)}  {seconds:6.1f} s  {parameters}")


if __name__ == "__main__":
    main()
