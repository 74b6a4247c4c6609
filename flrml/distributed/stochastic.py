"""M-FLRML on row blocks: a mini-batch per worker and step, of the blocks that it holds.

The rows are dealt out into *shards*, one per worker; a shard has random numbers and triplets of its own. Every
worker keeps a replica of the map and brings it up to date with the small updates of the others. A step is a pure
function of the step before, wherever it runs: what a dead worker was to do, another does with the same outcome,
after it has been sent the map once.
"""

import threading
import uuid
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from dask.sizeof import sizeof
from distributed import Future, get_worker
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from threadpoolctl import threadpool_limits

from flrml.distributed.blocks import RowBlocks, rows_at_rest
from flrml.distributed.stored import opened
from flrml.minibatch import MFLRML
from flrml.triplets import check_triplets, contrast_matrix, draw_triplets, triplet_counts

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
        Start anew.
    """
    shards = Shards(model, X, None if y is None else np.asarray(y), triplets, reset=reset)
    if reset:
        model.update_bytes_ = []
    with rows_at_rest(shards.client), closing(shards):
        for batch in range(n_batches):
            shards.step()
            model._say(f"step {batch + 1}/{n_batches}: mean hinge {model.history_[-1]:.4g} margins")
            if callback is not None:
                shards.settle()
                callback(model)
    model._settle()
    return model


class _Replica(MFLRML):
    """An estimator that works out a step without moving the map."""

    def _average(self, X: Any, C: NDArray, means: NDArray | None, rho: float) -> None:
        self.update = (X, C, means)


@dataclass
class Update:
    """How one mini-batch wants to move the map: Lᵀ by ρ (Xᵀ C − means C), X in few rows."""

    X: Any
    C: NDArray
    means: NDArray | None
    weights: NDArray
    hinge: float
    random: dict

    @property
    def nbytes(self) -> int:
        """Size when it is sent."""
        rows = (self.X.data, self.X.indices, self.X.indptr) if sp.issparse(self.X) else (self.X,)
        return sum(part.nbytes for part in (*rows, self.C, self.weights))


@sizeof.register(Update)
def _size_of_update(update: Update) -> int:
    return update.nbytes


@dataclass
class Held:
    """A worker's replica of the map after some number of steps of a fit."""

    steps: int
    map: NDArray
    scale: float
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class Stale:
    """A worker's answer where it lacks the map of this step."""

    worker: str


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
        Start anew.
    """

    def __init__(self, model: MFLRML, X: Any, y: NDArray | None, triplets: Any, *, reset: bool):
        self.rows, self.model, self.fit = RowBlocks(X), model, uuid.uuid4().hex
        self.client = self.rows.client
        self._check(y, triplets, reset)
        self.y, self.triplets = y, None if triplets is None else check_triplets(triplets, self.rows.shape[0])
        if reset:
            (n, n_features), model._random = self.rows.shape, check_random_state(model.random_state)
            d = model._directions(min(n, n_features), f"the {n} rows or {n_features} columns of X")
            model._map, model._scale = np.zeros((n_features, d), dtype=self.rows.dtype), 1.0
            model.n_iter_, model.history_ = 0, np.empty(0)
        self.updates: list[Future] = []
        self.moved, self.settled = 0, False  # steps of this fit so far; whether the map was settled after the last
        self._deal()

    def step(self) -> None:
        """One mini-batch of every shard, their updates averaged into the map."""
        if self.rows.deal() and len(set(self.rows.places)) > len(self.shards):
            self._deal()
        self._spread()
        futures = [self._submit(shard) for shard in self.shards]
        found = []
        for number, shard in enumerate(self.shards):
            futures[number], update = self._finish(shard, futures[number])
            found.append(update)
            shard.random = update.random
        if len(self.shards) == 1:
            self.model._random.set_state(found[0].random)
        move(self.model, found)
        self.model.weights_ = np.mean([update.weights for update in found], axis=0).astype(found[0].weights.dtype)
        self.model.history_ = np.append(self.model.history_, np.mean([update.hinge for update in found]))
        self.model.update_bytes_.append(sum(update.nbytes for update in found))
        self.updates, self.moved, self.settled = futures, self.moved + 1, False

    def settle(self) -> None:
        """Settle the map of the model, and before the next step the replicas too."""
        self.model._settle()
        self.settled = True

    def close(self) -> None:
        """Let the workers drop their replicas."""
        with suppress(Exception):  # a worker may be dying
            self.client.run(_forget, self.fit)

    def _check(self, y: NDArray | None, triplets: Any, reset: bool) -> None:
        """What the estimator checks of data in memory."""
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
            model._triplets(self.rows, None, None, None)  # type: ignore[arg-type]  # says what is missing
        if triplets is None:
            check_consistent_length(self.rows, column_or_1d(y))
            check_classification_targets(y)

    def _deal(self) -> None:
        """A shard for every worker that has blocks."""
        hands: dict[str, list[int]] = {}
        for number, place in enumerate(self.rows.places):
            hands.setdefault(place, []).append(number)
        seeds: list[Any] = [self.model._random]
        if len(hands) > 1:
            seeds = [np.random.RandomState(seed) for seed in self.model._random.randint(2**31, size=len(hands))]
        self.shards = [
            self._shard(worker, numbers, seed) for (worker, numbers), seed in zip(hands.items(), seeds, strict=True)
        ]

    def _spread(self) -> None:
        """Every shard to a living worker, none of them with more than its share."""
        hands = dict.fromkeys(self.rows.workers, 0)
        share = -(-len(self.shards) // len(hands))
        for shard in self.shards:
            if hands.get(shard.worker, share) >= share:
                shard.worker = min(hands, key=lambda worker: hands[worker])
            hands[shard.worker] += 1

    def _shard(self, worker: str, numbers: list[int], random: np.random.RandomState) -> Shard:
        bounds = self.rows.bounds
        own = np.concatenate([np.arange(bounds[number], bounds[number + 1]) for number in numbers])
        if self.triplets is None:
            assert self.y is not None
            given, labels = None, self.y[own]
        else:
            given, labels = _within(self.triplets, own), None
        task = self.client.submit(
            _task_of_shard,
            labels,
            given,
            len(own),
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
            _step_of_shard,
            self.fit,
            self.moved,
            model.get_params() | {"verbose": 0, "random_state": None},
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
        """The update of a shard; a worker that lacks the map is sent it."""
        for _ in range(MOST_TRIES):
            try:
                outcome = future.result()
                if isinstance(outcome, Update):
                    return future, outcome
                shard.worker = outcome.worker
                (start,) = self.client.scatter(
                    [(self.model._map, self.model._scale)], workers=[shard.worker], hash=False
                )
                future = self._submit(shard, start)
            except (CancelledError, TimeoutError, OSError, KeyError):  # the map died with the worker
                self.rows.deal()
                shard.worker = self.rows.workers[0]
                future = self._submit(shard)
        raise RuntimeError(f"no worker could finish a mini-batch in {MOST_TRIES} tries")


def move(model: Any, updates: list[Update]) -> None:
    """Average the updates into the map of a model, and count the step."""
    model.n_iter_ += 1
    rho = 1 / np.sqrt(model.n_iter_)
    first = updates[0]
    if len(updates) == 1:
        MFLRML._average(model, first.X, first.C, first.means, rho)
        return
    sparse = any(sp.issparse(update.X) for update in updates)
    X = sp.vstack([update.X for update in updates], "csr") if sparse else np.vstack([u.X for u in updates])
    C = np.vstack([update.C for update in updates]) / len(updates)
    means = None if first.means is None else np.concatenate([update.means for update in updates])
    MFLRML._average(model, X, C, means, rho)


def _within(triplets: NDArray, own: NDArray) -> NDArray:
    """Triplets whose rows are all among the given ones, in the numbering of those."""
    place = np.searchsorted(own, triplets)
    found = own[np.minimum(place, len(own) - 1)] == triplets
    kept = place[found.all(axis=1)]
    if len(kept) == 0:
        raise ValueError(
            f"none of the {len(triplets)} triplets has its three rows at one worker: shuffle the rows, use larger "
            "blocks or fewer workers, or give labels"
        )
    return kept


class ShardRows:
    """Several blocks as one matrix of which rows can be taken."""

    ndim = 2

    def __init__(self, blocks: list[Any]):
        self.blocks = [opened(block) for block in blocks]
        self.bounds = np.concatenate(([0], np.cumsum([block.shape[0] for block in self.blocks])))
        self.shape = (int(self.bounds[-1]), self.blocks[0].shape[1])

    def __getitem__(self, rows: NDArray) -> Any:
        """Rows in ascending order, as one array or CSR matrix."""
        places = np.searchsorted(rows, self.bounds)
        parts = [
            block[rows[i:j] - start]
            for block, start, i, j in zip(self.blocks, self.bounds, places[:-1], places[1:], strict=False)
            if j > i
        ]
        if len(parts) == 1:
            return parts[0]
        return sp.vstack(parts, "csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def _task_of_shard(
    y: Any, triplets: NDArray | None, n: int, n_triplets: int, random: dict
) -> tuple[NDArray, Any, dict]:
    """Triplets of a shard, their counts, and the random numbers after them."""
    generator = _generator(random)
    T = draw_triplets(y, n_triplets, generator) if triplets is None else triplets
    return T, triplet_counts(T, n), generator.get_state(legacy=False)


_HELD: dict[tuple[str, str], Held] = {}
_GUARD = threading.Lock()


def _step_of_shard(
    fit: str,
    steps: int,
    parameters: dict,
    state: tuple,
    task: tuple[NDArray, Any, dict],
    blocks: list[Any],
    random: dict,
    updates: list[Update | Stale],
    settled: bool,
    start: tuple[NDArray, float] | None,
    n_shards: int,
) -> Update | Stale:
    """A mini-batch of a shard, at a worker that has the map as it is after so many steps."""
    n_iter, shape, dtype = state
    worker = get_worker().address
    with _GUARD:
        if start is not None:
            _HELD[fit, worker] = Held(steps, np.array(start[0]), start[1])
        elif n_iter == 0:
            _HELD.setdefault((fit, worker), Held(0, np.zeros(shape, dtype), 1.0))
        held = _HELD.get((fit, worker))
    if held is None:
        return Stale(worker)
    with held.lock:
        if not _up_to_date(held, steps, parameters, n_iter, updates, settled):
            return Stale(worker)
        T, counts, drawn = task
        return _mini_batch(held, parameters, n_iter, T, counts, ShardRows(blocks), random or drawn, n_shards)


def _up_to_date(
    held: Held, steps: int, parameters: dict, n_iter: int, updates: list[Update | Stale], settled: bool
) -> bool:
    """Bring a replica that is one step behind up to date."""
    if held.steps == steps - 1 and updates and all(isinstance(update, Update) for update in updates):
        model = _model(held, parameters, n_iter - 1)
        with threadpool_limits(1, user_api="blas"):
            move(model, updates)  # type: ignore[arg-type]
        if settled:
            model._settle()
        held.map, held.scale, held.steps = model._map, model._scale, steps
    return held.steps == steps


def _model(held: Held, parameters: dict, n_iter: int) -> _Replica:
    model = _Replica(**parameters)
    model._map, model._scale, model.n_iter_, model.history_ = held.map, held.scale, n_iter, np.empty(0)
    return model


def _mini_batch(
    held: Held,
    parameters: dict,
    n_iter: int,
    T: NDArray,
    counts: Any,
    X: ShardRows,
    random: dict,
    n_shards: int,
) -> Update:
    model = _model(held, parameters, n_iter)
    model._random = _generator(random)
    rows = model._draw_batch(T, X.shape[0])
    with threadpool_limits(1, user_api="blas"):
        model._step(model._read(X, rows), contrast_matrix(*(c[rows][:, rows] for c in counts)))
        batch, C, means = model.update
        if n_shards > 1:
            batch, C, means = _smallest_form(batch, C, means, held.map.dtype)
    state = model._random.get_state(legacy=False)
    return Update(batch, C, means, model.weights_, float(model.history_[-1]), state)


def _smallest_form(X: Any, C: NDArray, means: NDArray | None, dtype: Any) -> tuple[Any, NDArray, NDArray | None]:
    """An update as rows X and C, or multiplied out for the features that occur, whichever takes fewer bytes."""
    occurs = np.ones(X.shape[1], dtype=bool)
    if sp.issparse(X):
        occurs[:] = False
        occurs[X.indices] = True
    columns = np.flatnonzero(occurs)
    rows_bytes = X.data.nbytes + X.indices.nbytes if sp.issparse(X) else X.nbytes
    C = C.astype(dtype)
    if rows_bytes + C.nbytes <= len(columns) * (C.shape[1] * C.itemsize + 12):
        return X, C, means
    values = np.asarray((X[:, columns] if sp.issparse(X) else X).T @ C)
    ones, count = np.ones(len(columns), dtype=dtype), len(columns)
    if means is None:
        return sp.csr_matrix((ones, columns, np.arange(count + 1)), shape=(count, X.shape[1])), values, None
    # A last row without entries carries what the means take off.
    picked = sp.csr_matrix((ones, columns, np.append(np.arange(count + 1), count)), shape=(count + 1, X.shape[1]))
    return picked, np.vstack((values, means @ C)).astype(dtype), np.append(np.zeros(count), 1.0)


def _generator(state: dict) -> np.random.RandomState:
    generator = np.random.RandomState()
    generator.set_state(state)
    return generator


def _forget(fit: str) -> None:
    for key in [key for key in _HELD if key[0] == fit]:
        _HELD.pop(key, None)
