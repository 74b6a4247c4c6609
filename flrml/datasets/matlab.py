"""MATLAB files with a feature matrix and a label vector, as Deng Cai publishes his text collections."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from flrml.datasets.fetch import RemoteFile
from flrml.datasets.parts import Loaded, Request, matrix_part
from flrml.datasets.reading import reading
from flrml.exceptions import DatasetError

NUMERIC = {"sparse", "double", "single", "logical"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


def read_mat(path: Path, names: list[str]) -> list[Any]:
    """Numeric variables of a MATLAB file (up to version 7.2); cells, structs and objects are refused."""
    if not path.is_file():
        raise DatasetError(f"{path}: no such file; give the path of a .mat file")
    with reading(path, "a MATLAB file", "save it with `save -v7` and plain matrices"):
        kinds = {name: kind for name, _, kind in scipy.io.whosmat(path)}
    for name in names:
        if name not in kinds:
            raise DatasetError(
                f"{path}: no variable {name!r} in it, only {', '.join(sorted(kinds)) or 'none'}; "
                "name them with `features` and `target`"
            )
        if kinds[name] not in NUMERIC:
            raise DatasetError(
                f"{path}: variable {name!r} is of class {kinds[name]}; save it as a plain numeric matrix"
            )
    with reading(path, "a MATLAB file", "save it with `save -v7` and plain matrices"):
        content = scipy.io.loadmat(path, variable_names=names)
        return [_checked(content[name]) for name in names]


def _checked(matrix: Any) -> Any:
    """CSR matrix or array whose structure holds, whatever the file says."""
    if not sp.issparse(matrix):
        if matrix.dtype.kind not in "biuf":
            raise ValueError(f"numbers of type {matrix.dtype}")
        return matrix
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"numbers of type {matrix.dtype}")
    matrix = sp.csc_matrix(matrix)
    matrix.check_format(full_check=True)
    rows = matrix.tocsr()
    rows.sum_duplicates()
    return rows


def read_labelled(path: Path, features: str = "fea", target: str = "gnd") -> tuple[Any, np.ndarray]:
    """Features and labels of a MATLAB file."""
    X, labels = read_mat(path, [features, target])
    labels = labels.toarray() if sp.issparse(labels) else labels
    return X, labels.ravel()


def load_deng_cai(request: Request, *, file: RemoteFile) -> Loaded:
    """One of Deng Cai's collections: `fea` holds term counts, `gnd` the category of each document."""
    path = request.raw.get(file)
    return Loaded(matrix_part(*read_labelled(path), str(path)))
