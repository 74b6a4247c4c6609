"""Validate rows."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from flrml.rows.binary import BinaryRows
from flrml.rows.layout import RowOperator, is_dask, on_disk
from flrml.rows.measures import largest_value


def check_unmasked(values: Any, name: str) -> None:
    """Raise ValueError if an array has a mask, which scikit-learn's checks ignore."""
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array; fill masked values or leave out their rows")


def check_sparse(X: Any, name: str = "X") -> None:
    """Raise ValueError if a sparse matrix has indices out of range, which would make SciPy read foreign memory.

    Masked arrays are refused as well.
    """
    check_unmasked(X, name)
    if not sp.issparse(X) or on_disk(X):  # files are checked when they are opened
        return
    try:
        if X.format in ("csr", "csc", "bsr"):
            X.check_format(full_check=True)
        elif X.format == "coo" and X.nnz:
            sp.coo_matrix((X.data, (X.row, X.col)), shape=X.shape)
    except ValueError as error:
        raise ValueError(f"{name} is not a sound sparse matrix: {error}; check indptr and indices") from None


def canonical(X: Any) -> Any:
    """Return rows as they are, or a canonical copy of a CSR matrix with duplicate, unordered or zero entries."""
    if not sp.issparse(X) or on_disk(X) or (X.has_canonical_format and X.data.all()):
        return X
    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def check_rows(X: Any, name: str = "X") -> Any:
    """Return rows as they are, lists and data frames as an array; raise if they are empty or not finite."""
    if isinstance(X, BinaryRows | RowOperator) or is_dask(X):
        if X.shape[0] == 0:
            raise ValueError(f"{name} has no rows")
        return X
    check_sparse(X, name)
    checked = canonical(check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name=name))
    return X if isinstance(X, np.ndarray) and X.dtype == checked.dtype else checked  # a memory map stays one


def check_scale(X: Any) -> None:
    """Raise ValueError if the values of X are so large or small that squares of them lose all accuracy."""
    check_largest(largest_value(X.X if isinstance(X, RowOperator) else X))


def check_largest(largest: float) -> None:
    """Raise ValueError if the largest absolute value of X is out of bounds; see :func:`check_scale`."""
    # The methods square the values of X, and some cut singular values at an absolute size.
    if largest > 0 and not 1e-6 <= largest <= 1e8:
        raise ValueError(
            f"the largest value of X is {largest:.0e}; scale the rows to unit length, for example with "
            "sklearn.preprocessing.normalize"
        )
