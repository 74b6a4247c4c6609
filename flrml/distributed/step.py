"""What a worker does in a step of M-FLRML: its replica of the map, a mini-batch, and the update that it sends."""

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from dask.sizeof import sizeof
from distributed import get_worker
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from flrml.distributed.stored import opened
from flrml.minibatch import MFLRML
from flrml.triplets import contrast_matrix, draw_triplets, triplet_counts


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


def task_of_shard(
    y: Any, triplets: NDArray | None, n: int, n_triplets: int, random: dict
) -> tuple[NDArray, Any, dict]:
    """Triplets of a shard, their counts, and the random numbers after them."""
    generator = _generator(random)
    T = draw_triplets(y, n_triplets, generator) if triplets is None else triplets
    return T, triplet_counts(T, n), generator.get_state(legacy=False)


_HELD: dict[tuple[str, str], Held] = {}
_GUARD = threading.Lock()


def step_of_shard(
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


def forget(fit: str) -> None:
    for key in [key for key in _HELD if key[0] == fit]:
        _HELD.pop(key, None)
