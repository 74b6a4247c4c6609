"""Load the user's own data: svmlight, NumPy, MATLAB, tables, or a folder of text files per class."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from flrml.datasets.columns import read_csv, read_parquet
from flrml.datasets.matlab import read_labelled
from flrml.datasets.options import did_you_mean
from flrml.datasets.parts import Loaded, Part, Request, matrix_part
from flrml.datasets.reading import files_below, open_zip, read_npy_header, reading
from flrml.datasets.svmlight import load_pair
from flrml.datasets.text import count_words, read_folder
from flrml.exceptions import DatasetError

SUFFIXES = {
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".npz": "npz",
    ".npy": "npy",
    ".mat": "mat",
    ".csv": "csv",
    ".parquet": "parquet",
}
WORD = r"(?u)\b\w\w+\b"


def guess_format(options: dict[str, Any]) -> str | None:
    """Return the format of the user's data: the given one, or that of the training file's suffix."""
    if options.get("format"):
        return options["format"]
    path = Path(str(options.get("train") or ""))
    suffixes = path.suffixes[-2:-1] if path.suffix in (".gz", ".bz2", ".xz") else path.suffixes[-1:]
    return SUFFIXES.get(suffixes[0]) if suffixes else None


def load_own(request: Request) -> Loaded:
    """Load the user's own data set as its options describe it."""
    options = request.options
    if not options["train"]:
        raise DatasetError("option train is missing; give the path of the training file or folder")
    if options["test"] and options["holdout"] is not None:
        raise DatasetError("both test and holdout are given; choose one of them")
    return READERS[options["format"]](request)


def _path(request: Request, option: str) -> Path | None:
    """Return the path that an option gives: as it is, or by name in the raw-file folder."""
    given = request.options[option]
    if not given:
        return None
    path = Path(os.path.expanduser(given))
    found = path if path.exists() else request.raw.find(str(given))
    if found is None:
        raise DatasetError(
            f"{given}: no such file, neither there nor in a raw-file folder; correct option {option}"
        )
    if not found.is_dir():
        request.raw.record(found)
    return found


def _paths(request: Request) -> tuple[Path, Path | None]:
    train, test = _path(request, "train"), _path(request, "test")
    assert train is not None
    return train, test


def _svmlight(request: Request) -> Loaded:
    return load_pair(*_paths(request), request.scratch, bool(request.options["zero_based"]))


def _folder(request: Request) -> Loaded:
    train, test = _paths(request)
    for path in filter(None, (train, test)):
        if path.is_dir():
            request.raw.record_folder(path, files_below(path))
    return count_words(read_folder(train), read_folder(test) if test else None, [str(train), str(test)], WORD)


def _each(read: Callable[[Path, Request], Part]) -> Callable[[Request], Loaded]:
    """Return a loader that reads the training and the test file in the same way."""

    def load(request: Request) -> Loaded:
        train, test = _paths(request)
        return Loaded(read(train, request), read(test, request) if test else None)

    return load


def _mat(path: Path, request: Request) -> Part:
    names = {key: str(request.options[key]) for key in ("features", "target") if request.options[key] is not None}
    return matrix_part(*read_labelled(path, **names), str(path))


def _csv(path: Path, request: Request) -> Part:
    return matrix_part(*read_csv(path, request.options["target"], request.scratch), str(path))


def _parquet(path: Path, request: Request) -> Part:
    return matrix_part(*read_parquet(path, request.options["target"], request.scratch), str(path))


def _npy(request: Request) -> Loaded:
    train, test = _paths(request)
    labels, test_labels = _path(request, "labels"), _path(request, "test_labels")
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


def _npz(request: Request) -> Loaded:
    train, test = _paths(request)
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
    labels_path = _path(request, labels_option)
    labels = arrays.array(target) if labels_path is None else open_npy(labels_path)
    X = arrays.sparse(labels.size) if "format" in arrays.names else arrays.array(features)
    return matrix_part(X, labels, str(arrays.path))


READERS: dict[str, Callable[[Request], Loaded]] = {
    "svmlight": _svmlight,
    "npz": _npz,
    "npy": _npy,
    "mat": _each(_mat),
    "csv": _each(_csv),
    "parquet": _each(_parquet),
    "folder": _folder,
}
