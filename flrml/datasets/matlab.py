"""Load MATLAB files with a feature matrix and a label vector, as Deng Cai publishes his text collections.

scipy's reader crashes the process on damaged files; this one checks every length before it uses it. It reads
numeric and sparse matrices of version 5 to 7.2 files: no cells, structs or objects.
"""

import math
import mmap
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from flrml.datasets.fetch import RemoteFile
from flrml.datasets.parts import Loaded, Request, check_labels, matrix_part
from flrml.datasets.reading import check_unpacked, reading, unpack_limit
from flrml.exceptions import DatasetError, suggest

REMEDY = "save it with `save -v7` and plain numeric matrices"
HEADER_BYTES = 128
# Codes of the format for data types and classes of variables.
MATRIX, COMPRESSED = 14, 15
TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
SPARSE, FIRST_NUMERIC, LAST_NUMERIC = 5, 6, 15
OTHER_CLASSES = {1: "cell", 2: "struct", 3: "object", 4: "char", 16: "function", 17: "opaque"}
COMPLEX = 0x0800
# Enough of a compressed variable to read its name and shape.
PREVIEW_BYTES = 4096


@dataclass(frozen=True)
class _Variable:
    """Name, shape and content of a variable."""

    name: str
    kind: int
    is_complex: bool
    shape: tuple[int, ...]
    body: memoryview
    order: str

    @property
    def problem(self) -> str | None:
        """Reason why the variable cannot be used, or None."""
        if self.kind in OTHER_CLASSES:
            return f"is of class {OTHER_CLASSES[self.kind]}"
        if self.kind != SPARSE and not FIRST_NUMERIC <= self.kind <= LAST_NUMERIC:
            return f"is of unknown class {self.kind}"
        if self.is_complex:
            return "is complex"
        return None if len(self.shape) == 2 else f"has {len(self.shape)} dimensions"

    def matrix(self) -> Any:
        """Build the array or CSR matrix."""
        if self.kind != SPARSE:
            numbers, _ = _numbers(self.body, 0, self.order)
            if len(numbers) != math.prod(self.shape):
                raise ValueError(f"{len(numbers)} numbers in {self.name!r} of shape {self.shape}")
            return numbers.reshape(self.shape, order="F")
        rows, at = _numbers(self.body, 0, self.order)
        bounds, at = _numbers(self.body, at, self.order)
        values, _ = _numbers(self.body, at, self.order)
        n_entries = int(bounds[-1]) if len(bounds) == self.shape[1] + 1 else -1
        if not 0 <= n_entries <= min(len(rows), len(values)):
            raise ValueError(f"the columns of {self.name!r} do not match its entries")
        if 8 * self.shape[0] > unpack_limit(len(self.body)):
            raise ValueError(f"{self.shape[0]} rows in {self.name!r} are more than the file can contain")
        # MATLAB allocates room for more entries than it uses.
        entries = (values[:n_entries], rows[:n_entries], bounds)
        columns = sp.csc_matrix(entries, shape=self.shape)
        columns.check_format(full_check=True)
        matrix = columns.tocsr()
        matrix.sum_duplicates()
        return matrix


def _element(data: memoryview, at: int, order: str) -> tuple[int, memoryview, int]:
    """Return the type and content of the element at a position, and the position of the next one."""
    if at + 8 > len(data):
        raise ValueError("it ends too early")
    first, second = (int(number) for number in np.frombuffer(data[at : at + 8], f"{order}u4"))
    if first >> 16:  # type, length and content share eight bytes
        kind, length, start, end = first & 0xFFFF, first >> 16, at + 4, at + 8
        if length > 4:
            raise ValueError(f"a small element of {length} bytes")
    else:
        kind, length, start = first, second, at + 8
        end = start + length + (-length % 8 if kind != COMPRESSED else 0)
    if start + length > len(data):
        raise ValueError("it ends too early")
    return kind, data[start : start + length], end


