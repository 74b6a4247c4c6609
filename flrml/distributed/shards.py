"""Row blocks in shards, the portions that one task works on.

A shard is a group of blocks of one worker, one for each of its threads. A task that sums over the rows of a shard
holds one sum, not one per block, and a pass over the data takes a task per thread, however many blocks there are.
"""

from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from distributed import Future
from numpy.typing import NDArray

from flrml.distributed.blocks import FAN_IN, RowBlocks, identity
from flrml.distributed.stored import open_together
from flrml.distributed.waiting import gather
from flrml.rows import take_rows
from flrml.rows.binary import BinaryRows


class Shards(RowBlocks):
    """The rows of a dask array, in shards at the workers."""

    def __init__(self, rows: RowBlocks):
        self.client, self.shape, self.dtype, self.workers = rows.client, rows.shape, rows.dtype, rows.workers
        threads = self.client.nthreads()
        self.places: list[str] = []  # address of the worker of each shard
        self.futures: list[Any] = []  # the blocks of each shard
        self.spans: list[list[tuple[int, int]]] = []  # first row of each of these blocks, and that after its last
        bounds = list(pairwise(rows.bounds.tolist()))
        for worker in self.workers:
            mine = [number for number, place in enumerate(rows.places) if place == worker]
            least = 2 if len(self.workers) == 1 else 1  # so that a worker that joins can take one
            count = min(len(mine), max(threads.get(worker, 1), least))
            for group in np.array_split(mine, count) if mine else ():
                self.places.append(worker)
                self.futures.append([rows.futures[number] for number in group])
                self.spans.append([bounds[number] for number in group])
        self.sizes = [sum(stop - start for start, stop in spans) for spans in self.spans]

    def scatter_rows(self, values: Any) -> list[Future]:
        """Send each shard its rows of an array of n rows."""
        parts = [np.concatenate([values[start:stop] for start, stop in spans]) for spans in self.spans]
        return [self.scatter(part, number) for number, part in enumerate(parts)]

    def align(self, y: Any) -> list[list[Future]]:
        """Compute the labels of each block of a shard at its worker, from a dask array with any blocks."""
        spans = sorted(span for spans in self.spans for span in spans)
        parts = y.rechunk((tuple(stop - start for start, stop in spans),)).to_delayed().ravel()
        by_span = dict(zip(spans, parts, strict=True))
        return [
            self.client.compute([by_span[span] for span in spans], workers=[place], allow_other_workers=True)
            for place, spans in zip(self.places, self.spans, strict=True)
        ]

    def broadcast(self, value: Future) -> list[Future]:
        """Send a value to all workers along a tree; return the copy for each shard."""
        workers = list(dict.fromkeys(self.places))
        copies = [value]
        if len(workers) > FAN_IN:
            for number, worker in enumerate(workers):
                parent = copies[number // FAN_IN]  # the value itself, then the copies of earlier workers
                copies.append(self.submit(identity, parent, at=worker))
            held = dict(zip(workers, copies[1:], strict=True))
            return [held[place] for place in self.places]
        return [value] * len(self.places)

    def locate(self, rows: NDArray) -> list[tuple[NDArray, NDArray]]:
        """Return, for each shard, the places of its rows among the given ones, and their numbers in the shard."""
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

    def pick(self, work: Any, rows: NDArray, parts: list[Any]) -> tuple[NDArray, list[Any]]:
        """Apply ``work(part, numbers)`` to the shards that have some of the rows; return places and outcomes."""
        located = self.locate(rows)
        chosen = [number for number, (places, _) in enumerate(located) if len(places)]
        futures = [
            self.submit(work, parts[number], located[number][1], at=self.places[number]) for number in chosen
        ]
        return np.concatenate([located[number][0] for number in chosen]), gather(self.client, futures)

    def take(self, rows: NDArray) -> Any:
        """Return some rows on the client, in the form of the blocks."""
        places, parts = self.pick(_take, rows, self.futures)
        return take_rows(stack_rows(parts), np.argsort(places, kind="stable"))

    def sample(self, rows: NDArray) -> "Shards":
        """Return some rows, in ascending order, as shards that stay at their workers."""
        found = copy(self)
        located = self.locate(rows)
        chosen = [number for number, (places, _) in enumerate(located) if len(places)]
        found.places = [self.places[number] for number in chosen]
        numbers, blocks = ([part[number] for number in chosen] for part in ([n for _, n in located], self.futures))
        found.futures = [[taken] for taken in found.map(_take, blocks, numbers)]
        bounds = [[np.searchsorted(rows, span).tolist() for span in self.spans[number]] for number in chosen]
        found.spans = [[(start, stop) for start, stop in spans if start < stop] for spans in bounds]
        found.sizes = [len(part) for part in numbers]
        found.shape = (len(rows), self.shape[1])
        return found

    def __getitem__(self, rows: NDArray) -> Any:
        """Return some rows on the client, as an array or a CSR matrix."""
        return self.take(rows)[:]


def stack_rows(parts: list[Any]) -> Any:
    """Return rows of several parts in memory as one; all are of the same kind."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], BinaryRows):
        return type(parts[0]).concatenate(parts)
    return sp.vstack(parts, "csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def _take(blocks: list[Any], numbers: NDArray) -> Any:
    """Return some rows of a shard; their numbers ascend within each block."""
    parts, start = [], 0
    for rows in open_together(blocks):
        end = start + rows.shape[0]
        wanted = numbers[(numbers >= start) & (numbers < end)] - start
        if len(wanted):
            parts.append(take_rows(rows, wanted))
        start = end
    return stack_rows(parts)
