"""Embed rows in blocks, and find their neighbours."""

from itertools import pairwise
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, Future
from numpy.typing import NDArray

from flrml.distributed.cluster import active_client, gather
from flrml.distributed.remote_rows import whole_rows
from flrml.distributed.stored import StoredRows
from flrml.neighbors import nearest
from flrml.rows import check_rows, product


def embed(X: Any, components: NDArray) -> da.Array:
    """Return X Lᵀ as a dask array with the blocks of X; the map L is sent to the workers once."""
    if X.shape[1] != components.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features, but the map is expecting {components.shape[1]} features")
    X = whole_rows(X)
    transposed = _send(active_client(), np.ascontiguousarray(components.T))
    dtype = np.result_type(X.dtype if np.issubdtype(X.dtype, np.floating) else np.float64, np.float32)
    chunks = X.chunks[0], (len(components),)
    return X.map_blocks(_embed, transposed, dtype, chunks=chunks, meta=np.empty((0, 0), dtype))


def _send(client: Client, array: NDArray) -> Future:
    """Send an array to the workers; a small one as a task, which is repeated if its worker dies."""
    if array.nbytes <= 64 * 2**20:
        return client.submit(np.asarray, array, pure=False)
    return client.scatter([array], hash=False, broadcast=True)[0]


def nearest_in_blocks(
    train: Any, test: Any, n_neighbors: int, *, metric: str, W: NDArray | None
) -> tuple[NDArray, NDArray]:
    """Find the nearest training rows of each test row; blocks of test rows visit the blocks of training rows.

    At least one of ``train`` and ``test`` is a dask array; see :func:`flrml.neighbors.nearest`.
    """
    client = active_client()
    train_parts, train_sizes = _parts(train)
    test_parts, _ = _parts(test)
    starts = np.concatenate(([0], np.cumsum(train_sizes)))[:-1].tolist()
    train_futures, test_futures = client.compute(train_parts), client.compute(test_parts)
    merged = []
    for rows in test_futures:
        found = [
            client.submit(_nearest, block, rows, n_neighbors, metric, W, start, pure=False)
            for block, start in zip(train_futures, starts, strict=True)
        ]
        merged.append(client.submit(_merge, found, n_neighbors, pure=False))
    indices, distances = zip(*gather(client, merged), strict=True)
    return np.concatenate(indices), np.concatenate(distances)


def _parts(rows: Any) -> tuple[list, list[int]]:
    """Return delayed blocks of rows, and the number of rows of each."""
    if isinstance(rows, da.Array):
        rows = whole_rows(rows)
        return rows.to_delayed().ravel().tolist(), [int(size) for size in rows.chunks[0]]
    bounds = [*range(0, rows.shape[0], 4096), rows.shape[0]]
    pieces = [rows[start:stop] for start, stop in pairwise(bounds)]
    return [dask.delayed(piece) for piece in pieces], [piece.shape[0] for piece in pieces]


def _checked(block: Any) -> Any:
    """Return a block as the functions of :mod:`flrml.rows` take it."""
    return block.open() if isinstance(block, StoredRows) else check_rows(block, "a block of X")


def _embed(block: Any, transposed: NDArray, dtype: Any) -> NDArray:
    return product(_checked(block), transposed).astype(dtype, copy=False)


def _nearest(
    block: Any, rows: Any, n_neighbors: int, metric: str, W: NDArray | None, start: int
) -> tuple[NDArray, NDArray]:
    indices, distances = nearest(_checked(block), _checked(rows), n_neighbors, metric=metric, W=W)
    return indices + start, distances


def _merge(found: list[tuple[NDArray, NDArray]], n_neighbors: int) -> tuple[NDArray, NDArray]:
    """Merge the nearest rows of several blocks."""
    indices, distances = (np.hstack(parts) for parts in zip(*found, strict=True))
    order = np.argsort(distances, axis=1, kind="stable")[:, :n_neighbors]
    return np.take_along_axis(indices, order, axis=1), np.take_along_axis(distances, order, axis=1)
