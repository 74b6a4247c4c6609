"""On worker processes: the same results as in memory, whatever the blocks."""

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from distributed import wait
from sklearn.base import clone

from flrml import FLRML, MFLRML, RidgeFLRML, decompose, draw_triplets, knn_accuracy
from flrml.baselines.kissme import KISSME
from flrml.distributed import decompose as decompose_blocks
from flrml.distributed.cluster import without_work_stealing
from flrml.distributed.remote_rows import RemoteRows
from flrml.neighbors import nearest
from flrml.reference import CenteredRows, ReferenceFLRML, ReferenceMFLRML
from tests.distributed.conftest import blocks, sent

CHUNKINGS = {"one": [300], "even": [100, 100, 100], "uneven": [1, 199, 100]}


def given_parts(parts, X):
    """A dask array of parts that its description need not fit."""
    made = [da.from_delayed(dask.delayed(part), (part.shape[0], X.shape[1]), X.dtype) for part in parts]
    return da.concatenate(made)


def out_of_range(X):
    X = sp.csr_matrix(X)
    X.indices[:5] += 1000
    return X


def duplicated(X):
    """The same rows, each entry in two halves."""
    return sp.csr_matrix((np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), X.shape)


@pytest.fixture(scope="module")
def small(digits):
    X, y, X_test, y_test = digits
    return X[:300], y[:300], X_test[:80], y_test[:80]


def close(found, expected):
    return np.abs(found - expected).max() <= 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize("sizes", CHUNKINGS.values(), ids=CHUNKINGS)
def test_flrml_is_that_of_memory_for_any_blocks(two, small, sizes):
    X, y, *_ = small
    Estimator = ReferenceFLRML if len(sizes) == 1 else FLRML
    expected = Estimator(10, max_iter=4, random_state=0).fit(X, y)
    found = Estimator(10, max_iter=4, random_state=0).fit(blocks(X, sizes), y)
    assert found.n_iter_ == expected.n_iter_
    assert close(found.components_, expected.components_)
    assert close(found.history_, expected.history_)
    assert close(found.weights_, expected.weights_)


@pytest.mark.parametrize("Estimator", [FLRML, ReferenceFLRML])
def test_flrml_on_sparse_blocks_with_more_columns_than_rows(two, text, Estimator):
    X, y = text
    triplets = draw_triplets(y, 3, 1)
    settings = {"n_components": 8, "max_iter": 3, "init": "random", "random_state": 0}
    expected = Estimator(**settings).fit(X, triplets=triplets)
    found = Estimator(**settings).fit(blocks(X, [50, 60, 50]), triplets=triplets)
    assert close(found.components_, expected.components_)
    again = Estimator(**settings).fit(blocks(X, [80, 80]), triplets=triplets, spectrum=found.spectrum_)
    assert close(again.components_, expected.components_)


@pytest.mark.parametrize("operator", [None, CenteredRows])
def test_the_randomized_decomposition_is_that_of_memory(two, text, operator):
    X, _ = text
    whole = X if operator is None else operator(X)
    expected = decompose(whole, 20, random_state=np.random.RandomState(0), method="randomized")
    rows = RemoteRows.load(blocks(X, [70, 90])).through(operator)
    found = decompose_blocks(rows, 20, random=np.random.RandomState(0), method="randomized")
    assert close(found.singular_values, expected.singular_values)
    B = np.random.RandomState(1).standard_normal((20, 3))
    assert close(found.lift(B), expected.lift(B))
    collected = found.collect(expected.fingerprint)
    assert close(collected.basis, expected.basis)
    assert close(collected.dual, expected.dual)


def test_a_sum_sends_one_array_from_each_worker(two):
    rows = RemoteRows.load(blocks(np.eye(60), [10] * 6))
    with without_work_stealing(two):
        parts = rows.map(lambda block: np.full(100_000, block[0].sum()), rows.futures)
        wait(parts)
        before = sent(two)
        np.testing.assert_array_equal(rows.sum(parts), np.full(100_000, 60.0))
    assert 2 <= (sent(two) - before) / 800_000 < 2.1


@pytest.mark.parametrize(
    "kind",
    [sp.coo_matrix, sp.csc_matrix, duplicated, np.asfortranarray, np.float32],
    ids=lambda kind: kind.__name__,
)
@pytest.mark.parametrize("Estimator", [FLRML, MFLRML, RidgeFLRML])
def test_blocks_of_other_kinds_are_converted_as_in_memory(two, text, kind, Estimator):
    X, y = text
    X = X.toarray() if kind in (np.asfortranarray, np.float32) else X
    model = Estimator(5, random_state=0)
    expected = clone(model).fit(X, y)
    rows = given_parts([kind(X[:90]), kind(X[90:])], X)
    found = model.fit(rows, y)
    assert found.components_.dtype == expected.components_.dtype
    assert np.abs(found.components_ - expected.components_).max() <= 1e-4 * np.abs(expected.components_).max()
    np.testing.assert_allclose(found.transform(rows).compute(), found.transform(X), atol=1e-6)
    assert knn_accuracy(rows, y, rows, y) == knn_accuracy(X, y, X, y)


