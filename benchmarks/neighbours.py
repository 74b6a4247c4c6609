"""The search for 5 neighbours against plain products of matrices in blocks."""

import numpy as np

from benchmarks.timing import side_by_side
from flrml.neighbors import _search_blocks, nearest


def rows():
    random = np.random.RandomState(0)
    for dtype in (np.float32, np.float64):
        train, test = (random.standard_normal((n, 100)).astype(dtype) for n in (60_000, 5_000))
        ours, plain = side_by_side(
            lambda train=train, test=test: nearest(train, test, metric="euclidean"),
            lambda train=train, test=test: _search_blocks(train, test, 5, "euclidean", None),
            3,
        )
        yield (
            f"5 nearest of 60,000 for 5,000 rows, d = 100, {np.dtype(dtype)}",
            "products of matrices in blocks",
            f"{plain / ours:.1f}× faster",
        )