def _numbers(data: memoryview, at: int, order: str) -> tuple[np.ndarray, int]:
    kind, content, following = _element(data, at, order)
    if kind not in TYPES:
        raise ValueError(f"unknown data type {kind}")
    return np.frombuffer(content, order + TYPES[kind]).astype(TYPES[kind], copy=False), following


def _describe(data: memoryview, order: str) -> _Variable:
    """Parse the header of a variable inside a matrix element."""
    flags, at = _numbers(data, 0, order)
    shape, at = _numbers(data, at, order)
    _, name, at = _element(data, at, order)
    if len(flags) != 2 or len(shape) < 2 or (shape < 0).any():
        raise ValueError("a damaged variable header")
    kind, is_complex = int(flags[0]) & 0xFF, bool(int(flags[0]) & COMPLEX)
    size = tuple(int(n) for n in shape)
    return _Variable(bytes(name).decode("latin-1"), kind, is_complex, size, data[at:], order)


def _variables(path: Path, data: memoryview, wanted: set[str]) -> Iterator[_Variable]:
    """Iterate over the variables of a file; compressed ones that are not wanted are unpacked only in part."""
    mark = bytes(data[126:HEADER_BYTES])
    if mark not in (b"IM", b"MI"):
        raise ValueError("not a file of version 5 to 7.2")
    order = "<" if mark == b"IM" else ">"
    if int(np.frombuffer(data[124:126], f"{order}u2")[0]) != 0x0100:
        raise ValueError("not a file of version 5 to 7.2")
    at = HEADER_BYTES
    while at < len(data):
        kind, content, at = _element(data, at, order)
        if kind == COMPRESSED:
            preview = zlib.decompressobj().decompress(content, PREVIEW_BYTES)
            # The preview ends inside the numbers; only the header before them is used.
            variable = _describe(memoryview(preview)[8:], order)
            if variable.name in wanted:
                n_bytes = int(np.frombuffer(preview[4:8], f"{order}u4")[0])
                check_unpacked(f"{path}: variable {variable.name!r}", n_bytes, len(content))
                unpacked = zlib.decompressobj().decompress(content, n_bytes + 8)
                kind, content, _ = _element(memoryview(unpacked), 0, order)
                variable = _describe(content, order)
            yield variable
        elif kind == MATRIX and content:
            yield _describe(content, order)


def read_labelled(path: Path, features: str = "fea", target: str = "gnd") -> tuple[Any, np.ndarray]:
    """Read the variables with the features and the labels from a MATLAB file."""
    with reading(path, "a MATLAB file", REMEDY), open(path, "rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        variables = {variable.name: variable for variable in _variables(path, data, {features, target})}
    for name in (features, target):
        if name not in variables:
            raise DatasetError(
                f"{path}: no variable {name!r}{suggest(name, variables)}; name the variables with "
                f"`features` and `target`: {', '.join(sorted(variables)) or 'the file is empty'}"
            )
        if problem := variables[name].problem:
            raise DatasetError(f"{path}: variable {name!r} {problem}; {REMEDY}")
    n_rows, n_labels = variables[features].shape[0], math.prod(variables[target].shape)
    # Checked before the matrices are built, as a damaged size would fill the memory.
    check_labels(path, n_labels, n_rows)
    with reading(path, "a MATLAB file", REMEDY):
        X, labels = variables[features].matrix(), variables[target].matrix()
        return X, (labels.toarray() if sp.issparse(labels) else labels).ravel()


def load_deng_cai(request: Request, *, files: tuple[RemoteFile]) -> Loaded:
    """Load one of Deng Cai's collections: `fea` contains term counts, `gnd` the category of each document."""
    path = request.raw.get(*files)
    return Loaded(matrix_part(*read_labelled(path), str(path)))


def load_mat(request: Request) -> Loaded:
    """Load the user's MATLAB files."""
    names = {key: str(request.options[key]) for key in ("features", "target") if request.options[key] is not None}
    return Loaded.of_user(request, lambda path: matrix_part(*read_labelled(path, **names), str(path)))
