"""Define the interface of a reader: a training part and an optional test part, read block by block."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from flrml.datasets.fetch import RawFiles
from flrml.exceptions import DatasetError
from flrml.rows import row_blocks


@dataclass(frozen=True)
class Request:
    """Arguments of a reader."""

    raw: RawFiles
    options: dict[str, Any]
    scratch: Path
    seed: int = 0
    n_jobs: int = 1

    def path(self, option: str) -> Path | None:
        """Return the path that an option gives: as it is, or by name in a raw-file folder; None without one."""
        given = self.options[option]
        if not given:
            return None
        path = Path(os.path.expanduser(given))
        found = path if path.exists() else self.raw.find(str(given))
        if found is None:
            raise DatasetError(
                f"{given}: no such file, neither there nor in a raw-file folder; correct option {option}"
            )
        if not found.is_dir():
            self.raw.record(found)
        return found

    def user_paths(self) -> tuple[Path, Path | None]:
        """Return the paths of the user's training part and test part."""
        if self.options["test"] and self.options["holdout"] is not None:
            raise DatasetError("both test and holdout are given; choose one of them")
        train = self.path("train")
        if train is None:
            raise DatasetError("option train is missing; give the path of the training file or folder")
        return train, self.path("test")


@dataclass(frozen=True)
class Part:
    """Rows and labels of one part; a split never separates the rows of a group.

    The function ``blocks`` takes ascending row numbers and yields matrices that contain these rows in order.
    """

    labels: np.ndarray
    blocks: Callable[[np.ndarray], Iterator[Any]]
    n_columns: int
    origin: str  # for messages
    layout: str  # on disk, a key of store.LAYOUTS
    groups: np.ndarray | None = None

    def groups_of(self, rows: np.ndarray) -> np.ndarray | None:
        """Return the group numbers of some rows."""
        return None if self.groups is None else self.groups[rows]


@dataclass(frozen=True)
class Loaded:
    """A data set as its reader loads it."""

    train: Part
    test: Part | None = None
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    @classmethod
    def of_user(cls, request: Request, read: Callable[[Path], Part]) -> "Loaded":
        """Read the user's training file and, if there is one, the test file in the same way."""
        train, test = request.user_paths()
        return cls(read(train), read(test) if test else None)


def matrix_part(X: Any, labels: Any, origin: str, layout: str | None = None) -> Part:
    """Build a part from a matrix in memory or in a memory map."""
    labels = np.asarray(labels).ravel()
    if X.ndim != 2:
        raise DatasetError(f"{origin}: the features have {X.ndim} dimensions; give a matrix, one row per example")
    if X.shape[0] != len(labels):
        raise DatasetError(f"{origin}: {len(labels)} labels for {X.shape[0]} rows; give exactly one label per row")
    if X.dtype.kind not in "biuf":
        raise DatasetError(f"{origin}: features of type {X.dtype}; give real numbers")

    def blocks(rows: np.ndarray) -> Iterator[Any]:
        for block in row_blocks(X):
            first, last = np.searchsorted(rows, (block.start, block.stop))
            if last - first == block.stop - block.start:
                yield X[block]
            elif last > first:
                yield X[block][rows[first:last] - block.start]

    return Part(labels, blocks, X.shape[1], origin, layout or ("csr" if sp.issparse(X) else "dense"))
