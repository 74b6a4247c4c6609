"""Define the interface of a reader: a training part and an optional test part, read block by block."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from flrml.datasets.encoders.rows import RowsEncoder
from flrml.datasets.fetch import RawFiles
from flrml.exceptions import DatasetError
from flrml.rows import row_blocks

ITEMS_PER_BLOCK = 1000


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
    """Raw input and labels of one part; a split never separates the rows of a group.

    The function ``blocks`` takes ascending row numbers and yields blocks of raw input, such as matrices or lists of
    texts, that contain these rows in order. Raw input of rows has columns and a layout, a key of store.LAYOUTS.
    """

    labels: np.ndarray
    blocks: Callable[[np.ndarray], Iterator[Any]]
    origin: str  # for messages
    n_columns: int | None = None
    layout: str = "dense"
    groups: np.ndarray | None = None
    names: np.ndarray | None = None  # of the rows

    def columns_of(self, rows: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return the group numbers and the names of some rows, or None for what the part lacks."""
        groups, names = (None if column is None else column[rows] for column in (self.groups, self.names))
        return groups, names

    def described(self, groups: Any, names: Any) -> "Part":
        """Return the part with the user's groups, which are numbers or words, and with names of its rows."""
        for what, values in (("groups", groups), ("names", names)):
            if values is not None and len(values) != len(self.labels):
                raise DatasetError(
                    f"{self.origin}: {len(values)} {what} for {len(self.labels)} rows; give one per row"
                )
        numbers = None if groups is None else np.unique(np.asarray(groups).astype(str), return_inverse=True)[1]
        return replace(self, groups=numbers, names=None if names is None else np.asarray(names).astype(str))


@dataclass(frozen=True)
class Loaded:
    """A data set as its reader loads it, and an encoder of its kind that has learned nothing yet."""

    train: Part
    test: Part | None = None
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    encoder: RowsEncoder = field(default_factory=RowsEncoder, kw_only=True)

    @classmethod
    def of_user(
        cls, request: Request, read: Callable[[Path], Part], encoder: RowsEncoder | None = None
    ) -> "Loaded":
        """Read the user's training file and, if there is one, the test file in the same way."""
        train, test = request.user_paths()
        return cls(read(train), read(test) if test else None, encoder=encoder or RowsEncoder())


def matrix_part(X: Any, labels: Any, origin: str, layout: str | None = None) -> Part:
    """Build a part from a matrix in memory or in a memory map."""
    labels = np.asarray(labels)
    if X.ndim != 2:
        raise DatasetError(f"{origin}: the features have {X.ndim} dimensions; give a matrix, one row per example")
    check_labels(origin, labels.size, X.shape[0])
    if X.dtype.kind not in "biuf":
        raise DatasetError(f"{origin}: features of type {X.dtype}; give real numbers")

    def blocks(rows: np.ndarray) -> Iterator[Any]:
        for block in row_blocks(X):
            first, last = np.searchsorted(rows, (block.start, block.stop))
            if last - first == block.stop - block.start:
                yield X[block]
            elif last > first:
                yield X[block][rows[first:last] - block.start]

    return Part(labels.ravel(), blocks, origin, X.shape[1], layout or ("csr" if sp.issparse(X) else "dense"))


def check_labels(origin: str | Path, n_labels: int, n_rows: int) -> None:
    """Refuse more or fewer labels than rows."""
    if n_labels > n_rows > 0 and n_labels % n_rows == 0:
        raise DatasetError(
            f"{origin}: {n_labels // n_rows} labels for every row; multi-label targets are not supported, "
            "give the number of one class per row"
        )
    if n_labels != n_rows:
        raise DatasetError(f"{origin}: {n_labels} labels for {n_rows} rows; give exactly one label per row")


def list_part(items: Any, labels: Any, origin: str, items_per_block: int = ITEMS_PER_BLOCK) -> Part:
    """Build a part from a list of texts or of paths of images, or from a data frame."""

    def blocks(rows: np.ndarray) -> Iterator[Any]:
        for start in range(0, len(rows), items_per_block):
            block = rows[start : start + items_per_block]
            yield items.iloc[block] if hasattr(items, "iloc") else [items[row] for row in block]

    return Part(np.asarray(labels), blocks, origin)
