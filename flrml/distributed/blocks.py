"""Blocks of rows that stay at their workers, and the two things done with them: map and sum.

Every task is a pure function of its arguments and every argument is a future or part of the task itself, so the
scheduler can make anything again that a dead worker held. Nothing is scattered.
"""

import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from distributed import Client, Future, default_client

from flrml.distributed.stored import opened

FAN_IN = 8  # futures that one task of a sum adds up


def connected() -> Client:
    """The client of this process, or an error that says how to get one."""
    try:
        return default_client()
    except ValueError:
        raise RuntimeError(
            "X is a dask array, but this process is connected to no cluster: make a `distributed.Client(address)` "
            "first, or `distributed.Client()` for workers on this machine"
        ) from None


class RowBlocks:
    """The row blocks of a dask array as futures, in their order.

    Parameters
    ----------
    X : dask array of shape (n, D)
        Its blocks may be NumPy arrays, CSR matrices or stored rows. Blocks that workers hold already stay there.
    place : callable, optional
        Called with the number of blocks; returns the worker that each block should be loaded by.
    """

    def __init__(self, X: Any, place: Callable[[int], Sequence[str]] | None = None):
        self.client = connected()
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, got {X.ndim}")
        if len(X.chunks[1]) > 1:
            X = X.rechunk({1: -1})
        delayed = X.to_delayed().ravel().tolist()
        places = [None] * len(delayed) if place is None else place(len(delayed))
        self.futures: list[Future] = [
            self.client.compute(part, workers=worker, allow_other_workers=True)
            for part, worker in zip(delayed, places, strict=True)
        ]
        if X.dtype not in (np.float32, np.float64):
            self.futures = self.map(_as_float64, self.futures)
        self.dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        sizes = X.chunks[0]
        if np.isnan(sizes).any():
            sizes = self.client.gather(self.map(_n_rows, self.futures))
        self.sizes = [int(size) for size in sizes]
        self.bounds = np.concatenate(([0], np.cumsum(self.sizes)))
        self.shape = (int(self.bounds[-1]), int(X.shape[1]))

    def map(self, work: Callable, *lists: Any, **constants: Any) -> list[Future]:
        """Do the work once per block; lists give each block its own argument, anything else is the same for all."""
        count = max(len(argument) for argument in lists if isinstance(argument, list))
        columns = [argument if isinstance(argument, list) else [argument] * count for argument in lists]
        return self.client.map(work, *columns, pure=False, **constants)

    def given(self, value: Any) -> Future:
        """A value of the client's as a future: sent once, then handed from worker to worker."""
        return self.client.submit(_given, value, pure=False)

    def sum_future(self, parts: list[Future]) -> Future:
        """Sum of one array per block, added up in a tree over the workers."""
        while len(parts) > 1:
            groups = [parts[first : first + FAN_IN] for first in range(0, len(parts), FAN_IN)]
            parts = [self.client.submit(_add, group, pure=False) for group in groups]
        return parts[0]

    def sum(self, parts: list[Future]) -> Any:
        """The sum itself, on the client."""
        return self.sum_future(parts).result()

    def split(self, values: Any) -> list[Any]:
        """An array of n rows, cut into the rows of each block."""
        return [values[start:stop] for start, stop in pairwise(self.bounds)]

    def check_finite(self) -> None:
        """Raise where a block holds NaN or infinity."""
        if not all(self.client.gather(self.map(_is_finite, self.futures))):
            raise ValueError("Input X contains NaN or infinity")


def first(pairs: list[Future], client: Client) -> list[Future]:
    """First entry of every pair."""
    return client.map(operator.itemgetter(0), pairs, pure=False)


def _given(value: Any) -> Any:
    return value


def _add(parts: list[Any]) -> Any:
    total = parts[0].copy() if isinstance(parts[0], np.ndarray) else parts[0]
    for part in parts[1:]:
        total += part
    return total


def _n_rows(block: Any) -> int:
    return block.shape[0]


def _as_float64(block: Any) -> Any:
    return opened(block)[:].astype(np.float64)


def _is_finite(block: Any) -> bool:
    rows = opened(block)
    if not hasattr(rows, "data") and not isinstance(rows, np.ndarray):
        return True  # rows of zeros and ones
    return bool(np.isfinite(rows.data if sp.issparse(rows) else rows).all())
