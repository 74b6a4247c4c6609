"""RidgeFLRML on worker processes: the solver in memory, whatever the blocks."""

import gc
import time

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from distributed import wait
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from flrml import RidgeFLRML, knn_accuracy
from flrml.datasets import open_split as open_in_memory
from flrml.datasets import prepare
from flrml.distributed import closed_form, open_split, remote_rows
from flrml.distributed.remote_rows import RemoteRows
from flrml.ridge import SearchPolicy
from tests.distributed.conftest import blocks, sent

N = 600  # more than the rows that are learned from on the client
GIVEN = {"ridge": 0.3, "within": 0.9, "local": 0.1, "scale": 0.5, "rounds": 2, "random_state": 0}


def documents(seed, n_classes=5, n_words=700):
    random = np.random.RandomState(seed)
    topics = random.dirichlet(np.full(n_words, 0.05), size=n_classes)
    y = random.randint(0, n_classes, N)
    counts = [random.multinomial(60, 0.5 * topics[label] + 0.5 / n_words) for label in y]
    X = sp.csr_matrix(np.array(counts, dtype=np.float64))
    return sp.csr_matrix(X.multiply(1 / sp.linalg.norm(X, axis=1)[:, None])), y


@pytest.fixture(scope="module")
def words():
    return documents(0)


def close(found, expected, tolerance=1e-5):
    """The same metric LᵀL, offset, weights and choices; in float64 also the same map.

    In float32, the directions of nearly equal weights are turned by rounding.
    """
    assert found.components_.dtype == expected.components_.dtype
    single = found.components_.dtype == np.float32
    metric = expected.get_mahalanobis_matrix()
    assert np.abs(found.get_mahalanobis_matrix() - metric).max() <= tolerance * np.abs(metric).max()
    if not single:
        scale = np.abs(expected.components_).max()
        assert np.abs(found.components_ - expected.components_).max() <= tolerance * scale
        assert np.abs(found.intercept_ - expected.intercept_).max() <= tolerance * max(
            1, np.abs(expected.intercept_).max()
        )
    np.testing.assert_allclose(found.weights_, expected.weights_, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(found.history_, expected.history_, rtol=1e-3)
    for name in ("ridge_", "within_", "local_", "n_rounds_", "scale_"):
        assert getattr(found, name) == getattr(expected, name)


def sizes_of(cuts):
    return np.diff([0, *sorted(set(cuts)), N]).tolist()


@settings(max_examples=12)
@given(
    cuts=st.lists(st.integers(1, N - 1), max_size=5),
    label_cuts=st.lists(st.integers(1, N - 1), max_size=3),
    seed=st.integers(0, 100),
    kind=st.sampled_from(["sparse", "dense", "single", "few columns", "unequal", "unsupervised", "groups"]),
)
def test_a_fit_is_that_of_memory_for_any_blocks(two, cuts, label_cuts, seed, kind):
    X, y = documents(seed)
    given_values, groups = dict(GIVEN), None
    if kind == "dense":
        X = X.toarray()
    elif kind == "single":
        X = X.astype(np.float32)
    elif kind == "few columns":
        X = X[:, :150].toarray() + 1e-3
    elif kind == "unequal":
        X = sp.csr_matrix(X.multiply(1 + np.random.RandomState(seed).rand(N, 1)))
    elif kind == "unsupervised":
        given_values |= {"within": 0.0, "local": 1.0}
    elif kind == "groups":
        groups = np.arange(N) // 3
    expected = RidgeFLRML(12, **given_values).fit(X, y, groups=groups)
    labels = da.from_array(y, chunks=(tuple(sizes_of(label_cuts)),))
    found = RidgeFLRML(12, **given_values).fit(blocks(X, sizes_of(cuts)), labels, groups=groups)
    close(found, expected, 3e-5 if kind == "single" else 1e-5)


@pytest.fixture
def taken(monkeypatch):
    """The numbers of rows that are taken to the client, call by call."""
    numbers = []
    monkeypatch.setattr(
        closed_form.RidgeRows,
        "__getitem__",
        lambda self, rows: numbers.append(len(rows)) or self.take(rows),
    )
    return numbers


@pytest.mark.parametrize("where", ["client", "workers"])
@pytest.mark.parametrize("searched", [500, 700])
def test_parameters_are_chosen_as_in_memory(two, words, monkeypatch, taken, where, searched):
    X, y = words
    policy = SearchPolicy(max_search_rows=searched)
    monkeypatch.setattr(closed_form, "WORTH_WORKERS", np.inf if where == "client" else 0)
    expected = RidgeFLRML(12, policy=policy, random_state=0).fit(X, y)
    found = RidgeFLRML(12, policy=policy, random_state=0).fit(blocks(X, [1, 399, 200]), y)
    close(found, expected)
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])
    assert (min(searched, N) in taken) == (where == "client")


