"""The search for 5 neighbours by cosine against scikit-learn's search among rows of unit length."""

import numpy as np
from sklearn.neighbors import NearestNeighbors

from benchmarks.timing import side_by_side
from flrml.neighbors import nearest
from flrml.rows import normalize


def rows():
    random = np.random.RandomState(0)
    for dtype in (np.float32, np.float64):
        train, test = (normalize(random.standard_normal((n, 100)).astype(dtype)) for n in (60_000, 5_000))
        ours, theirs = side_by_side(
            lambda train=train, test=test: nearest(train, test),
            lambda train=train, test=test: (
                NearestNeighbors(n_neighbors=5, algorithm="brute").fit(train).kneighbors(test)
            ),
            3,
        )
        yield (
            f"5 nearest of 60,000 for 5,000 rows, d = 100, {np.dtype(dtype)}",
            "scikit-learn's NearestNeighbors",
            f"{theirs / ours:.1f}× faster",
        )
