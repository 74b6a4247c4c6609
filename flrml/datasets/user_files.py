"""The user's own data: svmlight, NumPy, MATLAB, tables, or a folder of text files per class."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from flrml.datasets.matlab import read_labelled
from flrml.datasets.parts import Loaded, Part, Request, matrix_part
from flrml.datasets.reading import open_zip, reading
from flrml.datasets.svmlight import load_pair
from flrml.datasets.tables import read_csv, read_parquet
from flrml.datasets.text import count_words, read_folder, text_files
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
    """Format of the user's data: the one given, or what the name of the training file says."""
    if options.get("format"):
        return options["format"]
    path = Path(str(options.get("train") or ""))
    suffixes = path.suffixes[-2:-1] if path.suffix in (".gz", ".bz2") else path.suffixes[-1:]
    return SUFFIXES.get(suffixes[0]) if suffixes else None


def load_own(request: Request) -> Loaded:
    """The user's own data set, as its options describe it."""
    options = request.options
    if not options["train"]:
        raise DatasetError("option train is missing; give the path of the training file or folder")
    if options["test"] and options["holdout"] is not None:
        raise DatasetError("both test and holdout are given; choose one of them")
    return READERS[options["format"]](request)


def _path(request: Request, option: str) -> Path | None:
    """Path that an option gives: as it is, or by name in the raw-file folder."""
    given = request.options[option]
    if not given:
        return None
    path = Path(os.path.expanduser(given))
    found = path if path.exists() else request.raw.find(str(given))
    if found is None:
        raise DatasetError(
            f"{given}: no such file, neither there nor in a raw-file folder; correct option {option}"
        )
    if found.is_file():
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
            request.raw.record_folder(path, text_files(path))
    return count_words(read_folder(train), read_folder(test) if test else None, [str(train), str(test)], WORD)


def _each(read: Callable[[Path, Request], Part]) -> Callable[[Request], Loaded]:
    """Reader of a training and a test file that are alike."""

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
        raise DatasetError(f"{train}: .npy files hold no labels; give them with `labels` (and `test_labels`)")
    parts = [matrix_part(open_npy(train), open_npy(labels), str(train))]
    if test is not None and test_labels is not None:
        parts.append(matrix_part(open_npy(test), open_npy(test_labels), str(test)))
    return Loaded.of(parts)


def open_npy(path: Path) -> np.ndarray:
    """Array of a .npy file as a memory map."""
    with reading(path, "a NumPy array", "save it with numpy.save and without objects"):
        with open(path, "rb") as file:
            shape, _, dtype = read_npy_header(file)
        if 0 in shape:
            raise ValueError(f"it is empty, of shape {shape}")
        if dtype.kind not in "biufU":
            raise ValueError(f"type {dtype}")
        return np.load(path, mmap_mode="r", allow_pickle=False)


def read_npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, column order and type that a .npy file announces."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(file)
    if version not in readers:
        raise ValueError(f"format version {version}")
    return readers[version](file)


def _npz(request: Request) -> Loaded:
    train, test = _paths(request)
    arrays = _unpack(train, request.scratch / "train-npz")
    if test is None and {"X_train", "X_test", "y_train", "y_test"} <= set(arrays):
        if request.options["holdout"] is not None:
            return Loaded(_npz_part(train, arrays, "X_train", "y_train", request, "labels"))
        return Loaded(
            _npz_part(train, arrays, "X_train", "y_train", request, "labels"),
            _npz_part(train, arrays, "X_test", "y_test", request, "labels"),
        )
    features, target = (
        str(request.options[key] or default) for key, default in (("features", "X"), ("target", "y"))
    )
    parts = [_npz_part(train, arrays, features, target, request, "labels")]
    if test is not None:
        arrays = _unpack(test, request.scratch / "test-npz")
        parts.append(_npz_part(test, arrays, features, target, request, "test_labels"))
    return Loaded.of(parts)


def _unpack(path: Path, scratch: Path) -> dict[str, Path]:
    """Arrays of an .npz file by name, unpacked so that they open as memory maps."""
    scratch.mkdir(parents=True)
    arrays = {}
    with open_zip(path) as archive:
        for number, entry in enumerate(archive.namelist()):
            arrays[entry.removesuffix(".npy")] = scratch / f"{number}.npy"
            with (
                reading(f"{path}: {entry}", "an entry of an .npz file"),
                archive.open(entry) as source,
                open(scratch / f"{number}.npy", "wb") as target,
            ):
                shutil.copyfileobj(source, target)
    return arrays


def _npz_part(
    path: Path, arrays: dict[str, Path], features: str, target: str, request: Request, labels_option: str
) -> Part:
    def array(name: str) -> np.ndarray:
        if name not in arrays:
            raise DatasetError(
                f"{path}: no array {name!r} in it, only {', '.join(sorted(arrays)) or 'none'}; "
                "name them with `features` and `target`, or give `labels`"
            )
        with reading(f"{path}: {name}", "a NumPy array", "save numbers, no objects"):
            return open_npy(arrays[name])

    labels_path = _path(request, labels_option)
    labels = array(target) if labels_path is None else open_npy(labels_path)
    X = _sparse(path) if "format" in arrays else array(features)
    return matrix_part(X, labels, str(path))


def _sparse(path: Path) -> sp.csr_matrix:
    """Matrix that scipy.sparse.save_npz wrote."""
    with reading(path, "a sparse matrix of scipy.sparse.save_npz"):
        X = sp.load_npz(path)
        if X.format not in ("csr", "csc", "coo"):
            raise ValueError(f"format {X.format}; save it as csr")
        if X.format != "coo":
            X.check_format(full_check=True)
        rows = sp.csr_matrix(X)
        rows.sum_duplicates()
        return rows


READERS: dict[str, Callable[[Request], Loaded]] = {
    "svmlight": _svmlight,
    "npz": _npz,
    "npy": _npy,
    "mat": _each(_mat),
    "csv": _each(_csv),
    "parquet": _each(_parquet),
    "folder": _folder,
}
