import numpy as np
import pytest

from benchmarks import scaling, scaling_page
from benchmarks.scaling_page import exchange_bytes, exchange_seconds, map_bytes, page, predict, rows_of_half


def study(n=200_000, n_columns=50_000):
    measured = {
        str(count): {
            "seconds": 10 / count + 1,
            "given": 10 / count,
            "compute": 8.0,
            "directions": 1.0,
            "tasks": 300 * count,
            "sent": 1e8 * (count - 1),
            "peak": 5e8,
        }
        for count in (1, 2, 4)
    }
    return {"shape": [n, n_columns], "nonzeros": 100, "workers": measured}


RESULTS = {
    "cores": 2,
    "text": study(),
    "voxels": study(12_000, 1_000_000),
    "link": {"bandwidth": 1e9, "task": 1e-4},
    "apart": {"one": {"seconds": 4.0, "given": 3.0}, "two": {"seconds": 2.1, "given": 1.6}},
    "products": {"one": 9.0, "two": 5.0},
    "m10-100": {
        "shape": [47_892, 1_000_000],
        "workers": {
            "1": {"seconds": 250.0, "sent": 1e8, "peak": 4e9, "score": 0.87},
            "2": {"seconds": 145.0, "sent": 1e9, "peak": 3e9, "score": 0.87},
        },
    },
    "wide": {"shape": [40_000, 500_000], "seconds": 600.0, "peak": 1.5e9},
    "large": {
        "shape": [10_000_000, 1_000_000],
        "bytes": 8e9,
        "seconds": 1200.0,
        "sent": 1e9,
        "peak": 6e9,
        "score": 0.9,
    },
}


def test_made_up_documents_have_the_same_number_of_words_and_unit_length():
    X = scaling.text_rows(3, 500, 4000, 100)
    assert X.shape == (500, 4000)
    assert set(np.diff(X.indptr)) == {100}
    assert X.has_sorted_indices
    assert X.indices.min() >= 0
    assert X.indices.max() < 4000
    assert (np.diff(X.indices.reshape(500, 100), axis=1) > 0).all()
    np.testing.assert_allclose(X.multiply(X).sum(axis=1), 1, rtol=1e-5)


def test_one_worker_exchanges_nothing():
    assert exchange_bytes(1000, 1) == exchange_seconds(1000, 1, 1e9) == 0


def test_a_map_of_many_columns_per_row_is_a_sum_over_the_workers():
    assert map_bytes([1000, 3000], 4) == map_bytes([1000, 3000], 1) == 4 * 3000 * 100
    assert map_bytes([999, 3000], 4) == 4 * 4 * 3000 * 100


def test_a_tree_exchanges_less_than_each_with_each():
    one = exchange_seconds(1000, 2, 1e9)
    assert exchange_seconds(1000, 8, 1e9) == pytest.approx(7 * one)
    assert exchange_seconds(1000, 64, 1e9) == pytest.approx(14 * one)
    assert exchange_bytes(1000, 64) == pytest.approx(63 * exchange_bytes(1000, 2))


def test_the_model_gives_the_time_that_it_was_made_from():
    assert predict(study(), 1, 2, 1e9, 1e-4)["seconds"] == pytest.approx(10)
    two = predict(study(), 2, 2, 1e12, 0.0)
    assert two["seconds"] == pytest.approx(7 / 2 + 1 + 2, rel=1e-4)
    assert predict(study(), 4, 2, 1e12, 0.0)["compute"] == two["compute"]


def test_with_the_rows_of_half_workers_compute_as_long_as_they_wait():
    rows = rows_of_half(study(), 64, 1e9, 1e-4)
    parts = predict(study(), 64, 64, 1e9, 1e-4)
    waiting = parts["directions"] + parts["exchange"] + parts["scheduler"]
    assert parts["compute"] * rows / 200_000 == pytest.approx(waiting)


def test_the_page_shows_what_was_measured(tmp_path):
    assert "Not measured yet" in page({})
    text = page(RESULTS)
    assert text.count("| text, 200,000 × 50,000 |") == 6
    assert "1.90 times as fast as one that fits to all of it, and with given parameters 1.88 times" in text
    assert "1.80 times as fast as in one: the cap there" in text
    assert "billion" in text
    scaling_page.draw(RESULTS, tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").read_text().startswith("<?xml")


def test_random_rows_are_made_anew_and_alike():
    rows = scaling.MadeRows("", 20, 30, 50, np.float32)
    np.testing.assert_array_equal(rows.open(), rows.open())
    np.testing.assert_allclose(np.linalg.norm(rows.open(), axis=1), 1, rtol=1e-5)
