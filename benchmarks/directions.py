"""Why drawn triplets can beat their expectation: what the directions beyond the classes are worth.

    python -m benchmarks.directions results/data/ng20 --rank 1500 --ridge 0.1

solves the closed form (ω = 0) without any short cut on a part of the training rows, and prints 5-NN accuracies on
others, never on the test part. The expectation knows as many directions as there are classes less one. Drawn
triplets have d: those of the classes, blurred, and others that come from the noise of drawing.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from flrml import decompose, draw_triplets
from flrml.pipeline.inputs import load_rows
from flrml.ridge.supervision import Labels, Triplets

D, LIGHT = 100, 0.1  # directions, and the weight of added ones beside the first


def leading(H: NDArray) -> tuple[NDArray, NDArray]:
    """The D leading eigenpairs of the symmetric part, descending."""
    r = len(H)
    k, P = scipy.linalg.eigh((H + H.T) / 2, subset_by_index=(r - D, r - 1))
    return k[::-1], P[:, ::-1]


def scores(V: NDArray, sigma: NDArray, label: NDArray, ridge: float, seed: int) -> Iterator[tuple[str, float]]:
    """Accuracy of each kind of directions on one split."""
    random = np.random.RandomState(seed)
    known = Labels(label)
    rows, held = known.folds(random)[0]
    learned_from, n_classes = known.subset(rows), len(np.unique(label))
    X = V * sigma
    A = (X[rows].T @ X[rows]).astype(np.float64) + ridge * np.mean(sigma.astype(np.float64) ** 2) * np.eye(
        len(sigma)
    )
    white = scipy.linalg.solve_triangular(np.linalg.cholesky(A), np.eye(len(A)), lower=True).T
    E, F = X[rows] @ white.astype(X.dtype), X[held] @ white.astype(X.dtype)

    def accuracy(k: NDArray, P: NDArray) -> float:
        B = (P * np.sqrt(np.maximum(k, 0))).astype(E.dtype)
        return float(known.judge(E @ B, rows, F @ B, held)[0].mean())

    def with_others(others: NDArray) -> float:
        beyond = np.linalg.qr(others - classes @ (classes.T @ others))[0]
        k = np.concatenate((strength, np.full(beyond.shape[1], LIGHT * strength[0])))
        return accuracy(k, np.hstack((classes, beyond)))

    expectation = E.T @ learned_from.contrast(E)
    k, P = leading(expectation)
    strength, classes = k[: n_classes - 1], P[:, : n_classes - 1]
    yield f"expectation, {n_classes - 1} directions", accuracy(strength, classes)
    for number in (5, 50):
        k, P = leading(E.T @ Triplets(draw_triplets(label[rows], number, seed), len(rows)).contrast(E))
        yield f"{number} drawn triplets, {D} directions", accuracy(k, P)
        yield (
            f"{number} drawn triplets, the first {n_classes - 1}",
            accuracy(k[: n_classes - 1], P[:, : n_classes - 1]),
        )
    count = D - n_classes + 1
    yield f"expectation and {count} random directions", with_others(random.randn(len(sigma), count))
    yield f"expectation and {count} leading axes", with_others(np.eye(len(sigma), count))
    for local in (0.01, 0.1):
        yield f"expectation, β = {local}", accuracy(*leading((1 - local) * expectation + local * (E.T @ E)))


def main() -> None:
    """Print the mean of some splits as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a prepared folder")
    parser.add_argument("--rank", type=int, default=1500)
    parser.add_argument("--ridge", type=float, default=0.1)
    parser.add_argument("--splits", type=int, default=3)
    arguments = parser.parse_args()
    X, y = load_rows(arguments.data / "train")
    spectrum = decompose(X, arguments.rank, random_state=0)
    V = spectrum @ np.eye(spectrum.rank, dtype=X.dtype)
    found: dict[str, list[float]] = {}
    for seed in range(arguments.splits):
        for name, accuracy in scores(V, spectrum.singular_values, y, arguments.ridge, seed):
            found.setdefault(name, []).append(100 * accuracy)
    print(f"| {arguments.data.name}, r = {arguments.rank}, g = {arguments.ridge} | 5-NN % |\n|---|---:|")
    for name, values in found.items():
        print(f"| {name} | {np.mean(values):.1f} ± {np.std(values):.1f} |")


if __name__ == "__main__":
    main()
