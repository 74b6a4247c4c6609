"""Prepared data sets as dask arrays, and the other way round."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from flrml import MFLRML
from flrml.datasets import open_split as open_in_memory
from flrml.datasets import prepare
from flrml.distributed import open_split, stored
from flrml.distributed import prepare as prepare_blocks
from flrml.distributed.remote_rows import RemoteRows
from flrml.distributed.stored import StoredRows, _equal_blocks, open_together
from tests.distributed.conftest import blocks


def test_a_dask_array_without_a_cluster_says_what_to_do(text):
    X, y = text
    with pytest.raises(RuntimeError, match=r"distributed\.Client\(\)"):
        MFLRML(5).fit(blocks(X, [80, 80]), y)


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A dense and a binary prepared data set."""
    folder = tmp_path_factory.mktemp("stores")
    prepare("digits", folder / "dense", options={"max_train": 200, "max_test": 50})
    prepare("shapes10-16", folder / "binary", options={"models": [2, 1], "poses": 4})
    return folder


def dense(X):
    X = X[:]
    return X.toarray() if sp.issparse(X) else np.asarray(X)


@pytest.mark.parametrize("layout", ["dense", "binary"])
def test_a_store_opens_in_blocks_that_stay_on_disk(two, stores, layout):
    X, y = open_in_memory(stores / layout / "train")
    rows, labels = open_split(stores / layout / "train", rows_per_block=30)
    assert rows.shape == X.shape
    assert rows.dtype == X.dtype
    np.testing.assert_array_equal(labels, y)
    np.testing.assert_array_equal(dense(rows.compute()), dense(X))
    np.testing.assert_array_equal(dense(rows[10:45].compute()), dense(X)[10:45])
    held = two.persist(rows)
    assert sum(two.nbytes(summary=False).values()) < 1e6
    model = MFLRML(5, n_batches=2, random_state=0).fit(held, labels)
    assert np.isfinite(model.components_).all()


@pytest.mark.parametrize("layout", ["dense", "binary"])
def test_neighbours_on_disk_are_opened_as_one(stores, layout, monkeypatch):
    path = str(stores / layout / "train")
    X = open_in_memory(path)[0]
    cuts = [(0, 10), (10, 30), (30, 40), (50, 60)]  # rows 40 to 50 are elsewhere
    parts = [StoredRows(path, start, stop, X.shape[1], X.dtype) for start, stop in cuts]
    assert [rows.shape[0] for rows in open_together(parts)] == [40, 10]
    released = []
    monkeypatch.setattr(stored, "_release_pages", released.append)
    for number, _ in enumerate(open_together(parts), 1):
        assert len(released) == number  # each is opened when it is its turn
    monkeypatch.undo()
    expected = np.vstack((dense(X)[:40], dense(X)[50:60]))
    np.testing.assert_array_equal(np.vstack([dense(rows) for rows in open_together(parts)]), expected)
    monkeypatch.setattr(stored, "TOGETHER_BYTES", parts[1].n_bytes)
    assert len(list(open_together(parts))) == 4


def test_blocks_without_a_place_are_dealt_out_evenly_and_in_order(two, stores):
    rows = RemoteRows.load(open_split(stores / "dense" / "train", rows_per_block=40)[0])
    assert [rows.places.count(worker) for worker in rows.workers] == [3, 2]
    assert rows.places == sorted(rows.places)
    first, second = rows.workers
    rows.places, rows.workers = [second, "gone", second, "gone", "gone"], []
    rows.rebalance()
    assert rows.places == [second, first, second, first, first]


def test_blocks_are_written_as_a_prepared_data_set_and_read_back(two, tmp_path, text):
    X, y = text
    counts = 3 * X
    parts = {"train": (blocks(counts[:120], [60, 60]), y[:120]), "test": (blocks(counts[120:], [40]), y[120:])}
    meta = prepare_blocks(parts, tmp_path / "mine", name="mine")
    assert meta["splits"]["train"]["shape"] == [120, 300]
    assert meta["splits"]["train"]["layout"] == "csr"
    found, labels = open_in_memory(tmp_path / "mine" / "train")
    np.testing.assert_allclose(found.toarray(), X[:120].toarray(), atol=1e-6)
    np.testing.assert_array_equal(labels, y[:120])
    rows, _ = open_split(tmp_path / "mine" / "train", rows_per_block=50)
    np.testing.assert_array_equal(rows.compute().toarray(), found.toarray())


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_blocks_have_equal_numbers_of_values(kind):
    random = np.random.RandomState(0)
    X = random.random_sample((400, 50)) * (random.random_sample((400, 50)) < np.linspace(0.02, 0.9, 400)[:, None])
    bounds = _equal_blocks(kind(X), 8)
    assert bounds[0] == 0
    assert bounds[-1] == 400
    values = [np.count_nonzero(X[a:b]) if kind is sp.csr_matrix else b - a for a, b in pairwise(bounds)]
    assert len(values) == 8
    assert max(values) - min(values) <= 50
    assert _equal_blocks(sp.csr_matrix((3, 5)), 2) == [0, 3]
