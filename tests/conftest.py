import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import settings
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from flrml import decompose, draw_triplets
from flrml.methods import METHODS
from flrml.reference import decompose_centered

settings.register_profile("flrml", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("flrml")


def pytest_collection_modifyitems(items):
    """Begin with runs of the pipeline, the longest tests, so that none is left for one core at the end."""
    items.sort(key=lambda item: "workflow" not in item.path.parts)


@pytest.fixture(autouse=True)
def registered_methods():
    """Forget the classes from outside that a configuration of the test has registered."""
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)


@pytest.fixture(scope="session")
def digits():
    """scikit-learn's digits with unit rows: training rows, labels, test rows, labels."""
    X, y = load_digits(return_X_y=True)
    X = normalize(X)
    return X[:1200], y[:1200], X[1200:], y[1200:]


@pytest.fixture(scope="session")
def small_digits():
    """A few digits that every method learns within a second or so, split in two."""
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
        centered=decompose_centered(train, 500),
    )


@pytest.fixture(scope="session")
def text():
    """Made-up sparse word counts with unit rows and four classes."""
    random = np.random.RandomState(0)
    topics = random.dirichlet(np.full(300, 0.05), size=4)
    y = random.randint(0, 4, 160)
    counts = np.array([random.multinomial(60, 0.6 * topics[label] + 0.4 / 300) for label in y])
    return normalize(sp.csr_matrix(counts.astype(np.float64))), y


@pytest.fixture(scope="session")
def problem():
    """Three classes that overlap, with unit rows: rows, labels, decomposition."""
    random = np.random.RandomState(0)
    y = np.arange(90) % 3
    X = random.standard_normal((90, 12)) + 0.7 * random.standard_normal((3, 12))[y]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, y, decompose(X)


@pytest.fixture(scope="session")
def raw_dir():
    """Folder of real data sets: FLRML_RAW_DIR, or the one beside the working copy."""
    folder = Path(os.environ.get("FLRML_RAW_DIR", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no folder of real data sets: set FLRML_RAW_DIR")
    return folder