@pytest.mark.parametrize("groups", [None, np.arange(N) // 3])
def test_ridge_and_rounds_grow_as_in_memory(two, words, groups):
    X, y = words
    policy = SearchPolicy(max_search_rows=150)  # of 600 rows in 600 or 200 groups
    model = RidgeFLRML(12, within=0.0, local=1.0, policy=policy, random_state=0)
    expected = clone(model).fit(X, y, groups=groups).cv_results_
    found = model.fit(blocks(X, [200, 400]), y, groups=groups).cv_results_
    assert np.array_equal(found["param_ridge"], expected["param_ridge"])
    assert np.array_equal(found["param_rounds"], expected["param_rounds"])
    assert set(found["param_rounds"]) == {30 if groups is None else 13}


def test_a_sample_is_searched_on_the_client_if_workers_have_no_room(two, words, monkeypatch):
    X, y = words
    monkeypatch.setattr(closed_form, "WORTH_WORKERS", 0)
    monkeypatch.setattr(closed_form, "SAMPLE_SHARE", 0)
    monkeypatch.setattr(RemoteRows, "subset", None)
    RidgeFLRML(12, random_state=0).fit(blocks(X, [300, 300]), y)


def test_voxels_are_searched_at_the_workers(two, tmp_path, monkeypatch):
    monkeypatch.setattr(closed_form, "WORTH_WORKERS", 0)
    prepare("shapes10-16", tmp_path / "data", options={"models": [45, 1], "poses": 1})
    X, y = open_in_memory(tmp_path / "data" / "train")
    model = RidgeFLRML(10, rounds=0, random_state=0)
    expected = clone(model).fit(X, y)
    found = model.fit(*open_split(tmp_path / "data" / "train", rows_per_block=130))
    assert set(found.cv_results_["param_local"]) == {0.1, 1.0}  # the unsupervised form is tried as well
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], atol=0.01
    )


@pytest.mark.parametrize("worth", [0, np.inf])
def test_workers_keep_nothing_of_a_fit(two, words, monkeypatch, worth):
    """Even before Python looks for objects that refer to one another."""
    X, y = words
    monkeypatch.setattr(closed_form, "WORTH_WORKERS", worth)
    gc.collect()
    gc.disable()
    try:
        before = len(two.nbytes(summary=False))
        RidgeFLRML(12, random_state=0).fit(blocks(X, [300, 300]), y)
        for _ in range(100):  # the client tells the scheduler a moment later
            if len(two.nbytes(summary=False)) <= before:
                break
            time.sleep(0.1)
        assert len(two.nbytes(summary=False)) <= before
    finally:
        gc.enable()


def test_a_sample_has_the_rows_in_their_order(two, words):
    X, _ = words
    rows = np.sort(np.random.RandomState(0).choice(N, 90, replace=False))
    sample = RemoteRows.load(blocks(X, [7, 200, 93, 100, 150, 50])).by_thread().subset(rows)
    some = np.array([40, 3, 89, 0, 41])
    assert sample.shape == (90, X.shape[1])
    assert np.array_equal(sample[np.arange(90)].toarray(), X[rows].toarray())
    assert np.array_equal(sample[some].toarray(), X[rows[some]].toarray())


