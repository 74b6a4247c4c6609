"""RidgeFLRML on row blocks: the solver of :mod:`flrml.ridge`, with sample matrices that stay at the workers."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import getitem
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from flrml.distributed.cluster import gather
from flrml.distributed.remote_matrices import RemoteMatrix, SampledBlocks, ScaledBlocks
from flrml.distributed.remote_rows import RemoteRows, on_client
from flrml.neighbors import nearest
from flrml.ridge.estimator import RidgeFLRML
from flrml.ridge.scaling import EXACT_COLUMNS, EXACT_ROWS, ScaledRows
from flrml.ridge.supervision import Labels
from flrml.rows import take_rows
from flrml.rows.threads import one_blas_thread
from flrml.rows.wide import is_wide

SAMPLE_BYTES = 2 * 2**30  # largest sample that parameters are chosen with
WORTH_WORKERS = 2**26  # values of a sample from which the workers multiply it
SAMPLE_SHARE = 1 / 8  # share of the memory of the workers that a sample may take


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
    and groups in dask arrays are gathered on the client. Triplets are refused: their rows would have to meet.
    docs/scaling.md says what is communicated.
    """
    if triplets is not None:
        raise ValueError("RidgeFLRML learns from labels if X is a dask array; give y in place of triplets")
    with RidgeRows.for_fit(model, X) as loaded, one_blas_thread():
        rows = loaded.by_thread()
        random = check_random_state(model.random_state)
        supervision: Any = model._check_supervision(rows, on_client(y), None, on_client(groups))
        rows.check_values()
        n = rows.shape[0]
        most = n if model.max_samples is None else min(n, model.max_samples)
        if most < n or n <= EXACT_ROWS:  # few training rows are handled on the client
            drawn = supervision.draw(most, random)
            model._solve(rows[drawn], supervision.subset(drawn), random, callback)
        else:
            model._solve(rows, RemoteLabels(rows, supervision), random, callback)
    return model


@dataclass(eq=False)
class RidgeRows(RemoteRows):
    """The rows of a dask array, as the solver in memory uses them."""

    scaled_type: type[ScaledRows] = ScaledBlocks
    is_remote = True

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
        return self.take(rows)

    def nearest(self, train: Any, test: Any, n_neighbors: int) -> tuple[NDArray, NDArray]:
        """Find neighbours by cosine among rows of the client; each worker handles some test rows."""
        n = test.shape[0]
        parts = [take_rows(test, part) for part in np.array_split(np.arange(n), min(n, len(self.places)))]
        found = gather(self.client, self.map(nearest, self.scatter(train), parts, n_neighbors))
        indices, distances = zip(*found, strict=True)
        return np.concatenate(indices), np.concatenate(distances)

    def sample(self, rows: NDArray) -> Any:
        """Return some rows: on the client, or at the workers if their products are expensive enough."""
        share, shape = len(rows) / self.shape[0], (len(rows), self.shape[1])
        small = shape[0] <= EXACT_ROWS or shape[1] <= EXACT_COLUMNS or share * self.summary.nnz < WORTH_WORKERS
        if small or is_wide(shape) or share * self.summary.n_bytes > SAMPLE_SHARE * self.memory():
            return self[rows]
        return self.subset(rows, scaled_type=SampledBlocks)


class RemoteLabels(Labels):
    """Labels on the client, and those of each portion of the rows at its worker."""

    def __init__(self, rows: RemoteRows, labels: Labels):
        self.__dict__ |= labels.__dict__
        self.new_classes, self.subset = labels.new_classes, labels.subset  # type: ignore[method-assign]
        self._rows, self._size = rows, np.bincount(labels.label)
        self._at_workers = rows.scatter_rows(labels.label.astype(np.min_scalar_type(len(self._size))))

    def combine_classes(self, Q: NDArray) -> Any:
        values = self._rows.scatter((Q / np.sqrt(self._size)[:, None]).astype(Q.dtype))
        return RemoteMatrix(self._rows, [self._rows.map(getitem, values, self._at_workers)], Q.dtype, Q.shape[1])

    def class_means(self, Y: Any) -> NDArray[np.float64]:
        parts = self._rows.map(_class_sums, self._at_workers, Y.by_portion, len(self._size))
        return self._rows.sum(parts, small=True) / np.sqrt(self._size)[:, None]


def _class_sums(label: NDArray, pieces: list[NDArray], n_classes: int) -> NDArray[np.float64]:
    members = sp.csr_matrix((np.ones(len(label)), label, np.arange(len(label) + 1)), shape=(len(label), n_classes))
    return np.hstack([members.T @ piece for piece in pieces])
