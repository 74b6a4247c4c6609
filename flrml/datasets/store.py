"""Store prepared data sets on disk: one folder of ``.npy`` files per split, and one ``meta.json`` for both.

A split contains either a dense matrix (``X.npy``), a sparse one (``indptr.npy``, ``indices.npy``,
``values.npy``) or rows of zeros and ones, as column numbers (``indptr.npy`` and ``indices.npy`` alone) or as runs
of ones (``indptr.npy`` and ``runs.npy``, a twentieth of the size for solid voxels); the class numbers ``y.npy``;
if several rows belong to the same object, ``groups.npy``; and, if the rows have names, ``names.npy``. All of them
open as memory maps.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from flrml.datasets.integrity import REMEDY, check_bounds, check_values, open_array
from flrml.datasets.meta import load_meta
from flrml.datasets.reading import reading, writing
from flrml.exceptions import DatasetError
from flrml.files import atomic_folder, atomic_write
from flrml.rows import BinaryRows
from flrml.rows.binary import MAX_RUN_COLUMNS, RunRows, are_runs, find_runs

MAX_INT32 = 2**31 - 1
# Names in a folder that may be replaced; Snakemake adds its time stamp.
OWN_FILES = {"train", "test", "meta.json", "encoder.npz", ".snakemake_timestamp"}
LAYOUTS = {
    "dense": ("X",),
    "csr": ("indptr", "indices", "values"),
    "binary": ("indptr", "indices"),
    "runs": ("indptr", "runs"),
}
_INT32, _INT64, _UINT32, _FLOAT32 = np.dtype("i4"), np.dtype("i8"), np.dtype("u4"), np.dtype("f4")
# Types and number of dimensions of every array.
TYPES: dict[str, tuple[tuple, int]] = {
    "X": ((_FLOAT32,), 2),
    "values": ((_FLOAT32,), 1),
    "indptr": ((_INT64,), 1),
    "indices": ((_INT32, _INT64), 1),
    "runs": ((_UINT32,), 1),
    "y": ((_INT64,), 1),
    "groups": ((_INT32,), 1),
}


class ArrayFile:
    """A ``.npy`` file that is written row by row and never in memory as a whole; a vector without ``n_columns``."""

    def __init__(self, path: Path, dtype: Any, n_columns: int | None = None):
        self.path, self.dtype = path, np.dtype(dtype)
        self._tail = () if n_columns is None else (n_columns,)
        self._length = 0
        self._digest = hashlib.sha256()
        self._file: BinaryIO = open(path, "wb")  # noqa: SIM115 - closed by close()
        self._write_header()

    def _write_header(self) -> None:
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": (self._length, *self._tail)}
        np.lib.format.write_array_header_1_0(self._file, header)

    def append(self, array: np.ndarray) -> None:
        """Write further rows."""
        content = np.ascontiguousarray(array, dtype=self.dtype)
        self._length += len(content)
        view = content.reshape(-1).view(np.uint8).data
        self._file.write(view)
        self._digest.update(view)

    def close(self) -> str:
        """Finish the file, and return the sha256 of its values."""
        # numpy pads the header, so that its size does not depend on the length of the first axis.
        self._file.seek(0)
        self._write_header()
        self._file.close()
        return self._digest.hexdigest()

    def abandon(self) -> None:
        """Close the file without finishing it."""
        self._file.close()


class SplitWriter:
    """Writer of one split, block by block; more columns than runs can number are written as ``binary``."""

    def __init__(self, folder: Path, layout: str, n_columns: int):
        folder.mkdir(parents=True)
        if layout == "runs" and n_columns > MAX_RUN_COLUMNS:
            layout = "binary"
        self.folder, self.layout, self.n_columns = folder, layout, n_columns
        self.n_rows = self.n_stored = self.nnz = self.empty_rows = 0
        if layout == "dense":
            self._files = {"X": ArrayFile(folder / "X.npy", np.float32, n_columns)}
        else:
            self._files = {name: self._vector(name) for name in LAYOUTS[layout]}
            self._files["indptr"].append(np.zeros(1))

    def _vector(self, name: str) -> ArrayFile:
        return ArrayFile(self.folder / f"{name}.npy", TYPES[name][0][0])

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
            lengths = np.diff(block.indptr)
            entries, bounds = block.indices, block.indptr
            if self.layout == "runs":
                entries, bounds = find_runs(entries, bounds)
            self._files["indptr"].append(self.n_stored + bounds[1:].astype(np.int64))
            self._files[LAYOUTS[self.layout][1]].append(entries)
            self.n_stored += len(entries)
            if self.layout == "csr":
                self._files["values"].append(block.data)
        self.n_rows += len(lengths)
        self.nnz += int(lengths.sum())
        self.empty_rows += int(np.count_nonzero(lengths == 0))

    def finish(self, y: np.ndarray, groups: np.ndarray | None = None, names: np.ndarray | None = None) -> dict:
        """Write the labels, close all files, and return the entry of the split in meta.json."""
        if len(y) != self.n_rows:
            raise DatasetError(
                f"{self.folder.name}: {len(y)} labels for {self.n_rows} rows; give exactly one label per row"
            )
        for name, numbers in (("y", y), ("groups", groups)):
            if numbers is not None:
                self._files[name] = self._vector(name)
                self._files[name].append(numbers)
        if names is not None:
            encoded = np.char.encode(names, "utf-8")
            self._files["names"] = ArrayFile(self.folder / "names.npy", encoded.dtype)
            self._files["names"].append(encoded)
        digests = {name: file.close() for name, file in self._files.items()}
        content = {"n_columns": self.n_columns, **digests}
        if self.layout == "csr" and self.nnz > MAX_INT32:
            digests["indices"] = _widen(self.folder / "indices.npy")
        return {
            "shape": [self.n_rows, self.n_columns],
            "nnz": self.nnz,
            "empty_rows": self.empty_rows,
            "layout": self.layout,
            **({"n_runs": self.n_stored} if self.layout == "runs" else {}),
            "sha256": digests,
            "fingerprint": hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest(),
        }


def _widen(path: Path, step: int = 2**24) -> str:
    """Rewrite indices as int64, as scipy copies them unless they are as wide as indptr; return their sha256."""
    narrow = np.load(path, mmap_mode="r", allow_pickle=False)
    with atomic_write(path) as temporary:
        wide = ArrayFile(temporary, np.int64)
        for start in range(0, len(narrow), step):
            wide.append(narrow[start : start + step])
        return wide.close()


@contextmanager
def dataset_folder(out: str | os.PathLike) -> Iterator[Path]:
    """Give a temporary folder to fill, which replaces ``out`` when the block succeeds."""
    with writing(f"{out}: cannot be written", "output"), atomic_folder(out, OWN_FILES) as folder:
        yield folder


def is_own_folder(folder: Path) -> bool:
    """Return whether a folder holds nothing but what :func:`dataset_folder` writes."""
    return set(os.listdir(folder)) <= set(OWN_FILES)


def _csr(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, n_columns: int) -> sp.csr_matrix:
    """Build a CSR matrix on the given arrays without copying them."""
    X = sp.csr_matrix((len(indptr) - 1, n_columns), dtype=values.dtype)
    # Set one by one: the constructor would read every entry to choose the width of the indices.
    X.indptr, X.indices, X.data = np.asarray(indptr, dtype=indices.dtype), indices, values
    X.has_canonical_format = True
    return X


def csr_on_maps(folder: Path, n_columns: int) -> sp.csr_matrix:
    """Open the files ``indptr.npy``, ``indices.npy`` and ``values.npy`` of a folder as a CSR matrix."""
    indptr, indices, values = (open_array(folder / f"{name}.npy") for name in ("indptr", "indices", "values"))
    if int(indptr[-1]) > MAX_INT32 and indices.dtype != np.int64:
        _widen(folder / "indices.npy")
        indices = open_array(folder / "indices.npy")
    return _csr(indptr, indices, values, n_columns)


def open_split(path: str | os.PathLike) -> tuple[Any, np.ndarray]:
    """Open a prepared split as memory maps, after a check of its arrays against their bounds.

    Parameters
    ----------
    path : path
        The ``train`` or ``test`` folder of a prepared data set.

    Returns
    -------
    X : memory map, CSR matrix on memory maps, BinaryRows or RunRows
        Rows of unit length.
    y : memory map of int64
        Class numbers 0 … c-1.
    """
    folder = Path(path)
    meta = load_meta(folder.parent)
    with reading(folder, "a prepared split", REMEDY):
        return _open_split(folder, meta)


def _open_split(folder: Path, meta: dict) -> tuple[Any, np.ndarray]:
    split = meta["splits"][folder.name]
    if split["layout"] not in LAYOUTS:
        raise DatasetError(f"{folder}: unknown layout {split['layout']!r}; {REMEDY}")
    (n_rows, n_columns), nnz = split["shape"], split["nnz"]
    n_stored = split["n_runs"] if split["layout"] == "runs" else nnz
    arrays = {name: open_array(folder / f"{name}.npy", *TYPES[name]) for name in (*LAYOUTS[split["layout"]], "y")}
    shapes = {"X": (n_rows, n_columns), "indptr": (n_rows + 1,), "y": (n_rows,)}
    consistent = all(array.shape == shapes.get(name, (n_stored,)) for name, array in arrays.items())
    if consistent and "indptr" in arrays:
        consistent = arrays["indptr"][0] == 0 and arrays["indptr"][-1] == n_stored
    if not consistent or meta["n_features"] != n_columns:
        raise DatasetError(f"{folder}: the arrays do not match meta.json; {REMEDY}")
    largest = float(np.finfo(np.float32).max)
    bounds = {"X": (-largest, largest), "values": (-largest, largest), "indptr": (0, n_stored)}
    bounds |= {"indices": (0, n_columns - 1), "y": (0, meta["n_classes"] - 1)}
    for name, array in arrays.items():
        file = folder / f"{name}.npy"
        if name == "runs":
            check_values(
                file, array, partial(are_runs, n_columns=n_columns), f"a run of ones in {n_columns} columns"
            )
        else:
            check_bounds(file, array, *bounds[name], ascending=name == "indptr")
    y = arrays.pop("y")
    if split["layout"] == "dense":
        return arrays["X"], y
    if split["layout"] == "runs":
        return RunRows(arrays["indptr"], arrays["runs"], n_columns, nnz=nnz, check=False), y
    if split["layout"] == "binary":
        return BinaryRows(arrays["indptr"], arrays["indices"], n_columns, check=False), y
    return _csr(arrays["indptr"], arrays["indices"], arrays["values"], n_columns), y


def open_groups(path: str | os.PathLike) -> np.ndarray | None:
    """Open the group numbers of a split, or return None if every row is its own group.

    Parameters
    ----------
    path : path
        The ``train`` or ``test`` folder of a prepared data set.
    """
    return _open_column(Path(path), "groups")


def open_names(path: str | os.PathLike) -> np.ndarray | None:
    """Open the names of the rows of a split, or return None if they have none.

    Parameters
    ----------
    path : path
        The ``train`` or ``test`` folder of a prepared data set.
    """
    return _open_column(Path(path), "names")


def _open_column(folder: Path, name: str) -> np.ndarray | None:
    """Open an array with a value per row, if the split has it."""
    meta = load_meta(folder.parent)
    with reading(folder, "a prepared split", REMEDY):
        split, file = meta["splits"][folder.name], folder / f"{name}.npy"
        if not file.exists() and name not in split.get("sha256", {}):
            return None
        values = open_array(file, *TYPES.get(name, ()))
        if values.shape != (split["shape"][0],):
            raise DatasetError(f"{file}: {values.size} {name} for {split['shape'][0]} rows; {REMEDY}")
        if name == "groups":
            check_bounds(file, values, 0, MAX_INT32)
    with reading(file, f"{name} of rows", REMEDY):
        return values if name == "groups" else np.char.decode(values, "utf-8")


def verify(folder: str | os.PathLike) -> None:
    """Raise DatasetError if the prepared data set in a folder is incomplete or damaged.

    Examples
    --------
    >>> import tempfile
    >>> from flrml.datasets import prepare
    >>> from flrml.datasets.store import verify
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     meta = prepare("digits", f"{folder}/digits")
    ...     verify(f"{folder}/digits")
    """
    meta = load_meta(folder)
    with reading(Path(folder) / "meta.json", "a description of a data set", REMEDY):
        splits = [Path(folder, name) for name in meta["splits"]]
    for path in splits:
        open_split(path)
        open_groups(path)
        open_names(path)
