"""M-FLRML on row blocks: a mini-batch per worker and step, of the blocks that it holds.

The rows are dealt out into *shards*, one per worker; a shard has random numbers and triplets of its own. Every
worker keeps a replica of the map and brings it up to date with the small updates of the others. A step is a pure
function of the step before, wherever it runs: what a dead worker was to do, another does with the same outcome,
after it has been sent the map once.
"""

import uuid
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from distributed import Future
from numpy.typing import NDArray
from sklearn.base import clone

from flrml.distributed.blocks import RowBlocks, without_work_stealing
from flrml.distributed.step import Update, forget, merge, step_of_shard, task_of_shard
from flrml.distributed.waiting import gather
from flrml.estimators import warn_if_close
from flrml.minibatch import MFLRML
from flrml.triplets import check_triplets

MOST_TRIES = 10  # of one step, when workers die under it


def fit_mflrml(
    model: MFLRML,
    X: Any,
    y: Any,
    triplets: Any,
    n_batches: int,
    callback: Callable[[MFLRML], None] | None,
    *,
    reset: bool,
) -> MFLRML:
    """Learn from mini-batches of a dask array.

    In each step every worker draws one mini-batch from the blocks that it holds, and the map moves by the mean of
    their descent directions. With one worker the result is that of the same fit in memory, bit for bit. Triplets
    are drawn within the rows of a worker; of given triplets, those are used whose three rows lie at one worker. A
    worker that joins takes over blocks and adds a mini-batch to every further step. A worker that dies is replaced,
    and the result stays what it would have been.

    What is sent in a step: from every worker to every other and to the client, its update of the map. That is a
    matrix of n_I × d numbers and the non-zeros of the mini-batch's n_I rows, a few hundred of them (n_I is at most
    three times ``batch_triplets``, or d + 10); or, where that is less, the d numbers of every feature that occurs
    in the mini-batch, which is always so for dense X. The other rows of X stay where they are. The D × d map is
    sent only to a worker that joins during the fit or takes over for a dead one, and by every ``partial_fit``.
    ``update_bytes_`` lists the size of the updates of every step.

    A worker needs memory for the map (D × d), its blocks, and a mini-batch. The client has the map and the labels.

    Parameters
    ----------
    model : MFLRML
        The estimator.
    X : dask array
        Rows. Blocks from :func:`flrml.distributed.open_split` stay on disk but for the rows of mini-batches.
    y, triplets
        As for ``fit``; both are brought to the client.
    n_batches : int
        Steps.
    callback : callable, optional
        Called with the estimator after every step.
    reset : bool
        Start again from an empty map.
    """
    shards = Shards(model, X, None if y is None else np.asarray(y), triplets, reset=reset)
    if reset:
        model.update_bytes_ = []
    with without_work_stealing(shards.client), closing(shards):
        for batch in range(n_batches):
            shards.step()
            model._log(f"step {batch + 1}/{n_batches}: mean hinge {model.history_[-1]:.4g} margins", model.history_)
            if callback is not None:
                shards.settle()
                callback(model)
    model._set_map()
    return model


@dataclass
class Shard:
    """Rows of one worker: blocks, the triplets among them, and its random numbers after the last step."""

    worker: str
    blocks: list[Future]
    task: Future
    random: dict = field(default_factory=dict)