def test_rows_that_need_conversion(two, small):
    X, y, *_ = small
    whole = np.rint(16 * X).astype(np.int64)
    expected = FLRML(5, max_iter=2, random_state=0).fit(whole.astype(float), y)
    narrow = blocks(whole, [150, 150]).rechunk((150, 30))
    found = FLRML(5, max_iter=2, random_state=0).fit(narrow, y)
    assert close(found.components_, expected.components_)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_neighbours_and_accuracy_of_blocks(two, small, metric):
    X, y, X_test, y_test = small
    model = MFLRML(10, n_batches=3, random_state=0).fit(X, y)
    train, test = model.transform(X), model.transform(X_test)
    in_blocks = model.transform(blocks(X, [120, 180])), model.transform(blocks(X_test, [50, 30]))
    assert in_blocks[0].chunks == ((120, 180), (10,))
    np.testing.assert_allclose(in_blocks[0].compute(), train, atol=1e-12)
    expected, distances = nearest(train, test, 5, metric=metric)
    for one, other in (in_blocks, (in_blocks[0], test), (train, in_blocks[1])):
        found, found_distances = nearest(one, other, 5, metric=metric)
        np.testing.assert_allclose(found_distances, distances, atol=1e-9)
        assert np.mean(found == expected) > 0.99
    assert knn_accuracy(*in_blocks[:1], y, in_blocks[1], y_test) == knn_accuracy(train, y, test, y_test)


def test_sparse_blocks_are_embedded_and_compared(two, text):
    X, y = text
    model = MFLRML(8, n_batches=3, random_state=0).fit(X, y)
    rows = blocks(X, [100, 60])
    np.testing.assert_allclose(model.transform(rows).compute(), model.transform(X), atol=1e-12)
    assert knn_accuracy(rows, y, X[:40], y[:40]) == knn_accuracy(X, y, X[:40], y[:40])


def test_what_is_wrong_with_the_input_is_said(two, small):
    X, y, *_ = small
    rows = blocks(X, [150, 150])
    with pytest.raises(ValueError, match="requires y to be passed"):
        MFLRML(5).fit(rows)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        MFLRML(5).fit(rows, y[:-1])
    bad = X.copy()
    bad[200, 3] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity"):
        FLRML(5).fit(blocks(bad, [150, 150]), y)
    model = MFLRML(5, n_batches=1, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="63 features"):
        model.transform(rows[:, :63])
    with pytest.raises(ValueError, match="63 features"):
        model.partial_fit(rows[:, :63], y)


@pytest.mark.parametrize("sizes", [[160], [60, 100], [1, 79, 50, 30]], ids=len)
def test_mini_batches_give_the_very_result_of_memory_for_any_blocks(two, small, text, sizes):
    X, y, *_ = small
    words, topics = text
    settings = {"n_components": 10, "n_batches": 5, "random_state": 3}
    for data, labels, Estimator in (
        (X[:160], y[:160], MFLRML),
        (words, topics, MFLRML),
        (words, topics, ReferenceMFLRML),
    ):
        expected = Estimator(**settings).fit(data, labels)
        found = Estimator(**settings).fit(blocks(data, sizes), labels)
        np.testing.assert_array_equal(found.components_, expected.components_)
        np.testing.assert_array_equal(found.history_, expected.history_)
    found.partial_fit(blocks(data, sizes), labels)
    expected.partial_fit(data, labels)
    np.testing.assert_array_equal(found.components_, expected.components_)

    triplets, after_batches = draw_triplets(topics, 3, 0), ([], [])
    for rows, seen in zip((words, blocks(words, sizes)), after_batches, strict=True):
        MFLRML(**settings).fit(
            rows, triplets=triplets, callback=lambda model, seen=seen: seen.append(model.components_.copy())
        )
    np.testing.assert_array_equal(*after_batches)


def test_a_mini_batch_sends_its_rows_and_nothing_else(two, text):
    words, topics = text
    rows = two.persist(blocks(sp.vstack([words] * 20, "csr"), [800] * 4))
    wait(rows)
    before = sent(two)
    MFLRML(8, n_batches=4, batch_triplets=20, random_state=0).fit(rows, np.tile(topics, 20))
    in_batches = 4 * 60 * 12 * words.nnz / words.shape[0]
    assert 0.5 * in_batches < sent(two) - before < 1.5 * in_batches


def test_the_objective_of_every_iteration_is_seen(two, small):
    X, y, *_ = small
    seen = []
    FLRML(5, max_iter=3, random_state=0).fit(
        blocks(X, [150, 150]), y, callback=lambda model: seen.append((model.n_iter_, len(model.history_)))
    )
    assert seen == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_methods_that_do_not_take_dask_arrays_say_so():
    with pytest.raises(ValueError, match=r"KISSME needs X in memory .* got a dask array"):
        KISSME(4).fit(blocks(np.eye(12), [6, 6]), np.arange(12) % 2)


UNSUITED = [
    (lambda X: da.from_array(X).to_dask_dataframe(), "X is a dask DataFrame; give a dask array"),
    (lambda X: blocks(X[:, :0], [300]), r"0 feature\(s\)"),
    (lambda X: blocks(X + 1j, [300]), "Complex data not supported"),
    (lambda X: da.from_array(X[:, 0]), "two dimensions"),
    (
        lambda X: given_parts([X[:200], X[200:, :9]], X),
        r"64 columns, but its block 1 has the shape \(100, 9\)",
    ),
    (lambda X: given_parts([X[:200], out_of_range(X[200:])], X), "a block of X is not a sound sparse matrix"),
    (lambda X: given_parts([X[:200], np.ma.masked_less(X[200:], 0.5)], X), "X is a masked array"),
]


@pytest.mark.parametrize(("make", "words"), UNSUITED)
@pytest.mark.parametrize("Estimator", [FLRML, MFLRML, RidgeFLRML])
def test_a_collection_that_cannot_be_rows_is_refused_in_one_line(two, small, Estimator, make, words):
    with pytest.raises(ValueError, match=words) as error:
        Estimator(2).fit(make(small[0]), small[1])
    assert "\n" not in str(error.value)
