"""Write embeddings as files that search indexes read."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from flrml.files import PathLike, atomic_folder
from flrml.rows import check_rows, is_dask, is_sparse, normalize

ROWS, NAMES = "embeddings.npy", "names.txt"
TYPES = ("float32", "float16")


def save_embeddings(
    folder: PathLike,
    embedded: Any,
    names: Iterable[Any] | None = None,
    *,
    dtype: str = "float32",
    unit: bool = True,
) -> None:
    """Write embedded rows to ``embeddings.npy`` and their names, one per line, to ``names.txt``.

    Parameters
    ----------
    folder : path
        Folder to write; it appears complete or not at all, and replaces an earlier one.
    embedded : array-like or dask array of shape (n_rows, n_components)
        Embedded rows, as ``transform`` returns them.
    names : iterable, optional
        Name of each row, such as an address; the numbers of the rows if it is left out.
    dtype : {"float32", "float16"}, default="float32"
        Type of the numbers in the file.
    unit : bool, default=True
        Scale rows to unit length, so that inner products and Euclidean distances order neighbours as cosines do.
        Rows of a metric whose ``metric`` is ``"euclidean"`` keep their lengths with ``unit=False``.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_embeddings(f"{folder}/index", [[3.0, 4.0], [0.0, 2.0]], ["a", "b"], dtype="float16")
    ...     np.load(f"{folder}/index/embeddings.npy")
    array([[0.6, 0.8],
           [0. , 1. ]], dtype=float16)
    """
    if dtype not in TYPES:
        raise ValueError(f"dtype must be one of {TYPES}, got {dtype!r}")
    rows = check_rows(embedded.compute() if is_dask(embedded) else embedded, "embedded")
    if is_sparse(rows):
        raise ValueError("embedded must be dense, got sparse rows; embed them with transform first")
    lines = [str(name) for name in (range(len(rows)) if names is None else names)]
    if len(lines) != len(rows):
        raise ValueError(f"there are {len(lines)} names for {len(rows)} rows; give one name per row")
    broken = next((name for name in lines if len(name.splitlines()) != 1), None)
    if broken is not None:
        raise ValueError(f"name {broken[:40]!r} is not one line; give every row a name of one line")
    rows = normalize(rows) if unit else rows
    if np.abs(rows).max(initial=0) > np.finfo(dtype).max:
        raise ValueError(f"values up to {np.abs(rows).max():.3g} do not fit into {dtype}; use unit=True")
    with atomic_folder(folder, (ROWS, NAMES)) as temporary:
        np.save(temporary / ROWS, rows.astype(dtype), allow_pickle=False)
        (temporary / NAMES).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
