"""What training starts from: rows, decompositions and triplets of a prepared data set."""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flrml.datasets import open_split
from flrml.lab.files import in_place, provenance, write_json
from flrml.rows import BinaryRows, on_disk
from flrml.spectrum import decompose
from flrml.triplets import draw_triplets

IN_MEMORY_BYTES = 4 * 2**30
PathLike = str | os.PathLike


def load_rows(path: PathLike) -> tuple[Any, NDArray]:
    """A split of a prepared data set, in memory unless it is large."""
    X, y = open_split(path)
    if isinstance(X, BinaryRows):
        if X.nnz * 8 < IN_MEMORY_BYTES:
            X = X[:]  # with its values in memory, products need not make them anew
    elif on_disk(X):
        size = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes
        if size < IN_MEMORY_BYTES:
            X = np.array(X) if isinstance(X, np.ndarray) else X.copy()
    return X, np.array(y)


def decompose_dataset(
    data: PathLike, out: PathLike, timing: PathLike, *, max_rank: int, centred: bool, seed: int
) -> dict:
    """Decompose the training rows of a prepared data set; write the spectrum, and how long it took."""
    X, _ = load_rows(Path(data) / "train")
    start = time.perf_counter()
    spectrum = decompose(X, max_rank, centred=centred, random_state=seed)
    seconds = time.perf_counter() - start
    for leftover in Path(out).parent.glob(f".{Path(out).name}.*.part"):
        leftover.unlink()  # of a killed process
    spectrum.save(out)
    record = {"seconds": seconds, "rank": spectrum.rank, **spectrum.settings, "made_by": provenance()}
    write_json(timing, record)
    return record


def draw_for_dataset(data: PathLike, out: PathLike, *, n_triplets: int, seed: int) -> None:
    """Draw the triplets of a prepared data set."""
    _, y = open_split(Path(data) / "train")
    with in_place(out) as beside, beside.open("wb") as file:
        np.save(file, draw_triplets(np.array(y), n_triplets, seed))
