"""Rows that stay at the workers, in portions, and the operations on them: map and sum.

Every task is a pure function of its arguments and every argument is a future or part of the task itself, so the
scheduler can recompute anything that a dead worker held.
"""

import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from distributed import Client, Future, futures_of
from numpy.typing import NDArray
from sklearn.utils.validation import _check_n_features

from flrml.distributed.cluster import active_client, gather, wait_for_worker, without_work_stealing
from flrml.distributed.stored import StoredRows, open_together, opened
from flrml.metric import LowRankMetric
from flrml.ridge.scaling import squares_of
from flrml.rows import (
    BinaryRows,
    canonical,
    check_largest,
    check_rows,
    check_sparse,
    is_dask,
    is_sparse,
    largest_value,
    n_bytes,
    take_rows,
)

FAN_IN = 8  # futures that one task of a sum adds up


@dataclass(eq=False)
class RemoteRows:
    """The rows of a dask array at the workers, in portions; a portion is what one task works on.

    A portion is one block, or with :meth:`by_thread` some blocks of one worker. Portions of one block each are in
    the order of their rows.
    """

    client: Client
    places: list[str]  # address of the worker that holds, or is to load, each portion
    futures: list[list[Future]]  # the blocks of each portion
    spans: list[list[tuple[int, int]]]  # first row of each of these blocks, and that after its last
    shape: tuple[int, int]
    dtype: np.dtype
    workers: list[str]

    @classmethod
    def load(cls, X: Any) -> "RemoteRows":
        """Load a dask array at the workers, one block per portion; each stays where it is."""
        client, X = active_client(), whole_rows(X)
        dtype = np.dtype(X.dtype if X.dtype in (np.float32, np.float64) else np.float64)
        delayed = X.to_delayed().ravel().tolist()
        holders = client.who_has(futures_of(X)) if futures_of(X) else {}
        places = [next(iter(holders.get(part.key, ())), "") for part in delayed]
        rows = cls(client, places, [], [], X.shape, dtype, [])
        rows.rebalance()
        loaded: dict[int, Future] = {}
        for worker in rows.workers:  # in one call per worker, as a call walks through the whole graph
            mine = [number for number, place in enumerate(rows.places) if place == worker]
            parts = [delayed[number] for number in mine]
            futures = client.compute(parts, workers=[worker], allow_other_workers=True)
            loaded.update(zip(mine, futures, strict=True))
        blocks = [loaded[number] for number in range(len(delayed))]
        found = gather(client, rows.map(_describe, blocks, dtype))
        for number, (shape, _) in enumerate(found):
            if shape[1:] != X.shape[1:]:
                raise ValueError(f"X has {X.shape[1]} columns, but its block {number} has the shape {shape}")
        usual = [
            rows.submit(_convert, block, dtype, at=place) if needed else block
            for place, block, (_, needed) in zip(rows.places, blocks, found, strict=True)
        ]
        bounds = np.cumsum([0, *(shape[0] for shape, _ in found)]).tolist()
        spans = [[span] for span in pairwise(bounds)]
        return replace(rows, futures=[[block] for block in usual], spans=spans, shape=(bounds[-1], X.shape[1]))

    @classmethod
    @contextmanager
    def for_fit(cls, model: LowRankMetric, X: Any, *, reset: bool = True) -> Iterator["RemoteRows"]:
        """Load the rows to fit an estimator to, and check their shape; meanwhile, tasks stay with their rows."""
        with without_work_stealing(active_client()):
            rows, name = cls.load(X), type(model).__name__
            n = rows.shape[0]
            if n < 3:
                raise ValueError(f"Found array with {n} sample(s) while a minimum of 3 is required by {name}.")
            _check_n_features(model, rows, reset=reset)
            yield rows

    def by_thread(self) -> "RemoteRows":
        """Return the same rows in one portion per thread of each worker.

        A task that sums over the rows of a portion holds one sum, not one per block, and a pass over the data takes
        a task per thread, however many blocks there are.
        """
        threads, least = self.client.nthreads(), 2 if len(self.workers) == 1 else 1  # one for a worker that joins
        groups: list[Any] = []
        for worker in self.workers:
            mine = [number for number, place in enumerate(self.places) if place == worker]
            count = min(len(mine), max(threads.get(worker, 1), least))
            groups += np.array_split(mine, count) if mine else []
        return replace(
            self,
            places=[self.places[numbers[0]] for numbers in groups],
            futures=[[block for number in numbers for block in self.futures[number]] for numbers in groups],
            spans=[[span for number in numbers for span in self.spans[number]] for numbers in groups],
        )

    def subset(self, rows: NDArray, **changes: Any) -> "RemoteRows":
        """Return some rows, in ascending order, that stay at their workers."""
        bounds = [[np.searchsorted(rows, span).tolist() for span in spans] for spans in self.spans]
        spans = [[(start, stop) for start, stop in found if start < stop] for found in bounds]
        places = [place for place, found in zip(self.places, spans, strict=True) if found]
        taken = [[part] for part in self.pick(_take, rows, self.futures)[1]]
        spans = [found for found in spans if found]
        return replace(self, places=places, futures=taken, spans=spans, shape=(len(rows), self.shape[1]), **changes)

    def through(self, operator: Callable[[Any], Any] | None) -> "RemoteRows":
        """Return the same blocks wrapped by a class of operators, or as they are."""
        if operator is None:
            return self
        return replace(self, futures=[[block] for block in self.map(_wrap, self.futures, operator)])

    @functools.cached_property
    def summary(self) -> "Summary":
        """Facts about the rows."""
        return gather(self.client, [self.sum_future(self.map(_summarize, self.futures))])[0]

    def check_values(self) -> None:
        """Raise ValueError if a value is not finite, or too large or small to be squared."""
        if not np.isfinite(self.summary.largest):
            raise ValueError("Input X contains NaN or infinity")
        check_largest(self.summary.largest)

    def rebalance(self) -> None:
        """Assign portions evenly to the workers that are alive."""
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

    def map(self, work: Callable, *lists: Any) -> list[Future]:
        """Apply a function to every portion at its worker; lists have an argument per portion."""
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

    def scatter(self, value: Any, portion: int | None = None) -> Future:
        """Send a value to the worker of a portion, or to any."""
        with warnings.catch_warnings():
            # A task that carries the value can be repeated when a worker dies; Dask advises against large ones.
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            return self.submit(identity, value, at=None if portion is None else self.places[portion])

    def scatter_rows(self, values: Any) -> list[Future]:
        """Send each portion its rows of an array of n rows."""
        parts = [np.concatenate([values[start:stop] for start, stop in spans]) for spans in self.spans]
        return [self.scatter(part, portion) for portion, part in enumerate(parts)]

    def broadcast(self, value: Future) -> list[Future]:
        """Send a value to all workers along a tree; return the copy for each portion."""
        workers = list(dict.fromkeys(self.places))
        copies = [value]
        if len(workers) > FAN_IN:
            for number, worker in enumerate(workers):
                parent = copies[number // FAN_IN]  # the value itself, then the copies of earlier workers
                copies.append(self.submit(identity, parent, at=worker))
            held = dict(zip(workers, copies[1:], strict=True))
            return [held[place] for place in self.places]
        return [value] * len(self.places)

    def sum_future(self, parts: list[Future]) -> Future:
        """Sum one array per portion; every worker adds those of its portions and sends one array."""
        return self._added(self.sums_by_worker(parts), 1)[0]

    def sums_by_worker(self, parts: list[Future]) -> list[Future]:
        """Return partial sums of one array per portion, at most one per worker."""
        by_worker: dict[str, list[Future]] = {}
        for place, part in zip(self.places, parts, strict=True):
            by_worker.setdefault(place, []).append(part)
        return self._added([self._added(sums, 1, place)[0] for place, sums in by_worker.items()], FAN_IN)

    def _added(self, parts: list[Future], most: int, at: str | None = None) -> list[Future]:
        """Sum by a tree of tasks until at most ``most`` arrays are left, so that few are in memory at once."""
        while len(parts) > most:
            groups = [parts[first : first + FAN_IN] for first in range(0, len(parts), FAN_IN)]
            parts = [self.submit(add_up, group, at=at) for group in groups]
        return parts

    def sum(self, parts: list[Future], *, small: bool = False) -> Any:
        """Sum one array per portion on the client, which adds the last few itself if they are small."""
        totals = self.sums_by_worker(parts) if small else [self.sum_future(parts)]
        # Deleting futures here would send a message, and the following tasks would wait for it.
        self._summed = parts, totals
        return add_up(gather(self.client, totals))

    def locate(self, rows: NDArray) -> list[tuple[NDArray, NDArray]]:
        """Return for each portion the places of its rows among the given ones, and their numbers in the portion."""
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        found = []
        for spans in self.spans:
            before, places, numbers = 0, [], []
            for start, stop in spans:
                first, last = np.searchsorted(ordered, (start, stop))
                places.append(order[first:last])
                numbers.append(ordered[first:last] - start + before)
                before += stop - start
            found.append((np.concatenate(places), np.concatenate(numbers)))
        return found

    def pick(self, work: Callable, rows: NDArray, parts: list[Any]) -> tuple[NDArray, list[Future]]:
        """Apply ``work(part, numbers)`` to the portions that have some of the rows; return places and outcomes."""
        located = self.locate(rows)
        futures = [
            self.submit(work, part, numbers, at=place)
            for place, part, (_, numbers) in zip(self.places, parts, located, strict=True)
            if len(numbers)
        ]
        return np.concatenate([places for places, _ in located]), futures

    def take(self, rows: NDArray) -> Any:
        """Return some rows on the client, in the form of the blocks."""
        places, parts = self.pick(_take, rows, self.futures)
        return take_rows(stack_rows(gather(self.client, parts)), np.argsort(places, kind="stable"))

    def __getitem__(self, rows: NDArray) -> Any:
        """Return some rows on the client, as an array or a CSR matrix."""
        return self.take(rows)[:]


@dataclass(frozen=True)
class Summary:
    """Facts about rows; those of two parts can be added."""

    squares: NDArray[np.float64]  # sum of squares of each feature
    largest: float  # absolute value; nan if a value is not finite
    nnz: int  # number of stored values
    n_bytes: int

    def __add__(self, other: "Summary") -> "Summary":
        return Summary(
            self.squares + other.squares,
            float(np.maximum(self.largest, other.largest)),  # nan if either is
            self.nnz + other.nnz,
            self.n_bytes + other.n_bytes,
        )


def identity(value: Any) -> Any:
    """Return the value; a task that copies it to a worker."""
    return value


def add_up(parts: list[Any]) -> Any:
    """Return the sum of some values."""
    total = parts[0].copy() if isinstance(parts[0], np.ndarray) and len(parts) > 1 else parts[0]
    for part in parts[1:]:
        total += part
    return total


def whole_rows(X: Any) -> Any:
    """Return a dask array with blocks of whole rows; raise ValueError if its description is not that of rows."""
    if not hasattr(X, "rechunk"):
        kind = type(X).__name__
        raise ValueError(f"X is a dask {kind}; give a dask array, such as X.to_dask_array(lengths=True)")
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got {X.ndim}")
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported: give the real part or the absolute value")
    if X.shape[1] == 0:
        raise ValueError(f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    return X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X


def on_client(labels: Any) -> Any:
    """Return labels or groups on the client, which gathers those of a dask array."""
    if not is_dask(labels):
        return labels
    client = active_client()
    return gather(client, [client.compute(labels)])[0]


def stack_rows(parts: list[Any]) -> Any:
    """Return rows of several parts in memory as one; all are of the same kind."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], BinaryRows):
        return type(parts[0]).concatenate(parts)
    return sp.vstack(parts, "csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def _describe(block: Any, dtype: np.dtype) -> tuple[tuple[int, ...], bool]:
    """Return the shape of a block, and whether it needs to be converted to an array or CSR matrix of that type."""
    if isinstance(block, StoredRows):
        return block.shape, False
    check_sparse(block, "a block of X")
    dense = type(block) in (np.ndarray, np.memmap)
    usual = block.format == "csr" and canonical(block) is block if sp.issparse(block) else dense
    return np.shape(block), not (usual and block.dtype == dtype)


def _convert(block: Any, dtype: np.dtype) -> Any:
    return check_rows(block).astype(dtype, copy=False)


def _wrap(blocks: list[Any], operator: Callable[[Any], Any]) -> Any:
    (block,) = blocks
    wrapped = operator(opened(block))
    wrapped.X = block  # rows on disk are opened again at every use
    return wrapped


def _summarize(blocks: list[Any]) -> Summary:
    return functools.reduce(Summary.__add__, map(_summarize_block, open_together(blocks)))


def _summarize_block(X: Any) -> Summary:
    nnz = X.nnz if is_sparse(X) else X.size
    return Summary(squares_of(X) * X.shape[0], largest_value(X), nnz, n_bytes(X))


def _take(blocks: list[Any], numbers: NDArray) -> Any:
    """Return some rows of a portion; their numbers ascend within each block."""
    parts, start = [], 0
    for rows in open_together(blocks):
        end = start + rows.shape[0]
        wanted = numbers[(numbers >= start) & (numbers < end)] - start
        if len(wanted):
            parts.append(take_rows(rows, wanted))
        start = end
    return stack_rows(parts)
