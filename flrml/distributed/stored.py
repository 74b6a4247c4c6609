"""A prepared data set as a dask array, and a dask array as a prepared data set."""

import mmap
import os
from collections.abc import Iterator
from copy import copy
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.array.core import concatenate_lookup
from distributed import get_worker

from flrml.datasets import store
from flrml.datasets.encoders.rows import unit_rows
from flrml.datasets.meta import describe
from flrml.files import write_json
from flrml.rows import BinaryRows, RowOperator, is_sparse, large_arrays, row_blocks

TOGETHER_BYTES = 256 * 2**20  # largest neighbouring blocks that are read as one


class StoredRows:
    """Some rows of a prepared split, left on disk until they are read.

    It is sent as the path of the split and two row numbers; every worker opens the files itself and needs access to
    the folder.
    """

    ndim = 2

    def __init__(self, path: str, start: int, stop: int, n_columns: int, dtype: Any):
        self.path, self.start, self.stop, self.dtype = path, start, stop, np.dtype(dtype)
        self.shape = (stop - start, n_columns)

    def __len__(self) -> int:
        return self.shape[0]

    def open(self) -> Any:
        """Return the rows as a memory map, a CSR matrix on memory maps, or BinaryRows, without reading them."""
        X = _open_once(self.path)
        _release_pages(X)
        if not is_sparse(X):
            return X[self.start : self.stop]
        if isinstance(X, BinaryRows):
            return X.view(self.start, self.stop)
        bounds = np.asarray(X.indptr[self.start : self.stop + 1])
        entries = slice(int(bounds[0]), int(bounds[-1]))
        return store._csr(bounds - bounds[0], X.indices[entries], X.data[entries], X.shape[1])

    @property
    def n_bytes(self) -> int:
        """Bytes of the rows on disk."""
        X = _open_once(self.path)
        if not is_sparse(X):
            return self.shape[0] * self.shape[1] * self.dtype.itemsize
        entries = int(X.indptr[self.stop] - X.indptr[self.start])
        return entries * sum(array.itemsize for array in large_arrays(X))

    def __getitem__(self, key: Any) -> Any:
        """Return rows in memory, dense or CSR; a second index takes columns."""
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        taken = self.open()[rows]
        taken = taken.copy() if sp.issparse(taken) else np.array(taken)
        return taken if isinstance(columns, slice) and columns == slice(None) else taken[:, columns]

    def astype(self, dtype: Any, **_: Any) -> Any:
        """Return all rows in memory, of another type."""
        return self[:].astype(dtype)


@lru_cache(maxsize=8)
def _open_once(path: str) -> Any:
    return store.open_split(path)[0]


def _release_pages(X: Any) -> None:
    """Release pages of files that were read before: a worker's memory limit counts them."""
    for array in large_arrays(X):
        pages = getattr(array, "_mmap", None)
        if pages is not None and hasattr(mmap, "MADV_DONTNEED"):
            pages.madvise(mmap.MADV_DONTNEED)


def _joined(parts: list, axis: int = 0) -> Any:
    read = [part[:] if isinstance(part, StoredRows) else part for part in parts]
    return (
        (sp.vstack if axis == 0 else sp.hstack)(read, "csr") if sp.issparse(read[0]) else np.concatenate(read, axis)
    )


concatenate_lookup.register(StoredRows, _joined)


def opened(block: Any) -> Any:
    """Return a block as the functions of :mod:`flrml.rows` take it."""
    if isinstance(block, RowOperator):
        operator = copy(block)
        operator.X = opened(block.X)
        return operator
    return block.open() if isinstance(block, StoredRows) else block


def open_together(blocks: list[Any]) -> Iterator[Any]:
    """Yield blocks as the functions of :mod:`flrml.rows` take them, neighbours on disk as one, up to a limit.

    A product adds up as many matrices of D rows as there are blocks. Each is opened when it is its turn, which
    releases the pages of those before.
    """
    last: Any = None
    most = _together_bytes()
    for block in blocks:
        if type(block) is type(last) is StoredRows and (last.path, last.stop) == (block.path, block.start):
            both = StoredRows(block.path, last.start, block.stop, block.shape[1], block.dtype)
            if both.n_bytes <= most:
                last = both
                continue
        if last is not None:
            yield opened(last)
        last = block
    if last is not None:
        yield opened(last)


