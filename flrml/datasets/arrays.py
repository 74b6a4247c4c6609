"""Load arrays that NumPy or SciPy has saved."""

import os
import shutil
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from flrml.datasets.options import did_you_mean
from flrml.datasets.parts import Loaded, Part, Request, matrix_part
from flrml.datasets.reading import open_zip, read_npy_header, reading
from flrml.exceptions import DatasetError


def load_npy(request: Request) -> Loaded:
    """Load rows and labels from .npy files."""
    train, test = request.user_paths()
    labels, test_labels = request.path("labels"), request.path("test_labels")
    if labels is None or (test is not None and test_labels is None):
        raise DatasetError(f"{train}: .npy files contain no labels; give them with `labels` (and `test_labels`)")
    parts = [matrix_part(open_npy(train), open_npy(labels), str(train))]
    if test is not None and test_labels is not None:
        parts.append(matrix_part(open_npy(test), open_npy(test_labels), str(test)))
    return Loaded.of(parts)


def open_npy(path: Path) -> np.ndarray:
    """Open a .npy file as a memory map."""
    with reading(path, "a NumPy array", "save it with numpy.save and without objects"):
        with open(path, "rb") as file:
            shape, _, dtype = read_npy_header(file)
        if 0 in shape:
            raise ValueError(f"the array is empty, of shape {shape}")
        if dtype.kind not in "biufU":
            raise ValueError(f"type {dtype}")
        return np.load(path, mmap_mode="r", allow_pickle=False)


class _Npz:
    """An .npz file whose arrays are unpacked on demand, so that they open as memory maps."""

    def __init__(self, path: Path, scratch: Path):
        self.path, self.scratch = path, scratch
        scratch.mkdir(parents=True)
        with open_zip(path) as archive:
            self.names = {entry.removesuffix(".npy"): entry for entry in archive.namelist()}

    def array(self, name: str) -> np.ndarray:
        if name not in self.names:
            raise DatasetError(
                f"{self.path}: no array {name!r}{did_you_mean(name, self.names)}; name the arrays with "
                f"`features` and `target`, or give `labels`: {', '.join(sorted(self.names)) or 'the file is empty'}"
            )
        entry, unpacked = self.names[name], self.scratch / f"{len(os.listdir(self.scratch))}.npy"
        with reading(f"{self.path}: {entry}", "a NumPy array", "save numbers, not objects"):
            with open_zip(self.path) as archive, archive.open(entry) as source, open(unpacked, "wb") as target:
                shutil.copyfileobj(source, target)
            return open_npy(unpacked)

    def sparse(self, n_rows: int) -> sp.csr_matrix:
        """Read the matrix that scipy.sparse.save_npz wrote."""
        with reading(self.path, "a sparse matrix of scipy.sparse.save_npz"):
            X = sp.load_npz(self.path)
            if X.format not in ("csr", "csc", "coo"):
                raise ValueError(f"format {X.format}; save it as csr")
            # Checked before the conversion, as a damaged number of rows would fill the memory.
            if X.shape[0] != n_rows:
                raise DatasetError(
                    f"{self.path}: {n_rows} labels for {X.shape[0]} rows; give exactly one label per row"
                )
            if X.format != "coo":
                X.check_format(full_check=True)
            rows = sp.csr_matrix(X)
            rows.sum_duplicates()
            return rows


def load_npz(request: Request) -> Loaded:
    """Load rows and labels from .npz files: named arrays, or a sparse matrix of SciPy."""
    train, test = request.user_paths()
    arrays = _Npz(train, request.scratch / "train-npz")
    if test is None and {"X_train", "X_test", "y_train", "y_test"} <= set(arrays.names):
        parts = [_npz_part(arrays, "X_train", "y_train", request, "labels")]
        if request.options["holdout"] is None:
            parts.append(_npz_part(arrays, "X_test", "y_test", request, "labels"))
        return Loaded.of(parts)
    features, target = (
        str(request.options[key] or default) for key, default in (("features", "X"), ("target", "y"))
    )
    parts = [_npz_part(arrays, features, target, request, "labels")]
    if test is not None:
        arrays = _Npz(test, request.scratch / "test-npz")
        parts.append(_npz_part(arrays, features, target, request, "test_labels"))
    return Loaded.of(parts)


def _npz_part(arrays: _Npz, features: str, target: str, request: Request, labels_option: str) -> Part:
    labels_path = request.path(labels_option)
    labels = arrays.array(target) if labels_path is None else open_npy(labels_path)
    X = arrays.sparse(labels.size) if "format" in arrays.names else arrays.array(features)
    return matrix_part(X, labels, str(arrays.path))
