"""The prepared data set on disk: one folder per split with ``.npy`` files, and one ``meta.json`` beside them.

A split holds either a dense matrix (``X.npy``), a sparse one (``indptr.npy``, ``indices.npy``,
``values.npy``) or rows of zeros and ones (``indptr.npy`` and ``indices.npy`` alone), the class numbers
``y.npy`` and, where several rows show the same object, ``groups.npy``. All of them open as memory maps.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from flrml.datasets.reading import reading
from flrml.exceptions import DatasetError
from flrml.files import atomic_folder
from flrml.rows import BinaryRows

FORMAT_VERSION = 1
MAX_INT32 = 2**31 - 1
# What a folder may hold that is to be replaced; Snakemake leaves a file of its own.
OWN_FILES = {"train", "test", "meta.json", ".snakemake_timestamp"}


class ArrayFile:
    """A ``.npy`` file that grows along its first axis and is never in memory as a whole.

    Parameters
    ----------
    path : Path
        File to write.
    dtype : dtype
        Type of the numbers on disk.
    n_columns : int, optional
        Width of a two-dimensional array; a vector without it.
    """

    def __init__(self, path: Path, dtype: Any, n_columns: int | None = None):
        self.path, self.dtype = path, np.dtype(dtype)
        self._tail = () if n_columns is None else (n_columns,)
        self._length = 0
        self._digest = hashlib.sha256()
        self._file: BinaryIO = open(path, "wb")  # noqa: SIM115 - closed by close()
        self._write_header()

    def _write_header(self) -> None:
        np.lib.format.write_array_header_1_0(
            self._file,
            {
                "descr": np.lib.format.dtype_to_descr(self.dtype),
                "fortran_order": False,
                "shape": (self._length, *self._tail),
            },
        )

    def append(self, array: np.ndarray) -> None:
        """Write further rows."""
        content = np.ascontiguousarray(array, dtype=self.dtype)
        self._length += len(content)
        view = content.reshape(-1).view(np.uint8).data
        self._file.write(view)
        self._digest.update(view)

    def close(self) -> str:
        """Finish the file; sha256 of its content."""
        # numpy pads the header so that a longer first axis leaves its size as it is.
        self._file.seek(0)
        self._write_header()
        self._file.close()
        return self._digest.hexdigest()

    def abandon(self) -> None:
        """Close the file without finishing it."""
        self._file.close()


class SplitWriter:
    """Writes one split block by block.

    Parameters
    ----------
    folder : Path
        Folder to create.
    layout : {"dense", "csr", "binary"}
        How the rows are kept.
    n_columns : int
        Number of columns D.
    """

    def __init__(self, folder: Path, layout: str, n_columns: int):
        folder.mkdir(parents=True)
        self.folder, self.layout, self.n_columns = folder, layout, n_columns
        self.n_rows = self.nnz = self.empty_rows = 0
        if layout == "dense":
            self._files = {"X": ArrayFile(folder / "X.npy", np.float32, n_columns)}
        else:
            self._files = {
                "indptr": ArrayFile(folder / "indptr.npy", np.int64),
                "indices": ArrayFile(folder / "indices.npy", np.int32),
            }
            if layout == "csr":
                self._files["values"] = ArrayFile(folder / "values.npy", np.float32)
            self._files["indptr"].append(np.zeros(1))

    def __enter__(self) -> "SplitWriter":
        return self

    def __exit__(self, *_: Any) -> None:
        for file in self._files.values():
            file.abandon()

    def append(self, block: Any) -> None:
        """Write further rows: an array for a dense split, a CSR matrix otherwise."""
        if self.layout == "dense":
            rows = block.toarray() if sp.issparse(block) else np.asarray(block)
            lengths = np.count_nonzero(rows, axis=1)
            self._files["X"].append(rows)
        else:
            lengths = np.diff(block.indptr).astype(np.int64)
            self._files["indptr"].append(self.nnz + np.cumsum(lengths))
            self._files["indices"].append(block.indices)
            if self.layout == "csr":
                self._files["values"].append(block.data)
        self.n_rows += len(lengths)
        self.nnz += int(lengths.sum())
        self.empty_rows += int(np.count_nonzero(lengths == 0))

    def finish(self, y: np.ndarray, groups: np.ndarray | None = None) -> dict:
        """Write the labels, close everything; shape, entries and fingerprint of the split."""
        if len(y) != self.n_rows:
            raise DatasetError(f"{self.folder.name}: {len(y)} labels for {self.n_rows} rows")
        self._files["y"] = ArrayFile(self.folder / "y.npy", np.int64)
        self._files["y"].append(y)
        if groups is not None:
            self._files["groups"] = ArrayFile(self.folder / "groups.npy", np.int32)
            self._files["groups"].append(groups)
        digests = {name: file.close() for name, file in self._files.items()}
        if self.layout == "csr" and self.nnz > MAX_INT32:
            _widen(self.folder / "indices.npy")
        content = {"n_columns": self.n_columns, **digests}
        return {
            "shape": [self.n_rows, self.n_columns],
            "nnz": self.nnz,
            "empty_rows": self.empty_rows,
            "layout": self.layout,
            "fingerprint": hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest(),
        }


def _widen(path: Path, step: int = 2**24) -> None:
    """Rewrite column numbers as int64: scipy wants them as wide as the row bounds, else it copies them."""
    narrow = np.load(path, mmap_mode="r", allow_pickle=False)
    wide = ArrayFile(path.with_suffix(".wide"), np.int64)
    for start in range(0, len(narrow), step):
        wide.append(narrow[start : start + step])
    wide.close()
    os.replace(path.with_suffix(".wide"), path)


@contextmanager
def dataset_folder(out: str | os.PathLike) -> Iterator[Path]:
    """Give a temporary folder to fill, which replaces ``out`` when the block succeeds."""
    try:
        with atomic_folder(out, OWN_FILES) as folder:
            yield folder
    except OSError as error:
        raise DatasetError(
            f"{out}: cannot be written ({error.strerror or error}); "
            "free some space there or choose another output folder"
        ) from error


def load_meta(out: str | os.PathLike) -> dict:
    """Description of a prepared data set: the content of its ``meta.json``.

    Parameters
    ----------
    out : path
        Folder of the prepared data set.
    """
    path = Path(out) / "meta.json"
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
        version = meta["format_version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DatasetError(f"{path}: no prepared data set there ({error}); prepare it first") from error
    if version != FORMAT_VERSION:
        raise DatasetError(f"{path}: format version {version}, this flrml reads {FORMAT_VERSION}; prepare it again")
    return meta


def _open(path: Path) -> np.ndarray:
    with reading(path, "part of a prepared data set", "prepare it again"):
        return np.load(path, mmap_mode="r", allow_pickle=False)


def _csr(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, n_columns: int) -> sp.csr_matrix:
    """CSR matrix on the given arrays as they are."""
    X = sp.csr_matrix((len(indptr) - 1, n_columns), dtype=values.dtype)
    # Set one by one: the constructor would look at every entry to choose the width of the numbers.
    X.indptr, X.indices, X.data = np.asarray(indptr, dtype=indices.dtype), indices, values
    X.has_canonical_format = True
    return X


def csr_on_maps(folder: Path, n_columns: int) -> sp.csr_matrix:
    """CSR matrix on the files ``indptr.npy``, ``indices.npy`` and ``values.npy`` of a folder."""
    indptr, indices, values = (_open(folder / f"{name}.npy") for name in ("indptr", "indices", "values"))
    if int(indptr[-1]) > MAX_INT32 and indices.dtype != np.int64:
        _widen(folder / "indices.npy")
        indices = _open(folder / "indices.npy")
    return _csr(indptr, indices, values, n_columns)


def open_split(path: str | os.PathLike) -> tuple[Any, np.ndarray]:
    """Open a prepared split without reading it.

    Parameters
    ----------
    path : path
        The ``train`` or ``test`` folder of a prepared data set.

    Returns
    -------
    X : memory map, CSR matrix on memory maps, or BinaryRows
        Rows of unit length.
    y : memory map of int64
        Class numbers 0 … c-1.
    """
    folder = Path(path)
    meta = load_meta(folder.parent)
    with reading(folder, "a prepared split", "prepare the data set again"):
        return _open_split(folder, meta["splits"][folder.name])


def _open_split(folder: Path, split: dict) -> tuple[Any, np.ndarray]:
    y = _open(folder / "y.npy")
    shape = tuple(split["shape"])
    X: Any = None
    if split["layout"] == "dense":
        X = _open(folder / "X.npy")
        consistent = X.shape == shape
    else:
        indptr, indices = _open(folder / "indptr.npy"), _open(folder / "indices.npy")
        consistent = len(indptr) == shape[0] + 1 and int(indptr[-1]) == len(indices) == split["nnz"]
        if split["layout"] == "binary":
            X = BinaryRows(indptr, indices, shape[1])
        else:
            values = _open(folder / "values.npy")
            consistent = consistent and len(values) == len(indices)
            if consistent:
                X = _csr(indptr, indices, values, shape[1])
    if not consistent or len(y) != shape[0]:
        raise DatasetError(f"{folder}: its files do not fit its meta.json; prepare the data set again")
    return X, y


def open_groups(path: str | os.PathLike) -> np.ndarray | None:
    """Object number of every row of a split, or None where each row is an object of its own."""
    file = Path(path) / "groups.npy"
    return _open(file) if file.exists() else None
