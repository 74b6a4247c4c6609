"""RidgeFLRML on row blocks: the solver of :mod:`flrml.ridge`, with sample matrices that stay at the workers."""

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from distributed import Future
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets

from flrml.distributed.blocks import RowBlocks, active_client, without_work_stealing
from flrml.distributed.remote_matrices import RemoteMatrix, SampledBlocks, ScaledBlocks
from flrml.distributed.shards import Shards
from flrml.distributed.stored import open_together
from flrml.distributed.waiting import gather
from flrml.folds import draw_at_most
from flrml.neighbors import nearest
from flrml.ridge.estimator import RidgeFLRML, check_classes
from flrml.ridge.scaling import EXACT_COLUMNS, EXACT_ROWS, ScaledRows, squares_of
from flrml.ridge.supervision import Contrasts, Labels, class_contrasts
from flrml.rows import check_largest, is_dask, is_sparse, largest_value, take_rows
from flrml.rows.binary import BinaryRows
from flrml.rows.threads import one_blas_thread
from flrml.rows.wide import is_wide

SAMPLE_BYTES = 2 * 2**30  # largest sample that parameters are chosen with
WORTH_WORKERS = 2**26  # values of a sample from which the workers multiply it
SAMPLE_SHARE = 1 / 8  # share of the memory of the workers that a sample may take

Counted = tuple[list[list[Future]], list[Future]]  # labels of each shard, and their classes and sizes


def fit_ridge(
    model: RidgeFLRML,
    X: Any,
    y: Any,
    triplets: Any,
    groups: Any,
    callback: Callable[[RidgeFLRML], None] | None = None,
) -> RidgeFLRML:
    """Fit :class:`flrml.RidgeFLRML` to a dask array; see its ``fit`` for the parameters.

    The result is that of the same fit in memory, up to the order in which floating-point numbers are added. Labels
    in a dask array stay at the workers; a NumPy array of them is sent there. With groups, both are gathered on the
    client. Triplets are refused: their rows would have to meet.

    Communicated, for Krylov blocks of p columns (at least d/4, 10 and, up to 150, the number of classes): D × p
    numbers from and to every worker for each of four or more blocks, and D × d once for the map. Parameters are
    chosen with a sample of at most 10,000 rows, or 2 GB, on the client, or at the workers if its rows are heavy;
    then the blocks of its search are communicated as well. None of this depends on n.
    """
    if triplets is not None:
        raise ValueError("RidgeFLRML learns from labels if X is a dask array; give y in place of triplets")
    with without_work_stealing(active_client()), one_blas_thread():
        blocks = RowBlocks(X)
        blocks.check(model)
        shards = Shards(blocks)
        counted = _count_labels(shards, y) if is_dask(y) and groups is None else None
        rows = ClusterRows(shards)
        random = check_random_state(model.random_state)
        supervision = _check_supervision(model, rows, y, groups, counted)
        rows.check()
        n = rows.shape[0]
        most = n if model.max_samples is None else min(n, model.max_samples)
        if most < n or n <= EXACT_ROWS:  # few training rows are handled on the client
            drawn = supervision.draw(most, random)
            model._solve(rows[drawn], supervision.subset(drawn), random, callback)
        else:
            model._solve(rows, supervision, random, callback)
    return model


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


class ClusterRows:
    """The rows of a dask array, for RidgeFLRML."""

    is_remote = True

    def __init__(self, shards: Shards, scaled_type: type[ScaledRows] = ScaledBlocks):
        self.shards, self.scaled_type = shards, scaled_type
        self.shape, self.dtype = shards.shape, shards.dtype
        self._found = self.shards.sum_future(self.shards.map(_summarize, self.shards.futures))

    @functools.cached_property
    def summary(self) -> Summary:
        """Facts about the rows; workers start to gather them at once."""
        return gather(self.shards.client, [self._found])[0]

    def check(self) -> None:
        """Raise ValueError if a value is not finite, or too large to be squared."""
        if not np.isfinite(self.summary.largest):
            raise ValueError("Input X contains NaN or infinity")
        check_largest(self.summary.largest)

    @property
    def filled(self) -> float:
        """Share of values that are stored."""
        return self.summary.nnz / max(self.shape[0] * self.shape[1], 1)

    @property
    def sample_rows(self) -> int:
        """Largest number of rows that the client can hold."""
        return max(3, int(SAMPLE_BYTES * self.shape[0] / max(self.summary.n_bytes, 1)))

    def squares(self) -> NDArray[np.float64]:
        """Return the mean square of each feature."""
        return self.summary.squares / self.shape[0]

    def __getitem__(self, rows: NDArray) -> Any:
        """Return some rows on the client, in the form of the blocks."""
        return self.shards.take(rows)

    def nearest(self, train: Any, test: Any, n_neighbors: int) -> tuple[NDArray, NDArray]:
        """Find neighbours by cosine among rows of the client; each worker handles some test rows."""
        shards, n = self.shards, test.shape[0]
        parts = [take_rows(test, part) for part in np.array_split(np.arange(n), min(n, len(shards.places)))]
        found = gather(shards.client, shards.map(nearest, shards.scatter(train), parts, n_neighbors))
        indices, distances = zip(*found, strict=True)
        return np.concatenate(indices), np.concatenate(distances)

    def sample(self, rows: NDArray) -> Any:
        """Return some rows: on the client, or at the workers if their products are expensive enough."""
        share, shape = len(rows) / self.shape[0], (len(rows), self.shape[1])
        room = SAMPLE_SHARE * self.shards.memory()
        small = shape[0] <= EXACT_ROWS or shape[1] <= EXACT_COLUMNS or share * self.summary.nnz < WORTH_WORKERS
        if small or is_wide(shape) or share * self.summary.n_bytes > room:
            return self[rows]
        return ClusterRows(self.shards.sample(rows), SampledBlocks)


