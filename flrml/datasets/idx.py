"""Load MNIST from its four idx files, or from LIBSVM's two svmlight files.

No package that flrml depends on reads the idx format.
"""

import math
from pathlib import Path

import numpy as np

from flrml.datasets.fetch import RemoteFile
from flrml.datasets.parts import Loaded, Part, Request, matrix_part
from flrml.datasets.reading import open_compressed, reading, unpack_limit
from flrml.datasets.svmlight import load_libsvm
from flrml.exceptions import DatasetError

# The last pixels of every digit are blank; LIBSVM's files and the paper leave them out.
N_PIXELS = 780
_BYTE = 8


def read_idx(path: Path, n_dimensions: int) -> np.ndarray:
    """Read the array of bytes in an idx file, plain or compressed."""
    with reading(path, "an idx file"):
        with open_compressed(path) as file:
            magic = file.read(4)
            if magic != bytes((0, 0, _BYTE, n_dimensions)):
                raise ValueError(f"it starts with {magic.hex(' ')}, not with 00 00 08 {n_dimensions:02x}")
            shape = tuple(int.from_bytes(file.read(4), "big") for _ in range(n_dimensions))
            n_bytes = math.prod(shape)
            if n_bytes > unpack_limit(path.stat().st_size):
                raise ValueError(f"an array of shape {shape} does not fit into the file")
            content = file.read(n_bytes + 1)
        if len(content) != n_bytes:
            found = f"{len(content)}" if len(content) < n_bytes else f"more than {n_bytes}"
            raise ValueError(f"{found} bytes for an array of shape {shape}")
        return np.frombuffer(content, np.uint8).reshape(shape)


def digits_part(images: Path, labels: Path) -> Part:
    """Return images as rows of pixels, without the blank ones at the end."""
    pixels = read_idx(images, 3)
    if pixels.shape[1:] != (28, 28):
        raise DatasetError(f"{images}: images of shape {pixels.shape[1:]}, expected 28 × 28; fetch the file again")
    X = pixels.reshape(len(pixels), -1)
    if X[:, N_PIXELS:].any():
        raise DatasetError(
            f"{images}: pixels {N_PIXELS + 1} to 784 are not blank, so this is not MNIST; fetch it again"
        )
    return matrix_part(X[:, :N_PIXELS], read_idx(labels, 1), str(images))


def load_mnist(request: Request, *, idx: tuple[RemoteFile, ...], libsvm: tuple[RemoteFile, RemoteFile]) -> Loaded:
    """Load MNIST from idx files, or from LIBSVM's files if the raw-file folder holds only those."""
    raw = request.raw
    if raw.find(idx[0].name) is None and raw.find(libsvm[0].name) is not None:
        return load_libsvm(request, files=libsvm, layout="dense")
    train = digits_part(raw.get(idx[0]), raw.get(idx[1]))
    if request.options["holdout"] is not None:
        return Loaded(train)
    return Loaded(train, digits_part(raw.get(idx[2]), raw.get(idx[3])))
