"""The step of M-FLRML at a worker: its replica of the map, a mini-batch, and the update that it sends."""

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from dask.sizeof import sizeof
from distributed import get_worker
from numpy.typing import NDArray

from flrml.batches import BatchUpdate, read_batch
from flrml.distributed.stored import opened
from flrml.minibatch import MFLRML
from flrml.threads import one_blas_thread
from flrml.triplets import TripletsByAnchor, draw_triplets


@dataclass(frozen=True)
class Update(BatchUpdate):
    """The outcome of a shard's mini-batch, and its random state after it."""

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
    """The answer of a worker that lacks the map of this step."""

    worker: str


def merge(updates: list[Update]) -> BatchUpdate:
    """Return the mean of several updates as one."""
    if len(updates) == 1:
        return updates[0]
    sparse = any(sp.issparse(update.X) for update in updates)
    return BatchUpdate(
        sp.vstack([update.X for update in updates], "csr") if sparse else np.vstack([u.X for u in updates]),
        np.vstack([update.C for update in updates]) / len(updates),
        np.mean([update.weights for update in updates], axis=0).astype(updates[0].weights.dtype),
        float(np.mean([update.hinge for update in updates])),
    )


class ShardRows:
    """Several blocks as one matrix that can be indexed by rows."""

    ndim = 2

    def __init__(self, blocks: list[Any]):
        self.blocks = [opened(block) for block in blocks]
        self.bounds = np.concatenate(([0], np.cumsum([block.shape[0] for block in self.blocks])))
        self.shape = (int(self.bounds[-1]), self.blocks[0].shape[1])

    def __getitem__(self, rows: NDArray) -> Any:
        """Return rows in ascending order, as one array or CSR matrix."""
        places = np.searchsorted(rows, self.bounds)
        parts = [
            block[rows[i:j] - start]
            for block, start, i, j in zip(self.blocks, self.bounds, places[:-1], places[1:], strict=False)
            if j > i
        ]
        if len(parts) == 1:
            return parts[0]
        return sp.vstack(parts, "csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def task_of_shard(
    y: Any, triplets: NDArray | None, n_triplets: int, random: dict
) -> tuple[NDArray, TripletsByAnchor, dict]:
    """Return triplets of a shard, the same by anchor, and the random state after drawing them."""
    generator = _generator(random)
    T = draw_triplets(y, n_triplets, generator) if triplets is None else triplets
    return T, TripletsByAnchor(T), generator.get_state(legacy=False)


_HELD: dict[tuple[str, str], Held] = {}
_GUARD = threading.Lock()


def step_of_shard(
    fit: str,
    steps: int,
    model: MFLRML,
    state: tuple,
    task: tuple[NDArray, TripletsByAnchor, dict],
    blocks: list[Any],
    random: dict,
    updates: list[Update | Stale],
    settled: bool,
    start: tuple[NDArray, float] | None,
    n_shards: int,
) -> Update | Stale:
    """Learn a mini-batch of a shard, at a worker that has the map after ``steps`` steps."""
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
        if not _up_to_date(held, steps, model, n_iter, updates, settled):
            return Stale(worker)
        T, by_anchor, drawn = task
        return _mini_batch(held, model, n_iter, T, by_anchor, ShardRows(blocks), random or drawn, n_shards)


def _up_to_date(
    held: Held, steps: int, model: MFLRML, n_iter: int, updates: list[Update | Stale], settled: bool
) -> bool:
    """Apply the last updates to a replica that is one step behind; return whether it is up to date."""
    received = [update for update in updates if isinstance(update, Update)]
    if held.steps == steps - 1 and updates and len(received) == len(updates):
        _load(model, held, n_iter - 1)
        with one_blas_thread():
            model._apply(merge(received))
        if settled:
            model._apply_scale()
        held.map, held.scale, held.steps = model._map, model._scale, steps
    return held.steps == steps


def _load(model: MFLRML, held: Held, n_iter: int) -> None:
    model._map, model._scale, model.n_iter_, model.history_ = held.map, held.scale, n_iter, np.empty(0)


def _mini_batch(
    held: Held,
    model: MFLRML,
    n_iter: int,
    T: NDArray,
    by_anchor: TripletsByAnchor,
    X: ShardRows,
    random: dict,
    n_shards: int,
) -> Update:
    _load(model, held, n_iter)
    model._random = _generator(random)
    rows = model._draw_batch(T, X.shape[0])
    with one_blas_thread():
        update = model._learn_batch(read_batch(X, rows), by_anchor.contrasts(rows))
        batch, C = update.X, update.C
        if n_shards > 1:
            batch, C = smallest_form(batch, C, held.map.dtype)
    return Update(batch, C, update.weights, update.hinge, model._random.get_state(legacy=False))


def smallest_form(X: Any, C: NDArray, dtype: Any) -> tuple[Any, NDArray]:
    """Return rows X and C, or their product for the features that occur, whichever takes fewer bytes."""
    occurs = np.ones(X.shape[1], dtype=bool)
    if sp.issparse(X):
        occurs[:] = False
        occurs[X.indices] = True
    columns = np.flatnonzero(occurs)
    rows_bytes = X.data.nbytes + X.indices.nbytes if sp.issparse(X) else X.nbytes
    C = C.astype(dtype)
    if rows_bytes + C.nbytes <= len(columns) * (C.shape[1] * C.itemsize + 12):
        return X, C
    values = np.asarray((X[:, columns] if sp.issparse(X) else X).T @ C)
    ones, count = np.ones(len(columns), dtype=dtype), len(columns)
    return sp.csr_matrix((ones, columns, np.arange(count + 1)), shape=(count, X.shape[1])), values


def _generator(state: dict) -> np.random.RandomState:
    generator = np.random.RandomState()
    generator.set_state(state)
    return generator


def forget(fit: str) -> None:
    """Drop the replicas of a fit."""
    for key in [key for key in _HELD if key[0] == fit]:
        _HELD.pop(key, None)
