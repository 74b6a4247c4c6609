"""Blocks of rows that stay at their workers, and the two things done with them: map and sum.

Every task is a pure function of its arguments and every argument is a future or part of the task itself, so the
scheduler can make anything again that a dead worker held. Nothing is scattered.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from distributed import Client, Future, default_client, futures_of

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


@contextmanager
def rows_at_rest(client: Client) -> Iterator[None]:
    """Keep the scheduler from handing tasks to idle workers, which would send them the rows, for as long as this.

    Parameters
    ----------
    client : Client
        Of the cluster.
    """
    stopped = client.run_on_scheduler(_stop_stealing)
    try:
        yield
    finally:
        if stopped:
            client.run_on_scheduler(_start_stealing)


class RowBlocks:
    """The row blocks of a dask array as futures, in their order, each at a worker of its own choice.

    Parameters
    ----------
    X : dask array of shape (n, D)
        Its blocks may be NumPy arrays, CSR matrices or stored rows. Blocks that workers hold already stay there.

    Attributes
    ----------
    futures : list of Future
        The blocks.
    places : list of str
        Address of the worker that holds, or is to load, each block.
    bounds : ndarray
        Row number at which each block starts, and n.
    """

    def __init__(self, X: Any):
        self.client = connected()
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, got {X.ndim}")
        if len(X.chunks[1]) > 1:
            X = X.rechunk({1: -1})
        delayed = X.to_delayed().ravel().tolist()
        holders = self.client.who_has(futures_of(X)) if futures_of(X) else {}
        self.places = [_holder(holders, part.key) for part in delayed]
        self.workers: list[str] = []
        self.deal()
        self.futures = self._load(delayed)
        self.dtype = X.dtype
        if X.dtype not in (np.float32, np.float64):
            self.futures, self.dtype = self.map(_as_float64, self.futures), np.dtype(np.float64)
        sizes = X.chunks[0]
        if np.isnan(sizes).any():
            sizes = self.client.gather(self.map(_n_rows, self.futures))
        self.sizes = [int(size) for size in sizes]
        self.bounds = np.concatenate(([0], np.cumsum(self.sizes)))
        self.shape = (int(self.bounds[-1]), int(X.shape[1]))

    def _load(self, delayed: list[Any]) -> list[Future]:
        """Futures of the blocks, each at its place; one call a worker, as a call walks through the whole graph."""
        futures: dict[int, Future] = {}
        for worker in self.workers:
            mine = [number for number, place in enumerate(self.places) if place == worker]
            parts = [delayed[number] for number in mine]
            loaded = self.client.compute(parts, workers=[worker], allow_other_workers=True)
            futures.update(zip(mine, loaded, strict=True))
        return [futures[number] for number in range(len(delayed))]

    def deal(self) -> bool:
        """Give workers that have joined, or live on, their share of the blocks; whether anything has changed."""
        workers = sorted(self.client.nthreads())
        if not workers:
            self.client.wait_for_workers(1)
            workers = sorted(self.client.nthreads())
        if workers == self.workers:
            return False
        self.workers = workers
        hands, share = dict.fromkeys(workers, 0), -(-len(self.places) // len(workers))
        for number, place in enumerate(self.places):
            if hands.get(place, share) >= share:
                place = min(hands, key=lambda worker: hands[worker])
            self.places[number] = place
            hands[place] += 1
        return True

    def map(self, work: Callable, *lists: Any) -> list[Future]:
        """Do the work once per block, where it lies; a list has an argument for each, all else is for all."""
        count = max(len(argument) for argument in lists if isinstance(argument, list))
        columns = [argument if isinstance(argument, list) else [argument] * count for argument in lists]
        return [
            self.client.submit(work, *arguments, workers=[place], allow_other_workers=True, pure=False)
            for place, *arguments in zip(self.places[:count], *columns, strict=True)
        ]

    def given(self, value: Any, block: int | None = None) -> Future:
        """A value of the client's as a future, sent once: to the worker of a block, or to any to hand on."""
        workers = None if block is None else [self.places[block]]
        return self.client.submit(_given, value, workers=workers, allow_other_workers=block is not None, pure=False)

    def dealt(self, values: Any) -> list[Future]:
        """An array of n rows of the client's, each block given its rows."""
        return [self.given(values[start:stop], block) for block, (start, stop) in enumerate(pairwise(self.bounds))]

    def sum_future(self, parts: list[Future]) -> Future:
        """Sum of one array per block: every worker adds up those of its blocks, and one array of each travels."""
        hands: dict[str, list[Future]] = {}
        for place, part in zip(self.places[: len(parts)], parts, strict=True):
            hands.setdefault(place, []).append(part)
        return self._added([self._added(own, [place]) for place, own in hands.items()])

    def _added(self, parts: list[Future], workers: list[str] | None = None) -> Future:
        """Sum by a tree of tasks, so that few arrays need to be in memory at once."""
        choice = {"workers": workers, "allow_other_workers": workers is not None, "pure": False}
        while len(parts) > 1:
            groups = [parts[first : first + FAN_IN] for first in range(0, len(parts), FAN_IN)]
            parts = [self.client.submit(_add, group, **choice) for group in groups]
        return parts[0]

    def sum(self, parts: list[Future]) -> Any:
        """The sum itself, on the client."""
        return self.sum_future(parts).result()

    def check_finite(self) -> None:
        """Raise where a block holds NaN or infinity."""
        if not all(self.client.gather(self.map(_is_finite, self.futures))):
            raise ValueError("Input X contains NaN or infinity")


def _holder(holders: Mapping[Any, Any], key: Any) -> str:
    """A worker that has the key in memory, or none."""
    found = holders.get(key) or holders.get(str(key)) or ("",)
    return next(iter(found))


async def _stop_stealing(dask_scheduler: Any) -> bool:
    stealing = dask_scheduler.extensions.get("stealing")
    running = stealing is not None and "stealing" in dask_scheduler.periodic_callbacks
    if running:
        await stealing.stop()
    return running


async def _start_stealing(dask_scheduler: Any) -> None:
    await dask_scheduler.extensions["stealing"].start()


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
