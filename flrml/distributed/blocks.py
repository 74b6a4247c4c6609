"""Blocks of rows that stay at their workers, and the two operations on them: map and sum.

Every task is a pure function of its arguments and every argument is a future or part of the task itself, so the
scheduler can recompute anything that a dead worker held.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from copy import copy
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.sparse as sp
from distributed import Client, Future, default_client, futures_of
from distributed.client import ClosedClientError
from sklearn.utils.validation import _check_n_features

from flrml.compat import start_work_stealing, stop_work_stealing
from flrml.distributed.stored import opened
from flrml.distributed.waiting import (
    SCHEDULER_IS_GONE,
    ClusterLostError,
    gather,
    scheduler_is_gone,
    wait_for_worker,
)
from flrml.metric import LowRankMetric

FAN_IN = 8  # futures that one task of a sum adds up


def active_client() -> Client:
    """Return the Dask client of this process, or raise an error with a remedy."""
    try:
        return default_client()
    except ValueError:
        raise RuntimeError(
            "no Dask client is active; create one with `distributed.Client()` for workers on this machine, or "
            "`distributed.Client(address)` for a cluster"
        ) from None


@contextmanager
def without_work_stealing(client: Client) -> Iterator[None]:
    """Keep the scheduler from moving tasks to idle workers, which would send them the rows.

    If the scheduler dies meanwhile, ClusterLostError replaces errors of the connection.
    """
    try:
        stopped = client.run_on_scheduler(stop_work_stealing)
        try:
            yield
        finally:
            if stopped and client.status == "running":
                client.run_on_scheduler(start_work_stealing)
    except (OSError, CancelledError, ClosedClientError) as error:
        if not scheduler_is_gone(client):
            raise
        raise ClusterLostError(SCHEDULER_IS_GONE) from error


class RowBlocks:
    """The row blocks of a dask array as futures, in order, each assigned to a worker, which may hold it already."""

    def __init__(self, X: Any):
        self.client = active_client()
        _check_dask_array(X)
        if len(X.chunks[1]) > 1:
            X = X.rechunk({1: -1})
        delayed = X.to_delayed().ravel().tolist()
        holders = self.client.who_has(futures_of(X)) if futures_of(X) else {}
        # Address of the worker that holds, or is to load, each block.
        self.places = [_holder(holders, part.key) for part in delayed]
        self.workers: list[str] = []
        self.rebalance()
        self.futures = self._load(delayed)
        self.dtype = X.dtype
        if X.dtype not in (np.float32, np.float64):
            self.futures, self.dtype = self.map(_as_float64, self.futures), np.dtype(np.float64)
        sizes = X.chunks[0]
        if np.isnan(sizes).any():
            sizes = [shape[0] for shape in gather(self.client, self.map(attrgetter("shape"), self.futures))]
        self.sizes = [int(size) for size in sizes]
        self.bounds = np.concatenate(([0], np.cumsum(self.sizes)))  # row at which each block starts, and n
        self.shape = (int(self.bounds[-1]), int(X.shape[1]))

    def check(self, model: LowRankMetric, *, reset: bool = True) -> None:
        """Check the shape of X like an estimator in memory, and set its number of features."""
        n, name = self.shape[0], type(model).__name__
        if n < 3:
            raise ValueError(f"Found array with {n} sample(s) while a minimum of 3 is required by {name}.")
        _check_n_features(model, self, reset=reset)

    def _load(self, delayed: list[Any]) -> list[Future]:
        """Load the blocks at their workers, in one call per worker, as a call walks through the whole graph."""
        futures: dict[int, Future] = {}
        for worker in self.workers:
            mine = [number for number, place in enumerate(self.places) if place == worker]
            parts = [delayed[number] for number in mine]
            loaded = self.client.compute(parts, workers=[worker], allow_other_workers=True)
            futures.update(zip(mine, loaded, strict=True))
        return [futures[number] for number in range(len(delayed))]

    def rebalance(self) -> None:
        """Assign blocks evenly to the workers that are alive."""
        workers = sorted(self.client.nthreads())
        if not workers:
            wait_for_worker(self.client)
            workers = sorted(self.client.nthreads())
        if workers == self.workers:
            return
        self.workers = workers
        least, more = divmod(len(self.places), len(workers))
        room = {worker: least + (number < more) for number, worker in enumerate(workers)}
        moved = []
        for number, place in enumerate(self.places):
            if room.get(place, 0) > 0:
                room[place] -= 1
            else:
                moved.append(number)
        # Neighbours stay together, so that those on disk are read as one.
        homes = [worker for worker in workers for _ in range(room[worker])]
        for number, home in zip(moved, homes, strict=True):
            self.places[number] = home

    def memory(self) -> float:
        """Return the memory of all workers in bytes, from the smallest limit."""
        limits = [worker["memory_limit"] for worker in self.client.scheduler_info(n_workers=-1)["workers"].values()]
        return len(limits) * min((limit for limit in limits if limit), default=np.inf)

    def through(self, operator: Callable[[Any], Any] | None) -> "RowBlocks":
        """Return the same blocks wrapped by a class of operators, or as they are."""
        if operator is None:
            return self
        wrapped = copy(self)
        wrapped.futures = self.map(_wrap, self.futures, operator)
        return wrapped

    def map(self, work: Callable, *lists: Any) -> list[Future]:
        """Apply a function to every block at its worker; a list has one argument per block, others are shared."""
        count = max(len(argument) for argument in lists if isinstance(argument, list))
        columns = [argument if isinstance(argument, list) else [argument] * count for argument in lists]
        return [
            self.submit(work, *arguments, at=place)
            for place, *arguments in zip(self.places[:count], *columns, strict=True)
        ]

    def submit(self, work: Callable, *arguments: Any, at: str | None = None) -> Future:
        """Run a task at a worker, or at any other one if that is gone or none is named."""
        place: dict = {} if at is None else {"workers": [at], "allow_other_workers": True}
        return self.client.submit(work, *arguments, **place, pure=False)

    def scatter(self, value: Any, block: int | None = None) -> Future:
        """Send a value to the worker of a block, or to any."""
        with warnings.catch_warnings():
            # A task that carries the value can be repeated when a worker dies; Dask advises against large ones.
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            return self.submit(identity, value, at=None if block is None else self.places[block])

    def scatter_rows(self, values: Any) -> list[Future]:
        """Send each block its rows of an array of n rows."""
        bounds = enumerate(pairwise(self.bounds))
        return [self.scatter(values[start:stop], block) for block, (start, stop) in bounds]

    def sum_future(self, parts: list[Future]) -> Future:
        """Sum one array per block; every worker adds those of its blocks and sends one array."""
        return self._added(self.sums_by_worker(parts))

    def sums_by_worker(self, parts: list[Future]) -> list[Future]:
        """Return partial sums of one array per block, at most one per worker."""
        by_worker: dict[str, list[Future]] = {}
        for place, part in zip(self.places[: len(parts)], parts, strict=True):
            by_worker.setdefault(place, []).append(part)
        return self._added_but_few([self._added(sums, place) for place, sums in by_worker.items()])

    def _added(self, parts: list[Future], at: str | None = None) -> Future:
        """Sum by a tree of tasks, so that few arrays are in memory at once."""
        parts = self._added_but_few(parts, at)
        return self.submit(add_up, parts, at=at) if len(parts) > 1 else parts[0]

    def _added_but_few(self, parts: list[Future], at: str | None = None) -> list[Future]:
        """Sum until one task can add the rest."""
        while len(parts) > FAN_IN:
            groups = [parts[first : first + FAN_IN] for first in range(0, len(parts), FAN_IN)]
            parts = [self.submit(add_up, group, at=at) for group in groups]
        return parts

    def sum(self, parts: list[Future], *, small: bool = False) -> Any:
        """Sum one array per block on the client, which adds the last few itself if they are small."""
        totals = self.sums_by_worker(parts) if small else [self.sum_future(parts)]
        # Deleting futures here would send a message, and the following tasks would wait for it.
        self._summed = parts, totals
        return add_up(gather(self.client, totals))

    def check_finite(self) -> None:
        """Raise ValueError if a block holds NaN or infinity."""
        if not all(gather(self.client, self.map(_is_finite, self.futures))):
            raise ValueError("Input X contains NaN or infinity")


def _holder(holders: Mapping[Any, Any], key: Any) -> str:
    """Return a worker that has the key in memory, or an empty string."""
    found = holders.get(key) or holders.get(str(key)) or ("",)
    return next(iter(found))


def identity(value: Any) -> Any:
    """Return the value; a task that copies it to a worker."""
    return value


def add_up(parts: list[Any]) -> Any:
    """Return the sum of some values."""
    total = parts[0].copy() if isinstance(parts[0], np.ndarray) and len(parts) > 1 else parts[0]
    for part in parts[1:]:
        total += part
    return total


def _wrap(block: Any, operator: Callable[[Any], Any]) -> Any:
    wrapped = operator(opened(block))
    wrapped.X = block  # rows on disk are opened again at every use
    return wrapped


def _as_float64(block: Any) -> Any:
    return opened(block)[:].astype(np.float64)


def _check_dask_array(X: Any) -> None:
    """Raise ValueError if a dask collection cannot be rows, as far as its description tells."""
    if not hasattr(X, "rechunk"):
        kind = type(X).__name__
        raise ValueError(f"X is a dask {kind}; give a dask array, such as X.to_dask_array(lengths=True)")
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got {X.ndim}")
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported: give the real part or the absolute value")
    if X.shape[1] == 0:
        raise ValueError(f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")


def _is_finite(block: Any) -> bool:
    rows = opened(block)
    if not hasattr(rows, "data") and not isinstance(rows, np.ndarray):
        return True  # rows of zeros and ones
    return bool(np.isfinite(rows.data if sp.issparse(rows) else rows).all())