def _together_bytes() -> float:
    """Return the largest size of blocks on disk that are read as one; they count as memory of the worker."""
    try:
        limit = get_worker().memory_manager.memory_limit
    except ValueError:  # not a worker
        limit = None
    return min(TOGETHER_BYTES, limit / 16) if limit else TOGETHER_BYTES


def open_split(path: str | os.PathLike, rows_per_block: int | None = None) -> tuple[da.Array, np.ndarray]:
    """Open a prepared split as a dask array whose blocks stay on disk until rows are read.

    Parameters
    ----------
    path : path
        The ``train`` or ``test`` folder of a prepared data set, accessible to all workers.
    rows_per_block : int, optional
        Rows of a block. If it is left out, blocks have about 64 MB, and about equal numbers of values, so that
        workers with as many blocks have equal work.

    Returns
    -------
    X : dask array
        Its blocks are :class:`StoredRows`.
    y : memory map of int64
        Class numbers.
    """
    folder = str(Path(path).absolute())
    X, y = store.open_split(folder)
    n, n_columns = X.shape
    if rows_per_block is None:
        bounds = _equal_blocks(X, len(list(row_blocks(X))))
    else:
        bounds = [*range(0, n, rows_per_block), n]
    chunks = tuple(stop - start for start, stop in pairwise(bounds))
    name = f"flrml-{dask.base.tokenize(folder, store.load_meta(Path(folder).parent)['fingerprint'], chunks)}"
    graph = {
        (name, number, 0): (StoredRows, folder, bounds[number], bounds[number + 1], n_columns, X.dtype)
        for number in range(len(chunks))
    }
    meta = sp.csr_matrix((0, 0), dtype=X.dtype) if is_sparse(X) else np.empty((0, 0), dtype=X.dtype)
    return da.Array(graph, name, (chunks, (n_columns,)), meta=meta), y


def _equal_blocks(X: Any, count: int) -> list[int]:
    """Return the rows at which blocks with about the same number of values begin, and n."""
    n = X.shape[0]
    ends = np.asarray(X.indptr) if is_sparse(X) else np.arange(n + 1)
    inner = np.searchsorted(ends, np.linspace(0, ends[-1], max(count, 1) + 1)[1:-1])
    return np.unique([0, *inner, n]).tolist()


def prepare(parts: dict[str, tuple[Any, Any]], out: str | os.PathLike, *, name: str = "own") -> dict:
    """Write dask arrays as a prepared data set, one block at a time.

    Workers scale the rows of a block to unit length; this process fetches and writes one block after the other, so
    that it needs the memory of a single block.

    Parameters
    ----------
    parts : dict
        ``"train"`` and ``"test"``, each a dask array and its labels, integers from 0 on.
    out : path
        Folder to write.
    name : str, default="own"
        Name of the data set.

    Returns
    -------
    dict
        The content of ``meta.json``.
    """
    from flrml.distributed.cluster import gather
    from flrml.distributed.remote_rows import RemoteRows

    splits = {}
    labels = {split: np.asarray(y, dtype=np.int64) for split, (_, y) in parts.items()}
    n_classes = int(max(y.max() for y in labels.values())) + 1
    with store.dataset_folder(out) as folder:
        for split, (X, _) in parts.items():
            rows = RemoteRows.load(X)
            scaled = rows.map(_unit_rows, rows.futures)
            (sparse,) = gather(rows.client, [rows.submit(sp.issparse, scaled[0])])
            layout = "csr" if sparse else "dense"
            with store.SplitWriter(folder / split, layout, rows.shape[1]) as writer:
                for block in scaled:
                    writer.append(gather(rows.client, [block])[0])
                splits[split] = writer.finish(labels[split])
            splits[split]["class_counts"] = np.bincount(labels[split], minlength=n_classes).tolist()
        meta = describe(name, range(n_classes), splits, kind="own", source="dask arrays")
        write_json(folder / "meta.json", meta)
    return meta


def _unit_rows(blocks: list[Any]) -> Any:
    return unit_rows(opened(*blocks)[:])
