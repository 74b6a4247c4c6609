"""Accuracies on rows of a training part that are held out, and a file that keeps accuracies."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flrml import decompose, draw_triplets, knn_accuracy
from flrml.exceptions import NoSolutionError
from flrml.methods import METHODS, build
from flrml.pipeline.training import accepted
from flrml.reference import decompose_centered


class Results:
    """Accuracies by data set, row of the table and seed, in a file of one JSON list a line."""

    def __init__(self, path: Path, max_rank: int):
        self.path, self.max_rank = path, max_rank
        lines = path.read_text().splitlines() if path.exists() else []
        found = [json.loads(line) for line in lines]
        self.known = {tuple(key): accuracy for rank, *key, accuracy in found if rank == max_rank}

    def add(self, data: str, row: str, seed: int, accuracy: float) -> None:
        """Keep an accuracy."""
        self.known[data, row, seed] = accuracy
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps([self.max_rank, data, row, seed, accuracy]) + "\n")

    def table(self, head: str, rows: Iterable[str], data: list[str], seeds: int) -> str:
        """Means and standard deviations in per cent, as Markdown."""
        lines = [f"| {head} | " + " | ".join(data) + " |", "|---|" + "---:|" * len(data)]
        for row in rows:
            cells = []
            for name in data:
                found = [self.known[key] for seed in range(seeds) if (key := (name, row, seed)) in self.known]
                cell = f"{100 * np.mean(found):.1f} ± {100 * np.std(found):.1f}" if found else "–"
                cells.append(cell if len(found) in (0, seeds) else f"{cell} ({len(found)} of {seeds})")
            lines.append(f"| {row} | " + " | ".join(cells) + " |")
        return "\n".join(lines)


class Validation:
    """A training part split into rows to learn from and rows to judge by.

    Parameters
    ----------
    X, y, groups
        The training part.
    kept, held : ndarray
        Numbers of the rows to learn from and to judge by.
    rank : int
        Largest rank of the SVD.
    seed : int
        Seed of triplets and methods.
    """

    def __init__(
        self, X: Any, y: NDArray, groups: NDArray | None, kept: NDArray, held: NDArray, rank: int, seed: int
    ):
        self.X, self.y, self.X_held, self.y_held = X[kept], y[kept], X[held], y[held]
        self.groups, self.seed = None if groups is None else groups[kept], seed
        self.triplets = draw_triplets(self.y, 5, seed)
        self.spectra = {"plain": decompose(self.X, rank, random_state=0)}
        self.rank = rank

    def accuracy(self, name: str, parameters: dict[str, Any]) -> float:
        """5-NN accuracy of the held rows by the method's own neighbour rule; 0 where it finds no solution."""
        method = METHODS[name]
        if method.spectrum_kind not in self.spectra:
            self.spectra[method.spectrum_kind] = decompose_centered(self.X, self.rank, random_state=0)
        model = build(name, **accepted(name, {"random_state": self.seed}), **parameters)
        given = {"triplets": self.triplets, "spectrum": self.spectra[method.spectrum_kind], "groups": self.groups}
        try:
            model.fit(self.X, self.y, **method.fit_arguments(**given))
        except NoSolutionError:
            return 0.0
        return knn_accuracy(
            model.transform(self.X),
            self.y,
            model.transform(self.X_held),
            self.y_held,
            metric=model.neighbor_metric,
            W=getattr(model, "similarity_", None),
        )