class BlockLabels(Contrasts):
    """Labels that stay with their rows, as supervision; those of rows in groups stay on the client as well."""

    def __init__(self, shards: Shards, y: "NDArray | Labels | Counted"):
        self.shards, self.n_groups = shards, shards.shape[0]
        self._grouped = y if isinstance(y, Labels) else None
        if isinstance(y, tuple):
            parts, counts = y
            found = gather(shards.client, counts)
            self.classes = np.unique(np.concatenate([classes for classes, _ in found]))
            self.size = np.zeros(len(self.classes), dtype=np.int64)
            for classes, size in found:
                self.size[np.searchsorted(self.classes, classes)] += size
            self._label = shards.map(_encode, parts, self.classes)
        else:
            numbers = y.label if isinstance(y, Labels) else y
            self.classes, label, self.size = np.unique(numbers, return_inverse=True, return_counts=True)
            self._label = shards.scatter_rows(label.astype(np.min_scalar_type(len(self.classes))))
        self._root = np.sqrt(self.size)
        self._contrasts = class_contrasts(self.size, self.size)
        if self._grouped is not None:
            self._contrasts, self.n_groups = self._grouped.contrasts, self._grouped.n_groups

    def class_indicators(self, dtype: Any) -> RemoteMatrix:
        found = self.shards.map(_indicators, self._label, (1 / self._root).astype(dtype))
        return RemoteMatrix(self.shards, [found], np.dtype(dtype), len(self.size))

    def contrast(self, Y: Any) -> Any:
        """Raise: with labels, the solver needs only the contrasts of the class means."""
        raise NotImplementedError

    def scatters(self, Y: RemoteMatrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return S_b and ½ Yᵀ (A + Aᵀ) Y, both from the class means."""
        parts = self.shards.map(_class_sums, self._label, Y.by_shard, len(self.size))
        sums = self.shards.sum(parts, small=True)
        means = sums / self._root[:, None]
        return means.T @ means, means.T @ self._contrasts @ means

    def draw(self, size: int, random: np.random.RandomState) -> NDArray:
        return draw_at_most(size, np.arange(self.shards.shape[0]), random)

    def subset(self, rows: NDArray) -> Labels:
        """Return the labels of some of the rows, on the client."""
        if self._grouped is not None:
            return self._grouped.subset(rows)
        places, parts = self.shards.pick(operator.getitem, rows, self._label)
        label = np.empty(len(rows), dtype=np.int64)
        label[places] = np.concatenate(parts)
        return Labels(label)


def _count_labels(shards: Shards, y: Any) -> Counted:
    """Let workers count the labels in a dask array; return the labels of each shard, and the counts."""
    if y.shape != shards.shape[:1]:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[shards.shape, y.shape]}")
    parts = shards.align(y)
    return parts, shards.map(_count, parts)


def _check_supervision(
    model: RidgeFLRML, rows: ClusterRows, y: Any, groups: Any, counted: Counted | None
) -> BlockLabels:
    """Return the labels as supervision; raise ValueError if they give no triplets."""
    if y is None:
        raise ValueError("RidgeFLRML requires y to be passed, but the target y is None")
    if groups is not None:
        labels = model._check_supervision(rows, np.asarray(y), None, np.asarray(groups))
        assert isinstance(labels, Labels)
        return BlockLabels(rows.shards, labels)
    found = BlockLabels(rows.shards, model._check_labels(rows, y) if counted is None else counted)
    check_classification_targets(np.tile(found.classes, 3))  # it warns about values that occur once
    check_classes(len(found.classes), bool(found.size.max() > 1), False)
    return found


def _summarize(blocks: list[Any]) -> Summary:
    return functools.reduce(operator.add, map(_summarize_block, open_together(blocks)))


def _summarize_block(X: Any) -> Summary:
    if not is_sparse(X):
        nnz, n_bytes = X.size, X.nbytes
    else:
        nnz = X.nnz
        n_bytes = X.stored.nbytes if isinstance(X, BinaryRows) else X.data.nbytes + X.indices.nbytes
    return Summary(squares_of(X) * X.shape[0], largest_value(X), nnz, n_bytes)


def _count(parts: list[NDArray]) -> tuple[NDArray, NDArray]:
    return np.unique(np.concatenate(parts), return_counts=True)


def _encode(parts: list[NDArray], classes: NDArray) -> NDArray:
    return np.searchsorted(classes, np.concatenate(parts)).astype(np.min_scalar_type(len(classes)))


def _indicators(label: NDArray, values: NDArray) -> NDArray:
    out = np.zeros((len(label), len(values)), dtype=values.dtype)
    out[np.arange(len(label)), label] = values[label]
    return out


def _class_sums(label: NDArray, pieces: list[NDArray], n_classes: int) -> NDArray[np.float64]:
    members = sp.csr_matrix((np.ones(len(label)), label, np.arange(len(label) + 1)), shape=(len(label), n_classes))
    return np.hstack([members.T @ piece for piece in pieces])
