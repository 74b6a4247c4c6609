"""Load the rows of a prepared data set, and its spectrum."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flrml.datasets.store import open_split
from flrml.exceptions import SpectrumError
from flrml.files import PathLike, set_aside
from flrml.reference.centering import CenteredRows
from flrml.rows import BinaryRows, n_bytes, on_disk
from flrml.spectrum import Spectrum

IN_MEMORY_BYTES = 4 * 2**30


def load_rows(path: PathLike) -> tuple[Any, NDArray]:
    """Load a split of a prepared data set, into memory unless it is large."""
    X, y = open_split(path)
    if isinstance(X, BinaryRows):
        if X.nnz * 8 < IN_MEMORY_BYTES:
            X = X[:]  # with its values in memory, products need not compute them each time
    elif on_disk(X) and n_bytes(X) < IN_MEMORY_BYTES:
        X = np.array(X) if isinstance(X, np.ndarray) else X.copy()
    return X, np.array(y)


def bind_spectrum(path: PathLike, X: Any, kind: str) -> Spectrum:
    """Load the spectrum of X, of the rows as they are ("plain") or "centered".

    A file that is damaged or belongs to other data is set aside, so that the next run regenerates it.
    """
    try:
        return Spectrum.load(path, CenteredRows(X) if kind == "centered" else X)
    except SpectrumError as error:
        raise SpectrumError(f"{error} (renamed to {set_aside(path).name}: run again)") from error


@contextmanager
def connection(scheduler: str | None) -> Iterator[Callable[[PathLike], tuple[Any, NDArray]]]:
    """Give the function that opens a split: in memory, or as a dask array if a scheduler's address is given.

    The workers must see the prepared data sets, and have flrml installed.
    """
    if scheduler is None:
        yield load_rows
        return
    from distributed import Client

    from flrml.distributed import open_split as open_in_blocks

    with Client(scheduler, set_as_default=True):
        yield open_in_blocks
