"""What each part of RidgeFLRML contributes: 5-NN accuracy with each of them changed, one at a time.

    python -m benchmarks.ablation r8 mnist5k shapes10-16 --max-rank 500 --seeds 5

A data set is a prepared folder, or a name that is prepared into the folder ``--prepared``. "auto" is the variant
as it is; every other row changes one thing. Each accuracy is added to ``--results`` as soon as it is known, and is
not computed again: a run that was cut goes on with the same command.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.validation import Results
from flrml import RidgeFLRML, draw_triplets, knn_accuracy
from flrml.datasets import open_groups, prepare
from flrml.exceptions import FlrmlWarning
from flrml.loss import softplus
from flrml.pipeline.inputs import load_rows
from flrml.ridge import plane as solver
from flrml.ridge.supervision import Labels, Triplets

FULL_RANK = 0  # no decomposition takes part
Fit = Callable[[Any, np.ndarray, Any, int], RidgeFLRML]


@contextmanager
def replaced(place: Any, name: str, value: Any) -> Iterator[None]:
    """Run with another value of a constant or function of the solver."""
    before = getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, before)


def plain(**parameters: Any) -> Fit:
    """A fit with some parameters given."""

    def fit(X: Any, y: np.ndarray, groups: Any, seed: int) -> RidgeFLRML:
        return RidgeFLRML(random_state=seed, **parameters).fit(X, y, groups=groups)

    return fit


def with_other(place: Any, name: str, value: Any) -> Fit:
    """A fit with a constant or function of the solver replaced."""

    def fit(*arguments: Any) -> RidgeFLRML:
        with replaced(place, name, value):
            return plain()(*arguments)

    return fit


def without_groups(X: Any, y: np.ndarray, groups: Any, seed: int) -> RidgeFLRML:
    """A fit that is not told which rows show the same thing."""
    return plain()(X, y, None, seed)


def sampled(number: int) -> Callable[[Labels, np.ndarray], np.ndarray]:
    """The contrasts of some random triplets per sample, in place of the expectation."""

    def contrast_gram(labels: Labels, Y: np.ndarray) -> np.ndarray:
        with warnings.catch_warnings(action="ignore", category=FlrmlWarning):  # some are alone in their class
            drawn = draw_triplets(labels.label, number, 0)
        return Triplets(drawn, len(Y)).contrast_gram(Y)

    return contrast_gram


CHANGES: dict[str, Fit] = {
    "auto": plain(),
    "no ridge (g = 0.001)": plain(ridge=1e-3),
    "almost no whitening (g = 1000)": plain(ridge=1e3),
    "whitening by the total scatter (ω = 0)": plain(within=0.0),
    "whitening without most of the classes' scatter (ω = 0.9)": plain(within=0.9),
    "smoothed weights": with_other(solver, "weights", softplus),
    "5 random triplets": with_other(Labels, "contrast_gram", sampled(5)),
    "classes only (β = 0)": plain(local=0.0),
    "mostly classes (β = 0.1)": plain(local=0.1),
    "the data's own geometry, then rounds (β = 1)": plain(local=1.0),
    "no rounds": plain(rounds=0),
    "rounds without hinge": plain(margin=10.0),  # every triplet is inside
    "nothing chosen (g = 1, ω = 0.9, β = 0.1, 10 rounds)": plain(ridge=1.0, within=0.9, local=0.1, rounds=10),
    "without `groups`": without_groups,
}


def measure(folder: Path, results: Results, seeds: int) -> None:
    """Fit what is missing for one data set."""
    groups = open_groups(folder / "train")
    missing = [
        (change, seed)
        for change in CHANGES
        for seed in range(seeds)
        if (folder.name, change, seed) not in results.known and (groups is not None or change != "without `groups`")
    ]
    if not missing:
        return
    (X, y), (X_test, y_test) = (load_rows(folder / part) for part in ("train", "test"))
    for change, seed in missing:
        model = CHANGES[change](X, y, groups, seed)
        results.add(folder.name, change, seed, knn_accuracy(model.transform(X), y, model.transform(X_test), y_test))


def main() -> None:
    """Measure what is missing, then print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", help="prepared folders, or names of data sets")
    parser.add_argument("--prepared", type=Path, default=Path("results/data"))
    parser.add_argument("--results", type=Path, default=Path("results/ablation.jsonl"))
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    results, names = Results(arguments.results, FULL_RANK), []
    for name in arguments.data:
        folder = Path(name) if Path(name).is_dir() else arguments.prepared / name
        if not folder.is_dir():
            prepare(name, folder)
        measure(folder, results, arguments.seeds)
        names.append(folder.name)
    print(results.table("change", CHANGES, names, arguments.seeds))


if __name__ == "__main__":
    main()
