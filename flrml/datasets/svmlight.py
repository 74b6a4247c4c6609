"""Load files in svmlight format, as LIBSVM publishes them: one line ``label column:value …`` per example.

scikit-learn's reader is two to three times as fast, but keeps the whole file in memory, accepts NaN, refuses
unsorted columns and names no line in its errors.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from flrml.datasets.fetch import RemoteFile
from flrml.datasets.parts import Loaded, Part, Request, matrix_part
from flrml.datasets.reading import numbered_lines
from flrml.datasets.store import MAX_INT32, ArrayFile, csr_on_maps
from flrml.exceptions import DatasetError


def read_svmlight(path: Path, scratch: Path, zero_based: bool = False) -> tuple[sp.csr_matrix, np.ndarray]:
    """Read the matrix and labels of an svmlight file, plain or compressed; the matrix is on maps in ``scratch``."""
    scratch.mkdir(parents=True)
    types = {"indptr": np.int64, "indices": np.int32, "values": np.float64}
    files = {name: ArrayFile(scratch / f"{name}.npy", dtype) for name, dtype in types.items()}
    first_column, nnz, n_columns = int(not zero_based), 0, 0
    files["indptr"].append(np.zeros(1))
    labels: list[int] = []
    for number, line in numbered_lines(path, "an svmlight file"):
        content = line.partition(b"#")[0]
        if not content.strip():
            continue
        try:
            label, columns, values = _parse(content, first_column)
        except ValueError as error:
            raise DatasetError(f"{path}: line {number}: {error}") from error
        labels.append(label)
        nnz += len(columns)
        n_columns = max(n_columns, int(columns.max(initial=-1)) + 1)
        for name, array in (("indptr", np.array([nnz])), ("indices", columns), ("values", values)):
            files[name].append(array)
    if not labels:
        raise DatasetError(f"{path}: no examples; fetch or write the file again")
    for file in files.values():
        file.close()
    return csr_on_maps(scratch, n_columns), np.array(labels, dtype=np.int64)


def _parse(line: bytes, first_column: int) -> tuple[int, np.ndarray, np.ndarray]:
    """Return the label of an example, its columns in ascending order, counted from 0, and its values."""
    try:
        if b"_" in line:
            raise ValueError("underscore in a number")
        first, *fields = line.split()
        if b"," in first:
            raise ValueError(f"multi-label targets are not supported, got {first.decode()!r}")
        label = float(first)
        if not label.is_integer() or abs(label) > 2**53:
            raise ValueError(f"label must be an integer, got {first.decode()!r}")
        pairs = [field.partition(b":") for field in fields]
        if pairs and pairs[0][0] == b"qid":
            del pairs[0]
        columns, values = [int(column) for column, _, _ in pairs], [float(value) for _, _, value in pairs]
    except ValueError as error:
        raise ValueError(f"{error}; expected `label column:value …`") from error
    if columns and min(columns) < first_column:
        raise ValueError(f"a column number below {first_column}; count from 1, or set zero_based")
    if columns and max(columns) - first_column >= MAX_INT32:
        raise ValueError("a column number above 2³¹; renumber the columns")
    if not all(map(math.isfinite, values)):
        raise ValueError("a value that is not finite; remove or replace it")
    if len(set(columns)) < len(columns):
        raise ValueError("a column that occurs twice; keep one of them")
    order = np.argsort(columns)
    return int(label), np.array(columns, dtype=np.int64)[order] - first_column, np.array(values)[order]


def load_pair(
    train: Path, test: Path | None, scratch: Path, zero_based: bool = False, **part_options: Any
) -> Loaded:
    """Load one or two svmlight files, with the number of columns of the wider one."""
    read = [
        (path, *read_svmlight(path, scratch / f"svmlight-{number}", zero_based))
        for number, path in enumerate((train, test))
        if path is not None
    ]
    n_columns = max(X.shape[1] for _, X, _ in read)
    if n_columns == 0:
        raise DatasetError(f"{train}: every example is empty; write `label column:value …` on each line")
    parts: list[Part] = []
    for path, X, labels in read:
        X.resize(X.shape[0], n_columns)
        parts.append(matrix_part(X, labels, str(path), **part_options))
    return Loaded(*parts)


def load_libsvm(request: Request, *, files: tuple[RemoteFile, RemoteFile], **part_options: Any) -> Loaded:
    """Load a data set that LIBSVM publishes as a training and a test file."""
    train, test = files
    train_path, test_path = request.raw.get(train), None
    if request.options["holdout"] is None:
        try:
            test_path = request.raw.get(test)
        except DatasetError as error:
            raise DatasetError(
                f"{error}; or set `holdout: 0.2` to hold out a fifth of {train.name} instead"
            ) from error
    return load_pair(train_path, test_path, request.scratch, **part_options)


def load_svmlight(request: Request) -> Loaded:
    """Load the user's svmlight files."""
    return load_pair(*request.user_paths(), request.scratch, bool(request.options["zero_based"]))
