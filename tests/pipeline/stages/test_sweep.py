"""Sweeps over prepared data."""

import numpy as np
import pytest

from flrml.datasets import prepare
from flrml.pipeline.stages.sweep import describe_batch, measure_growth

RUN = {"method": "mflrml", "max_rank": 20, "parameters": {"n_components": 4, "batch_triplets": 10, "n_batches": 2}}


@pytest.fixture(scope="module")
def corner(tmp_path_factory):
    """Data whose first half of columns is empty, as the voxels of a corner are."""
    folder = tmp_path_factory.mktemp("corner")
    random = np.random.RandomState(0)
    X = random.rand(80, 60)
    X[:, :30] = 0
    np.savez(folder / "corner.npz", X=X, y=np.arange(80) % 4)
    prepare("corner", folder / "prepared", options={"train": str(folder / "corner.npz"), "holdout": 0.25})
    return folder / "prepared"


@pytest.mark.parametrize(("axis", "sizes", "shapes"), [("D", [20, 60], [20, 60]), ("n", [30, 60], [30, 60])])
def test_growth_takes_rows_and_columns_from_everywhere(corner, tmp_path, axis, sizes, shapes):
    result = measure_growth(
        corner, tmp_path / "growth.json", run=RUN, axis=axis, sizes=sizes, minutes=1, memory_mb=4000
    )
    assert [point["outcome"] for point in result["points"]] == ["ok", "ok"]
    assert [point["shape"][axis == "D"] for point in result["points"]] == shapes


def test_singular_values_below_one_per_cent_are_noise():
    random = np.random.RandomState(0)
    signal = random.standard_normal((60, 3)) @ random.standard_normal((3, 40))
    X = signal + 1e-4 * random.standard_normal((60, 40))
    described = describe_batch(X, np.arange(60) % 3, 5)
    assert described["noise"] == described["singular_values"] - 3
