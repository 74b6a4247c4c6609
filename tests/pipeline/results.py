"""Small hand-made result files."""

from pathlib import Path
from typing import Any

from flrml.files import write_json
from flrml.pipeline.report.results import Results

MADE_BY = {"python": "3.11", "flrml": "0", "numpy": "2", "scipy": "1", "scikit-learn": "1", "git_commit": "abc"}


def run(dataset: str, method: str, accuracy: float | None = None, *, seed: int = 0, **more: Any) -> dict:
    """The metrics of a run; without an accuracy, of one that ended with E."""
    common = {
        "dataset": dataset,
        "method": method,
        "label": method,
        "study": None,
        "seed": seed,
        "parameters": {"n_components": 20},
        "data": {
            part: {"name": f"{dataset} {part}", "digest": digest, "rows": 200, "features": 64, "source": part}
            for part, digest in (("train", "0123456789abcdef"), ("test", "fedcba9876543210"))
        },
        "started": 1_700_000_000.0 + seed,
        "peak_mb": 140.0,
        "made_by": MADE_BY,
    }
    if accuracy is None:
        return common | {"outcome": "E", "reason": "no solution"} | more
    ended = {"outcome": "ok", "accuracy": accuracy, "train_seconds": 2.0, "evaluate_seconds": 1.0, "n_iter": 4}
    ended |= {"n_test": 200, "metric": "cosine", "recall_at_1": accuracy - 0.1, "map_at_r": accuracy / 2}
    return common | ended | {"history": [8.0, 4.0, 2.0, 1.0]} | more


def point(
    dataset: str, axis: str, value: float, accuracies: list[float], *, batches: int = 0, method: str | None = None
) -> dict:
    """A point of a sweep with a repeat per accuracy; a negative accuracy stands for a repeat that ended with T."""
    repeats = []
    for seed, accuracy in enumerate(accuracies):
        if accuracy < 0:
            repeats.append({"seed": seed, "outcome": "T", "reason": "too slow", "peak_mb": 1.0})
            continue
        scores = {"accuracy": accuracy, "recall_at_1": accuracy - 0.1, "map_at_r": accuracy / 2}
        repeats.append({"seed": seed, "outcome": "ok", "peak_mb": 1.0} | scores)
        if batches:
            repeats[-1]["steps"] = list(range(1, batches + 1))
            repeats[-1]["accuracies"] = [accuracy / 2] * (batches - 1) + [accuracy]
    method = method or ("mflrml" if batches else "flrml")
    return {
        "dataset": dataset,
        "method": method,
        "sweep": "batches" if batches else "margin",
        "parameters": {"n_components": 20},
        axis: value,
        "points": repeats,
        "started": 1_700_000_000.0,
        "made_by": MADE_BY,
    }


def growth(axis: str, method: str, points: dict[int, float | None]) -> dict:
    """Seconds by size; None stands for a size that ended with M."""
    measured = [
        {"size": size, "outcome": "M", "reason": "too large", "peak_mb": 900.0}
        if seconds is None
        else {"size": size, "outcome": "ok", "seconds": seconds, "peak_mb": 100.0 + size, "n_iter": 2}
        for size, seconds in points.items()
    ]
    return {"dataset": "digits", "method": method, "axis": axis, "points": measured, "made_by": MADE_BY}


def files(folder: Path, contents: list[dict]) -> list[str]:
    """Write each content to a file of its own; return the paths."""
    paths = [folder / f"{number}.json" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        write_json(path, content)
    return [str(path) for path in paths]


def read(folder: Path, **contents: list[dict]) -> Results:
    """Write contents of each kind to files, and read them as figures and tables do."""
    return Results.read({kind: files(folder / kind, found) for kind, found in contents.items()})
