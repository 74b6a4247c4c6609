"""What training starts from: rows, decompositions and triplets of a prepared data set."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flrml.datasets import open_split
from flrml.files import atomic_write, write_json
from flrml.pipeline.provenance import provenance
from flrml.rows import BinaryRows, fingerprint, on_disk
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


@contextmanager
def connection(scheduler: str | None) -> Iterator[Callable[[PathLike], tuple[Any, NDArray]]]:
    """The function that opens a split: from memory, or as a dask array where a scheduler's address is given.

    Parameters
    ----------
    scheduler : str or None
        Address of a Dask scheduler whose workers see the prepared data sets and have flrml installed.
    """
    if scheduler is None:
        yield load_rows
        return
    from distributed import Client

    from flrml.distributed import open_split as open_in_blocks

    with Client(scheduler, set_as_default=True):
        yield open_in_blocks


def decompose_dataset(
    data: PathLike,
    out: PathLike,
    timing: PathLike,
    *,
    max_rank: int,
    centred: bool,
    seed: int,
    scheduler: str | None = None,
) -> dict:
    """Decompose the training rows of a prepared data set; write the spectrum, and how long it took."""
    X, _ = load_rows(Path(data) / "train")
    start = time.perf_counter()
    if scheduler is None:
        spectrum = decompose(X, max_rank, centred=centred, random_state=seed)
    else:
        from flrml.distributed import decompose_stored

        with connection(scheduler) as open_rows:
            blocks = open_rows(Path(data) / "train")[0]
            spectrum = decompose_stored(blocks, max_rank, centred=centred, seed=seed, fingerprint=fingerprint(X))
    seconds = time.perf_counter() - start

    spectrum.save(out)
    record = {"seconds": seconds, "rank": spectrum.rank, **spectrum.settings, "made_by": provenance()}
    write_json(timing, record)
    return record


def draw_for_dataset(data: PathLike, out: PathLike, *, n_triplets: int, seed: int) -> None:
    """Draw the triplets of a prepared data set."""
    _, y = open_split(Path(data) / "train")
    with atomic_write(out) as beside, beside.open("wb") as file:
        np.save(file, draw_triplets(np.array(y), n_triplets, seed))