class Shards:
    """The rows of a dask array, dealt out to workers, and the steps made on them.

    Parameters
    ----------
    model : MFLRML
        The estimator on the client, which is moved by every step.
    X, y, triplets
        As in :func:`fit_mflrml`.
    reset : bool
        Start again from an empty map.
    """

    def __init__(self, model: MFLRML, X: Any, y: NDArray | None, triplets: Any, *, reset: bool):
        self.rows, self.model, self.fit = RowBlocks(X), model, uuid.uuid4().hex
        self.client = self.rows.client
        self._check(y, triplets, reset)
        self.y, self.triplets = y, None if triplets is None else check_triplets(triplets, self.rows.shape[0])
        if reset:
            warn_if_close(min(self.rows.shape), self.rows.shape[0], type(model).__name__)
            model._initialize(self.rows.shape, self.rows.dtype)
        self.updates: list[Future] = []
        self.moved, self.settled = 0, False  # steps of this fit so far; whether the map was settled after the last
        self._assign()

    def step(self) -> None:
        """One mini-batch of every shard, their updates averaged into the map."""
        if self.rows.rebalance() and len(set(self.rows.places)) > len(self.shards):
            self._assign()
        self._spread()
        futures = [self._submit(shard) for shard in self.shards]
        found = []
        for number, shard in enumerate(self.shards):
            futures[number], update = self._finish(shard, futures[number])
            found.append(update)
            shard.random = update.random
        if len(self.shards) == 1:
            self.model._random.set_state(found[0].random)
        self.model._apply(merge(found))
        self.model.update_bytes_.append(sum(update.nbytes for update in found))
        self.updates, self.moved, self.settled = futures, self.moved + 1, False

    def settle(self) -> None:
        """Apply the scale to the map of the model, and before the next step to the replicas too."""
        self.model._set_map()
        self.settled = True

    def close(self) -> None:
        """Drop the replicas of the workers."""
        with suppress(Exception):  # a worker may be dying
            self.client.run(forget, self.fit)

    def _check(self, y: NDArray | None, triplets: Any, reset: bool) -> None:
        """Check what the estimator checks of data in memory."""
        (n, n_features), model = self.rows.shape, self.model
        if n < 3:
            raise ValueError(f"Found array with {n} sample(s) while a minimum of 3 is required by MFLRML.")
        if reset:
            model.n_features_in_ = n_features
        elif n_features != model.n_features_in_:
            raise ValueError(
                f"X has {n_features} features, but MFLRML is expecting {model.n_features_in_} features as input"
            )
        if triplets is None and y is None:
            model._check_triplets(self.rows, None, None, model.n_triplets, None)  # type: ignore[arg-type]  # raises
        if triplets is None:
            model._check_labels(self.rows, y)

    def _assign(self) -> None:
        """Make a shard for every worker that has blocks."""
        by_worker: dict[str, list[int]] = {}
        for number, place in enumerate(self.rows.places):
            by_worker.setdefault(place, []).append(number)
        seeds: list[Any] = [self.model._random]
        if len(by_worker) > 1:
            seeds = [np.random.RandomState(seed) for seed in self.model._random.randint(2**31, size=len(by_worker))]
        self.shards = [
            self._shard(worker, numbers, seed)
            for (worker, numbers), seed in zip(by_worker.items(), seeds, strict=True)
        ]

    def _spread(self) -> None:
        """Assign every shard to a living worker, evenly."""
        loads = dict.fromkeys(self.rows.workers, 0)
        share = -(-len(self.shards) // len(loads))
        for shard in self.shards:
            if loads.get(shard.worker, share) >= share:
                shard.worker = min(loads, key=lambda worker: loads[worker])
            loads[shard.worker] += 1

    def _shard(self, worker: str, numbers: list[int], random: np.random.RandomState) -> Shard:
        bounds = self.rows.bounds
        own = np.concatenate([np.arange(bounds[number], bounds[number + 1]) for number in numbers])
        if self.triplets is None:
            assert self.y is not None
            given, labels = None, self.y[own]
        else:
            given, labels = _within(self.triplets, own), None
        task = self.client.submit(
            task_of_shard,
            labels,
            given,
            self.model.n_triplets,
            random.get_state(legacy=False),
            workers=[worker],
            allow_other_workers=True,
            pure=False,
        )
        return Shard(worker, [self.rows.futures[number] for number in numbers], task)

    def _submit(self, shard: Shard, start: Future | None = None) -> Future:
        model = self.model
        return self.client.submit(
            step_of_shard,
            self.fit,
            self.moved,
            clone(model).set_params(verbose=0, random_state=None),
            (model.n_iter_, model._map.shape, model._map.dtype),
            shard.task,
            shard.blocks,
            shard.random,
            self.updates,
            self.settled,
            start,
            len(self.shards),
            workers=[shard.worker],
            allow_other_workers=True,
            pure=False,
        )

    def _finish(self, shard: Shard, future: Future) -> tuple[Future, Update]:
        """Return the update of a shard; a worker that lacks the map is sent it."""
        for _ in range(MOST_TRIES):
            try:
                (outcome,) = gather(self.client, [future])
                if isinstance(outcome, Update):
                    return future, outcome
                shard.worker = outcome.worker
                (start,) = self.client.scatter(
                    [(self.model._map, self.model._scale)], workers=[shard.worker], hash=False
                )
                future = self._submit(shard, start)
            except (CancelledError, TimeoutError, OSError, KeyError):  # the map died with the worker
                self.rows.rebalance()
                shard.worker = self.rows.workers[0]
                future = self._submit(shard)
        raise RuntimeError(f"no worker could finish a mini-batch in {MOST_TRIES} tries")


def _within(triplets: NDArray, own: NDArray) -> NDArray:
    """Return the triplets whose rows are all among the given ones, renumbered."""
    place = np.searchsorted(own, triplets)
    found = own[np.minimum(place, len(own) - 1)] == triplets
    kept = place[found.all(axis=1)]
    if len(kept) == 0:
        raise ValueError(
            f"none of the {len(triplets)} triplets has its three rows at one worker: shuffle the rows, use larger "
            "blocks or fewer workers, or give labels"
        )
    return kept
