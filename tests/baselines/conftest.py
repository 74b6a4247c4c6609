import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from flrml import draw_triplets


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Matrices this small are slower with several BLAS threads, and many times so on a busy machine."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def random():
    return np.random.RandomState(0)


@pytest.fixture
def triplet_case(random):
    """Random rows Z (40 × 6) and triplets on three classes."""
    y = np.arange(40) % 3
    return random.standard_normal((40, 6)), y, draw_triplets(y, 4, 0)
