"""Time and memory on growing parts of prepared data."""

import numpy as np
import pytest

from flrml.datasets import prepare
from flrml.pipeline.stages.growth import measure_growth

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
    run, limits = RUN | {"axis": axis, "sizes": sizes}, {"minutes": 1, "memory_mb": 4000}
    result = measure_growth(tmp_path / "growth.json", data=corner, run=run, limits=limits)
    assert [point["outcome"] for point in result["points"]] == ["ok", "ok"]
    assert [point["shape"][axis == "D"] for point in result["points"]] == shapes