def test_a_sample_takes_no_more_memory_of_the_client_than_it_may(two, words, monkeypatch, taken):
    X, y = words
    monkeypatch.setattr(closed_form, "SAMPLE_BYTES", (X.data.nbytes + X.indices.nbytes) // 3)
    RidgeFLRML(12, random_state=0).fit(blocks(X, [300, 300]), y)
    assert taken == [N // 3]


def test_string_labels_and_many_classes(two, words, monkeypatch):
    X, _ = words
    monkeypatch.setattr("flrml.ridge.subspace.MAX_START_COLUMNS", 12)
    y = np.array([f"class {number}" for number in np.arange(N) % 20])
    for words in (X, X[:, :300].toarray()):  # with fewer features than classes and rows, these serve as directions
        close(RidgeFLRML(12, **GIVEN).fit(blocks(words, [250, 350]), y), RidgeFLRML(12, **GIVEN).fit(words, y))


def test_samples_of_many_classes_have_whole_classes_as_in_memory(two, words):
    X, y = words[0], np.arange(N) % 150
    model = RidgeFLRML(12, max_samples=450, **GIVEN)
    close(clone(model).fit(blocks(X, [250, 350]), y), model.fit(X, y))


def test_maps_for_new_classes_are_chosen_as_in_memory(two, words):
    X, y = words[0], np.arange(N) % 8
    model = RidgeFLRML("auto", ridge=1.0, scale=0.5, new_classes=True, random_state=0)
    labels = da.from_array(y, chunks=N // 2)
    close(clone(model).fit(blocks(X, [250, 350]), labels), model.fit(X, y))
    with pytest.raises(ValueError, match="but y has 3 with two rows or more"):
        clone(model).fit(blocks(X, [250, 350]), np.arange(N) % 3)


@pytest.mark.parametrize("most", [300, 450])
def test_few_rows_are_learned_from_on_the_client(two, words, most):
    X, y = words
    expected = RidgeFLRML(12, max_samples=most, **GIVEN).fit(X, y)
    close(RidgeFLRML(12, max_samples=most, **GIVEN).fit(blocks(X, [250, 350]), y), expected, 1e-12)
    few = RidgeFLRML(12, **GIVEN).fit(X[:200], y[:200])
    close(RidgeFLRML(12, **GIVEN).fit(blocks(X[:200], [150, 50]), y[:200]), few, 1e-12)


@pytest.mark.parametrize("layout", ["dense", "runs"])
def test_a_prepared_data_set_stays_on_disk(two, tmp_path, layout):
    if layout == "dense":
        prepare("digits", tmp_path / "data", options={"max_train": 900, "max_test": 50})
    else:
        prepare("shapes10-16", tmp_path / "data", options={"models": [45, 1], "poses": 1})
    X, y = open_in_memory(tmp_path / "data" / "train")
    rows, labels = open_split(tmp_path / "data" / "train", rows_per_block=130)
    # Without rounds: rounding decides which pairs they find inside the margin.
    model = RidgeFLRML(10, local=0.1, rounds=0, random_state=0)
    expected = clone(model).fit(X, y)
    held = two.persist(rows)
    found = model.fit(held, labels)
    close(found, expected, 1e-3)  # float32
    assert sum(two.nbytes(summary=False).values()) < 1e6
    embedded, expected_rows = found.transform(rows), found.transform(X)
    np.testing.assert_allclose(embedded.compute(), expected_rows, atol=1e-4 * np.abs(expected_rows).max())
    assert knn_accuracy(embedded, labels, embedded, labels) == pytest.approx(
        knn_accuracy(expected_rows, y, expected_rows, y), abs=0.005
    )


def test_what_is_sent_does_not_depend_on_the_number_of_rows(two, words):
    X, y = words
    X, bytes_sent = X.astype(np.float32), []
    for times in (1, 4):
        rows = two.persist(blocks(sp.vstack([X] * times, "csr"), [N // 2] * (2 * times)))
        labels = two.persist(da.from_array(np.tile(y, times), chunks=N // 2))
        wait([rows, labels])
        before = sent(two)
        RidgeFLRML(12, **GIVEN | {"rounds": 0}).fit(rows, labels)
        bytes_sent.append(sent(two) - before)
    D, width, d = X.shape[1], 10, 12
    # Four Krylov blocks to the other worker and back, the map, and the squares of the features.
    least = 4 * D * (2 * 4 * width + d)
    assert least < bytes_sent[0] < 3 * least
    assert bytes_sent[1] < 1.5 * bytes_sent[0]


def test_a_value_is_passed_on_by_a_tree_of_workers(two, monkeypatch):
    monkeypatch.setattr(remote_rows, "FAN_IN", 1)
    portions = RemoteRows.load(blocks(np.eye(8), [2, 2, 2, 2])).by_thread()
    value = portions.scatter(np.arange(3))
    copies = portions.broadcast(value)
    assert len({copy.key for copy in copies} | {value.key}) == 3
    found = two.gather(portions.map(lambda block, copy: copy, portions.futures, copies))
    for part in found:
        np.testing.assert_array_equal(part, np.arange(3))


def test_rows_are_taken_in_any_order(two, words):
    X, _ = words
    portions = RemoteRows.load(blocks(X, [10, 200, 90, 300])).by_thread()
    wanted = np.random.RandomState(0).permutation(N)[:50]
    np.testing.assert_array_equal(portions[wanted].toarray(), X[wanted].toarray())


@pytest.mark.filterwarnings("ignore:The number of unique classes:UserWarning")
def test_wrong_input_is_refused_by_name(two, words):
    X, y = words
    rows = blocks(X, [300, 300])
    with pytest.raises(ValueError, match="requires y"):
        RidgeFLRML(5).fit(rows)
    with pytest.raises(ValueError, match="in place of triplets"):
        RidgeFLRML(5).fit(rows, y, triplets=np.array([[0, 1, 2]]))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        RidgeFLRML(5).fit(rows, y[:-1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        RidgeFLRML(5).fit(rows, da.from_array(y[:-1]))
    with pytest.raises(ValueError, match="Unknown label type"):
        RidgeFLRML(5).fit(rows, da.from_array(np.linspace(0, 1, N)))
    with pytest.raises(ValueError, match="y has 1 class"):
        RidgeFLRML(5).fit(rows, np.zeros(N))
    with pytest.raises(ValueError, match="none has a positive"):
        RidgeFLRML(5).fit(rows, da.from_array(np.arange(N)))
    bad = X.copy()
    bad.data[500] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity"):
        RidgeFLRML(5).fit(blocks(bad, [300, 300]), y)
    with pytest.raises(ValueError, match="scale the rows"):
        RidgeFLRML(5).fit(blocks(1e20 * X, [300, 300]), y)
