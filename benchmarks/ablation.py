"""What each part of the ridge variant is worth: 5-NN accuracy with each of them changed, one at a time.

    python -m benchmarks.ablation results/data/r8 results/data/mnist5k --max-rank 500 --seeds 3

Data sets are prepared folders. "auto" is the variant as it is; every other row changes one thing.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from flrml import FLRML, decompose, draw_triplets, knn_accuracy, ridge
from flrml.datasets import open_groups
from flrml.lab.inputs import load_rows


@contextmanager
def constant(name: str, value: Any) -> Iterator[None]:
    """Run with another value of a constant of the solver."""
    before = getattr(ridge, name)
    setattr(ridge, name, value)
    try:
        yield
    finally:
        setattr(ridge, name, before)


def changes(y: np.ndarray, groups: Any) -> dict[str, Callable[..., Any]]:
    """Ways to fit, by name; each takes X, spectrum and seed."""

    def fit(X: Any, spectrum: Any, seed: int, *, drawn: int = 0, grouped: bool = True, **parameters: Any) -> FLRML:
        model = FLRML(variant="ridge", random_state=seed, **parameters)
        known = {"triplets": draw_triplets(y, drawn, seed)} if drawn else {"y": y}
        return model.fit(X, **known, spectrum=spectrum, groups=groups if grouped else None)

    def flat(X: Any, spectrum: Any, seed: int) -> FLRML:
        model = fit(X, spectrum, seed)
        used = model.weights_ > 1e-6 * model.weights_.max()
        model.components_ = model.components_[used] / np.sqrt(model.weights_[used])[:, None]
        return model

    def no_hinge(X: Any, spectrum: Any, seed: int) -> FLRML:
        with constant("MARGIN", 10.0):  # every triplet is inside
            return fit(X, spectrum, seed)

    found = {
        "auto": fit,
        "no ridge (g = 0.001)": lambda *a: fit(*a, ridge=1e-3),
        "own geometry (g = 1000)": lambda *a: fit(*a, ridge=1e3),
        "flat weights": flat,
        "5 random triplets": lambda *a: fit(*a, drawn=5),
        "50 random triplets": lambda *a: fit(*a, drawn=50),
        "classes only (local = 0)": lambda *a: fit(*a, local=0.0),
        "no labels (local = 1), then rounds": lambda *a: fit(*a, local=1.0),
        "closed form only (rounds = 0)": lambda *a: fit(*a, rounds=0),
        "rounds without hinge": no_hinge,
        "nothing chosen (1, 0.1, 3)": lambda *a: fit(*a, ridge=1.0, local=0.1, rounds=3),
    }
    if groups is not None:
        found["groups not told"] = lambda *a: fit(*a, grouped=False)
    return found


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--max-rank", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    for folder in arguments.data:
        (X, y), (X_test, y_test) = (load_rows(folder / part) for part in ("train", "test"))
        spectrum = decompose(X, arguments.max_rank, random_state=0)
        print(f"\n| {folder.name}, r = {spectrum.rank} | accuracy % |\n|---|---:|", flush=True)
        for name, fit in changes(y, open_groups(folder / "train")).items():
            accuracies = []
            for seed in range(arguments.seeds):
                model = fit(X, spectrum, seed)
                accuracies.append(100 * knn_accuracy(model.transform(X), y, model.transform(X_test), y_test))
            print(f"| {name} | {np.mean(accuracies):.1f} ± {np.std(accuracies):.1f} |", flush=True)


if __name__ == "__main__":
    main()
