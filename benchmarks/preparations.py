"""Accuracies on M10-16 under several preparations of the grids, compared with those of the paper.

    python -m benchmarks.preparations RAW_DIR [PREPARATION ...]

measures the named preparations (all of them: about an hour of processor time) and writes
docs/results/preparations.md. Measurements are kept in preparations.json next to it and not repeated.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import normalize

from flrml import decompose, draw_triplets
from flrml.datasets.modelnet.voxels import fit_into_cube, rotation, surface
from flrml.files import read_json, write_json
from flrml.methods import METHODS, build
from flrml.neighbors import majority_vote, nearest
from flrml.reference import decompose_centered

SIZE, POSES, SAMPLES = 16, 12, 4
FULL = SAMPLES**3
TARGET = Path(__file__).parents[1] / "docs" / "results" / "preparations.md"
# Columns of the table, with the accuracies that the paper prints.
PAPER = {"mflrml-reference": 83.0, "flrml-reference": 83.4, "oasis": 83.3, "kissme": 76.2, "frml": 76.1}
TWO_ITERATIONS = "flrml-reference, 2 iterations"
COLUMNS = ("cosine", "mflrml-reference", TWO_ITERATIONS, "flrml-reference", "oasis", "kissme", "frml")
ONE_PIECE = "models in one piece"
FOLDED = ("cosine", "mflrml-reference")


def _surfaces(counts: np.ndarray) -> np.ndarray:
    return np.stack([surface(grid) for grid in (counts > 0).reshape(-1, SIZE, SIZE, SIZE)]).reshape(counts.shape)


# What a cell becomes, given how many of its samples are inside the object.
RULES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "any": lambda counts: counts > 0,
    "majority": lambda counts: 2 * counts >= FULL,
    "mean": lambda counts: counts,
    "surface": _surfaces,
}
# One scale for all poses of a model, or one per pose, by which its bounding box fills the cube.
PREPARATIONS = [f"{scale}, {rule}" for scale in ("model", "pose") for rule in RULES]


def samples_inside(grid: np.ndarray, scale_by: str, n_poses: int = POSES) -> np.ndarray:
    """Count the samples of each cell that are inside a solid grid, in every pose: SAMPLES³ in a full cell."""
    counts = np.zeros((n_poses, SIZE**3), dtype=np.uint8)
    if not grid.any():
        return counts
    columns = np.argwhere(grid.any(axis=2))
    corners = np.concatenate([columns + shift for shift in ((0, 0), (0, 1), (1, 0), (1, 1))]).astype(float)
    levels = np.flatnonzero(grid.any(axis=(0, 1)))
    bottom, top = levels[0], levels[-1] + 1
    ticks = (np.arange(SAMPLES * SIZE) + 0.5) / (SAMPLES * SIZE) - 0.5
    plane = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2)
    padded = np.pad(grid, 1)

    def cell(position: np.ndarray) -> np.ndarray:
        return np.clip(np.floor(position).astype(int) + 1, 0, len(grid) + 1)

    ends = np.column_stack((np.tile(corners, (2, 1)), np.repeat([bottom, top], len(corners))))
    centre, scale = fit_into_cube(ends)
    for pose in range(n_poses):
        turn = rotation(pose, n_poses)
        if scale_by == "pose":
            turned = corners @ turn.T
            low, high = turned.min(axis=0), turned.max(axis=0)
            scale = 1 / max((high - low).max(), top - bottom)
            centre = np.append((low + high) / 2 @ turn, (bottom + top) / 2)
        upright = padded[:, :, cell(ticks / scale + centre[2])]
        upright = upright.reshape(*padded.shape[:2], SIZE, SAMPLES).sum(axis=3, dtype=np.uint8)
        x, y = (plane @ turn / scale + centre[:2]).T
        grids = upright[cell(x), cell(y)].reshape(SIZE, SAMPLES, SIZE, SAMPLES, SIZE)
        counts[pose] = grids.sum(axis=(1, 3), dtype=np.uint8).ravel()
    return counts


def prepared(grids: Iterable[np.ndarray], preparation: str, n_poses: int = POSES) -> np.ndarray:
    """Return the unit rows of a preparation, one per model and pose."""
    scale_by, rule = preparation.split(", ")
    counts = np.concatenate([samples_inside(grid != 0, scale_by, n_poses) for grid in grids])
    return normalize(RULES[rule](counts).astype(np.float32), copy=False)


class Problem:
    """Training and test rows of a preparation; spectra are computed when a method asks for them."""

    def __init__(self, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray):
        self.X, self.y, self.X_test, self.y_test = X, y, X_test, y_test
        self.triplets = draw_triplets(y, 5, np.random.RandomState(0))
        self._spectra: dict[str, Any] = {}

    def measure(self, column: str) -> dict[str, Any]:
        """Return the 5-NN accuracy of a method, in per cent, and its iterations."""
        name = column.partition(",")[0]
        method = METHODS[name]
        limit = {"max_iter": 2} if column == TWO_ITERATIONS else {}
        parameters = {"n_components": 100, "random_state": 0} | limit
        estimator = build(name, **{key: value for key, value in parameters.items() if key in method.accepts})
        spectrum = self._spectrum(method.spectrum_kind) if method.uses_spectrum else None
        estimator.fit(self.X, self.y, **method.fit_arguments(triplets=self.triplets, spectrum=spectrum))
        W = getattr(estimator, "similarity_", None)
        neighbours, distances = nearest(
            estimator.transform(self.X), estimator.transform(self.X_test), 5, metric=method.metric, W=W
        )
        found = majority_vote(self.y[neighbours], distances)
        return {"percent": round(100 * float(np.mean(found == self.y_test)), 2), "n_iter": int(estimator.n_iter_)}

    def _spectrum(self, kind: str) -> Any:
        if kind not in self._spectra:
            self._spectra[kind] = {"centered": decompose_centered, "plain": decompose}[kind](self.X, 3000)
        return self._spectra[kind]


def load(raw: Path, preparation: str) -> Problem:
    """Prepare the training and the test part of the one-pose grids."""
    with np.load(next(raw.rglob("modelnet10_32.npz"))) as file:
        parts = []
        for split in ("train", "test"):
            rows, labels = prepared(file[f"X_{split}"], preparation), np.repeat(file[f"y_{split}"], POSES)
            parts += [rows, labels]
    return Problem(*parts)


def sources(raw: Path) -> Iterator[tuple[str, np.ndarray, int, np.ndarray]]:
    """Yield the grids of the test models from two files, the poses to make of each, and the labels of the poses."""
    with np.load(next(raw.rglob("modelnet10_test_12poses_32.npz"))) as file:
        grids = np.unpackbits(file["X"], axis=1).reshape(file["shape"])
        yield "published 12 poses", grids, 1, file["y"] - 1
    with np.load(next(raw.rglob("modelnet10_32.npz"))) as file:
        yield "one-pose grids, rotated", file["X_test"], POSES, np.repeat(file["y_test"], POSES)


def share_in_one_piece(grids: np.ndarray) -> dict[str, Any]:
    """Return the share of models whose cells are all connected, by faces, edges or corners."""
    pieces = [ndimage.label(grid, np.ones((3, 3, 3)))[1] for grid in grids]
    return {"percent": round(100 * float(np.mean(np.array(pieces) == 1)), 2)}


def cross_validate(X: np.ndarray, y: np.ndarray, column: str) -> dict[str, Any]:
    """Return the mean accuracy over five folds of models, and its standard error."""
    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(y[::POSES], y[::POSES])
    accuracies = []
    for train, test in (tuple((part[:, None] * POSES + range(POSES)).ravel() for part in fold) for fold in folds):
        accuracies.append(Problem(X[train], y[train], X[test], y[test]).measure(column)["percent"])
    return {"percent": round(float(np.mean(accuracies)), 2), "error": round(float(np.std(accuracies) / 2), 2)}


def page(records: dict[str, dict[str, dict]]) -> str:
    """Return the page of all measurements."""

    def figure(name: str, column: str) -> str:
        record = records.get(name, {}).get(column)
        if record is None:
            return "–"
        more = f" ± {record['error']:.1f}" if "error" in record else ""
        more += f" ({record['n_iter']})" if column == "flrml-reference" else ""
        return f"{record['percent']:.1f}{more}"

    def table(first: str, names: Iterable[str], columns: Iterable[str]) -> list[str]:
        columns = list(columns)
        head = [f"| {first} | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
        return head + [
            f"| {name} | " + " | ".join(figure(name, column) for column in columns) + " |" for name in names
        ]

    printed = ["| *the paper* | " + " | ".join(f"*{PAPER[c]}*" if c in PAPER else "–" for c in COLUMNS) + " |"]
    whole = table("scale per, cells", [name for name in PREPARATIONS if name in records], COLUMNS)
    folds = [name for name in records if name not in PREPARATIONS]
    return "\n".join(
        [
            "# M10-16 under several preparations",
            "",
            "5-NN accuracy in %, 47,892 training and 10,896 test rows, d = 100, seed 0; in brackets the iterations",
            "of the reference FLRML. Written by `python -m benchmarks.preparations`.",
            "",
            *whole[:2],
            *printed,
            *whole[2:],
            "",
            "The same 908 test models from two files, prepared alike (pose, any); five folds of models,",
            "with standard error:",
            "",
            *table("source", folds, (ONE_PIECE, *FOLDED)),
            "",
        ]
    )


def main() -> None:
    """Measure what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raw", type=Path, help="folder of the raw files")
    parser.add_argument(
        "names", nargs="*", metavar="PREPARATION", help=f"some of {'; '.join(PREPARATIONS)}; sources"
    )
    parser.add_argument("--columns", nargs="*", choices=COLUMNS, default=COLUMNS, help="methods (all)")
    arguments = parser.parse_args()
    kept = TARGET.with_suffix(".json")
    records: dict[str, dict[str, dict]] = read_json(kept) if kept.exists() else {}

    def measure(name: str, column: str, work: Callable[[str], dict]) -> None:
        measured = work(column)
        if kept.exists():  # another process may have added to it
            records.update(read_json(kept))
        records.setdefault(name, {})[column] = measured
        print(f"{name}: {column} {records[name][column]}", flush=True)
        write_json(kept, records)
        TARGET.write_text(page(records))

    names = arguments.names or [*PREPARATIONS, "sources"]
    for name in [name for name in names if name != "sources"]:
        missing = [column for column in arguments.columns if column not in records.get(name, {})]
        problem = load(arguments.raw, name) if missing else None
        for column in missing:
            measure(name, column, problem.measure)
    if "sources" in names:
        for name, grids, n_poses, y in sources(arguments.raw):
            if ONE_PIECE not in records.get(name, {}):
                first_poses = grids[:: POSES // n_poses]
                measure(name, ONE_PIECE, lambda _, grids=first_poses: share_in_one_piece(grids))
            missing = [column for column in FOLDED if column not in records.get(name, {})]
            X = prepared(grids, "pose, any", n_poses) if missing else None
            for column in missing:
                measure(name, column, partial(cross_validate, X, y))


if __name__ == "__main__":
    main()
