import numpy as np
import pytest

from benchmarks.preparations import FULL, SIZE, page, prepared, samples_inside, share_in_one_piece
from flrml.datasets.modelnet.voxels import turn_grid


@pytest.fixture
def table():
    """A table: a top on four legs."""
    grid = np.zeros((32, 32, 32), dtype=bool)
    grid[4:28, 8:24, 20:23] = True
    for x in (5, 25):
        for y in (9, 21):
            grid[x : x + 2, y : y + 2, 4:20] = True
    return grid


def test_one_scale_per_model_is_the_preparation_of_flrml_up_to_the_density_of_samples(table):
    overlaps = []
    for row, cells in zip(samples_inside(table, "model") > 0, turn_grid(table, SIZE, 12, "solid"), strict=True):
        own = np.zeros(SIZE**3, dtype=bool)
        own[cells] = True
        overlaps.append(np.sum(row & own) / np.sum(row | own))
    assert np.mean(overlaps) > 0.9


def test_one_scale_per_pose_fills_the_cube_in_every_pose(table):
    for row in samples_inside(table, "pose"):
        cells = np.argwhere(row.reshape(SIZE, SIZE, SIZE))
        assert np.ptp(cells, axis=0).max() == SIZE - 1


def test_a_full_cube_counts_every_sample():
    counts = samples_inside(np.ones((8, 8, 8), dtype=bool), "pose")
    assert (counts[::3] == FULL).all()
    assert (counts[1].reshape(SIZE, SIZE, SIZE)[0, 0] == 0).all()


def test_an_empty_grid_gives_empty_rows(table):
    rows = prepared([np.zeros((8, 8, 8)), table], "pose, mean")
    assert not rows[:12].any()
    np.testing.assert_allclose(np.linalg.norm(rows[12:], axis=1), 1, rtol=1e-5)


def test_a_model_that_falls_apart_is_counted(table):
    broken = table.copy()
    broken[:, :, 10] = False
    assert share_in_one_piece(np.stack([table, table, broken, table])) == {"percent": 75.0}


def test_the_page_shows_what_was_measured_beside_the_paper():
    records = {
        "pose, any": {"flrml-reference": {"percent": 71.234, "n_iter": 6}},
        "a file": {"cosine": {"percent": 80.0, "error": 1.26}},
    }
    text = page(records)
    assert "| *the paper* | – | *83.0* | – | *83.4* |" in text
    assert "| pose, any | – | – | – | 71.2 (6) | – | – | – |" in text
    assert "| a file | – | 80.0 ± 1.3 | – |" in text
