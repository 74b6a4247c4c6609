"""A small set of digits that every baseline learns within a second or so, split in two."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from flrml import decompose, draw_triplets


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Matrices this small are slower with several BLAS threads, and many times so on a busy machine."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="session")
def digits():
    X, y = load_digits(return_X_y=True)
    X = normalize(X)
    train, y_train = X[:600], y[:600]
    return SimpleNamespace(
        X=train,
        y=y_train,
        X_test=X[600:1000],
        y_test=y[600:1000],
        triplets=draw_triplets(y_train, 5, 0),
        spectrum=decompose(train, 500),
        centred=decompose(train, 500, centred=True),
    )


@pytest.fixture
def random():
    return np.random.RandomState(0)


@pytest.fixture
def triplet_case(random):
    """Random rows Z (40 × 6) and triplets on three classes."""
    y = np.arange(40) % 3
    return random.standard_normal((40, 6)), y, draw_triplets(y, 4, 0)
