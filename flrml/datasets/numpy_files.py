"""Load arrays that NumPy or SciPy has saved."""

import os
import shutil
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from flrml.datasets.parts import Loaded, Part, Request, check_labels, matrix_part
from flrml.datasets.reading import open_zip, reading
from flrml.exceptions import DatasetError, suggest


def load_npy(request: Request) -> Loaded:
    """Load rows and labels from .npy files."""
    train, test = request.user_paths()
    labels, test_labels = request.path("labels"), request.path("test_labels")
    if labels is None or (test is not None and test_labels is None):
        raise DatasetError(f"{train}: .npy files contain no labels; give them with `labels` (and `test_labels`)")
    part = matrix_part(open_npy(train), open_npy(labels), str(train))
    part = part.described(_column(request, "groups"), _column(request, "names"))
    if test is None or test_labels is None:
        return Loaded(part)
    return Loaded(part, matrix_part(open_npy(test), open_npy(test_labels), str(test)))


def open_npy(path: Path) -> np.ndarray:
    """Open a .npy file as a memory map."""
    with reading(path, "a NumPy array", "save it with numpy.save and without objects"):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        if array.size == 0:
            raise ValueError(f"the array is empty, of shape {array.shape}")
        if array.dtype.kind not in "biufU":
            raise ValueError(f"type {array.dtype}")
        return array


def load_npz(request: Request) -> Loaded:
    """Load rows and labels from .npz files: named arrays, or a sparse matrix of SciPy."""
    train, test = request.user_paths()
    if test is None and {"X_train", "X_test", "y_train", "y_test"} <= set(_entries(train)):
        splits = ("train", "test") if request.options["holdout"] is None else ("train",)
        return Loaded(*(_npz_part(request, train, "labels", f"_{split}") for split in splits))
    part = _npz_part(request, train, "labels")
    return Loaded(part, None if test is None else _npz_part(request, test, "test_labels"))


def _npz_part(request: Request, path: Path, labels_option: str, suffix: str = "") -> Part:
    features, target = (
        default + suffix if suffix else str(request.options[option] or default)
        for option, default in (("features", "X"), ("target", "y"))
    )
    labels_path = request.path(labels_option)
    remedy = "name the arrays with `features` and `target`, or give `labels`"
    labels = _unpack(path, target, request.scratch, remedy) if labels_path is None else open_npy(labels_path)
    is_sparse = "format" in _entries(path)
    X = _read_sparse(path, labels.size) if is_sparse else _unpack(path, features, request.scratch, remedy)
    groups, names = (_column(request, option, path, suffix) for option in ("groups", "names"))
    return matrix_part(X, labels, str(path)).described(groups, names)


def _column(request: Request, option: str, archive: Path | None = None, suffix: str = "") -> np.ndarray | None:
    """Return the groups or names of the rows: an array of an archive, or of a file of its own."""
    given = request.options[option]
    if given is not None and archive is not None and Path(str(given)).suffix != ".npy":
        return _unpack(archive, f"{given}{suffix}", request.scratch, f"correct `{option}`")
    path = request.path(option)
    return None if path is None else open_npy(path)


def _entries(path: Path) -> dict[str, str]:
    with open_zip(path) as archive:
        return {entry.removesuffix(".npy"): entry for entry in archive.namelist()}


def _unpack(path: Path, name: str, scratch: Path, remedy: str) -> np.ndarray:
    """Unpack an array of an .npz file, so that it opens as a memory map."""
    entries = _entries(path)
    if name not in entries:
        found = ", ".join(sorted(entries)) or "the file is empty"
        raise DatasetError(f"{path}: no array {name!r}{suggest(name, entries)}; {remedy}: {found}")
    unpacked = scratch / f"{len(os.listdir(scratch))}.npy"
    with reading(f"{path}: {entries[name]}", "a NumPy array", "save numbers, not objects"):
        with open_zip(path) as archive, archive.open(entries[name]) as source, open(unpacked, "wb") as target:
            shutil.copyfileobj(source, target)
        return open_npy(unpacked)


def _read_sparse(path: Path, n_labels: int) -> sp.csr_matrix:
    """Read the matrix that scipy.sparse.save_npz wrote."""
    with reading(path, "a sparse matrix of scipy.sparse.save_npz"):
        X = sp.load_npz(path)
        if X.format not in ("csr", "csc", "coo"):
            raise ValueError(f"format {X.format}; save it as csr")
        # Checked before the conversion, as a damaged number of rows would fill the memory.
        check_labels(path, n_labels, X.shape[0])
        if X.format != "coo":
            X.check_format(full_check=True)
        rows = sp.csr_matrix(X)
        rows.sum_duplicates()
        return rows
