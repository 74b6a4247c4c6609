"""Define the interface of a reader: a training part and an optional test part, read block by block."""

import os
from collections.abc import Callable, Iterable, Iterator
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

    def groups_of(self, rows: np.ndarray) -> np.ndarray | None:
        """Return the group numbers of some rows."""
        return None if self.groups is None else self.groups[rows]

    def names_of(self, rows: np.ndarray) -> np.ndarray | None:
        """Return the names of some rows."""
        return None if self.names is None else self.names[rows]

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


def selected(blocks: Iterable[Any], rows: np.ndarray) -> Iterator[Any]:
    """Iterate over the given rows, in ascending order, of consecutive blocks of rows."""
    start = 0
    for block in blocks:
        stop = start + block.shape[0]
        first, last = np.searchsorted(rows, (start, stop))
        if last - first == stop - start:
            yield block
        elif last > first:
            wanted = rows[first:last] - start
            yield block.iloc[wanted] if hasattr(block, "iloc") else block[wanted]
        start = stop


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
        return selected((X[block] for block in row_blocks(X)), rows)

    return Part(labels, blocks, origin, X.shape[1], layout or ("csr" if sp.issparse(X) else "dense"))


def list_part(items: list[Any], labels: Any, origin: str) -> Part:
    """Build a part from texts, or from paths of images."""

    def blocks(rows: np.ndarray) -> Iterator[list[Any]]:
        for start in range(0, len(rows), ITEMS_PER_BLOCK):
            yield [items[row] for row in rows[start : start + ITEMS_PER_BLOCK]]

    return Part(np.asarray(labels), blocks, origin)
