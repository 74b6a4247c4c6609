import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import normalize

from flrml import BinaryRows, neighbors
from flrml.neighbors import knn_accuracy, knn_predict, majority_vote, nearest
from flrml.reference import farthest_vote
from flrml.rows.binary import RunRows, find_runs


def embeddings(n, seed, dtype=np.float64):
    return np.random.RandomState(seed).standard_normal((n, 6)).astype(dtype)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("block", [7, 2**12], ids=["many blocks", "one block"])
@pytest.mark.parametrize("dense_above", [0.0, 1.0], ids=["densified", "sparse"])
@pytest.mark.parametrize("k", [5, 20])
def test_neighbours_equal_a_brute_force_search(metric, dtype, block, dense_above, k, monkeypatch):
    monkeypatch.setattr(neighbors, "BLOCK_SIMILARITIES", block**2)
    monkeypatch.setattr(neighbors, "CACHED_ROWS", block)
    monkeypatch.setattr(neighbors, "CACHED_COLUMNS", block)
    monkeypatch.setattr(neighbors, "DENSE_SHARE", dense_above)
    train, test = embeddings(80, 0, dtype), embeddings(30, 1, dtype)
    found = [
        nearest(train, test, k, metric=metric),
        nearest(sp.csr_matrix(train), sp.csr_matrix(test), k, metric=metric),
    ]
    if metric == "cosine":
        train, test = normalize(train), normalize(test)
    every = ((test[:, None].astype(float) - train[None]) ** 2).sum(axis=2)
    order = np.argsort(every, axis=1)[:, :k]
    for indices, distances in found:
        assert np.array_equal(indices, order)
        assert np.allclose(distances, np.take_along_axis(every, order, axis=1), atol=1e-5)


def test_a_training_row_of_zeros_is_no_near_neighbour_by_cosine():
    train = np.array([[0.0, 0.0], [1.0, 2.0]])
    indices, distances = nearest(train, np.array([[2.0, 1.0]]), 2)
    assert indices.tolist() == [[1, 0]]
    assert np.allclose(distances, [[2 - 2 * 0.8, 2]])


def test_bilinear_similarity_may_be_any_matrix():
    train, test, W = embeddings(40, 0), embeddings(10, 1), embeddings(6, 2)
    indices, distances = nearest(train, test, 3, metric="bilinear", W=W)
    expected = np.array([[x @ W @ t for t in train] for x in test])
    assert np.array_equal(indices, np.argsort(-expected, axis=1)[:, :3])
    assert np.allclose(distances, np.sort(-expected, axis=1)[:, :3])


def brute_force_vote(labels, distances=None):
    chosen = []
    for row, near in enumerate(labels):
        score = {}
        for place, label in enumerate(near):
            score[label] = score.get(label, 0) + (1 if distances is None else distances[row, place])
        chosen.append(next(label for label in near if score[label] == max(score.values())))
    return chosen


@given(st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5), min_size=1, max_size=8), st.integers(0, 99))
def test_votes_equal_counting_by_hand(labels, seed):
    labels = np.array(labels)
    distances = np.sort(np.random.RandomState(seed).randint(1, 4, labels.shape), axis=1).astype(float)
    assert majority_vote(labels, distances).tolist() == brute_force_vote(labels)
    assert farthest_vote(labels, distances).tolist() == brute_force_vote(labels, distances)


def test_ties_go_to_the_nearest_and_the_reference_vote_to_the_farthest():
    labels, distances = np.array([[2, 1, 1, 2, 0]]), np.array([[1.0, 2.0, 3.0, 4.0, 9.0]])
    assert majority_vote(labels, distances) == [2]
    assert farthest_vote(labels, distances) == [0]


def test_sparse_rows_count_like_dense_ones():
    random = np.random.RandomState(0)
    ones = (random.random_sample((60, 40)) < 0.3).astype(float)
    y = random.randint(0, 3, 60)
    sparse = sp.csr_matrix(ones)
    binary = BinaryRows(sparse.indptr, sparse.indices, 40, np.float64)
    for metric in ("cosine", "euclidean"):
        rows = {"euclidean": normalize(ones), "cosine": ones}[metric]
        expected = nearest(rows[:40], rows[40:], metric=metric)[1]
        assert np.allclose(nearest(sp.csr_matrix(rows)[:40], sp.csr_matrix(rows)[40:], metric=metric)[1], expected)
    assert np.allclose(nearest(binary, binary)[1], nearest(ones, ones)[1], atol=1e-7)
    weights = sparse.multiply(random.random_sample(ones.shape)).tocsr()  # no ties
    accuracies = [knn_accuracy(rows[:40], y[:40], rows[40:], y[40:]) for rows in (weights, weights.toarray())]
    assert accuracies[0] == accuracies[1]


@pytest.mark.parametrize("kind", ["runs", "csr", "dense"])
def test_many_runs_are_searched_as_they_are(monkeypatch, kind):
    ones = (np.random.RandomState(0).random_sample((90, 40)) < 0.3).astype(float)
    ones[[7, 70]] = 0
    sparse = sp.csr_matrix(ones)
    runs, indptr = find_runs(sparse.indices, sparse.indptr)
    rows = RunRows(indptr, runs, 40, np.float64)
    test = {"runs": rows, "csr": sparse, "dense": ones}[kind]
    expected = nearest(sparse, sparse)[1]
    monkeypatch.setattr(neighbors, "DENSE_TRAIN_VALUES", 1)
    monkeypatch.setattr(neighbors, "DENSE_TEST_VALUES", 7 * 40)
    monkeypatch.setattr(RunRows, "_csr", None if kind != "runs" else RunRows._csr)  # the training rows stay runs
    assert np.allclose(nearest(rows, test)[1], expected, atol=1e-7)


def test_few_training_rows_and_empty_rows_are_fine():
    train = np.array([[1.0, 0], [0, 1], [0, 0]])
    assert knn_predict(train, ["a", "b", "b"], np.zeros((1, 2))).tolist() in (["a"], ["b"])
    assert knn_accuracy(train, ["a", "b", "b"], np.array([[0.0, 2.0]]), ["b"]) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "manhattan"}, "metric must be one of"),
        ({"n_neighbors": 0}, "n_neighbors must be a positive integer, got 0"),
        ({"n_neighbors": 2.5}, "n_neighbors must be a positive integer"),
        ({"metric": "bilinear", "W": np.eye(2)}, r"W must have the shape \(3, 3\), got \(2, 2\)"),
        ({"metric": "bilinear", "W": np.full((3, 3), np.nan)}, "W contains NaN"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        knn_accuracy(np.eye(3), [0, 1, 1], np.eye(3), [0, 1, 1], **options)


@pytest.mark.parametrize(
    ("train", "y_train", "test", "y_test", "message"),
    [
        (np.eye(3), [0, 1], np.eye(3), [0, 1, 1], "inconsistent numbers of samples"),
        (np.eye(3), [0, 1, 1], np.eye(3), [0], "inconsistent numbers of samples"),
        (np.eye(3), [0, 1, 1], np.eye(3), ["0", "1", "1"], "Mix of label input types"),
        (np.eye(3), [0, 1, 1], np.empty((0, 3)), [], r"0 sample\(s\)"),
        (np.eye(3), [0, 1, 1], np.eye(3)[:, :2], [0, 1, 1], "train has 3 columns, but test has 2"),
        (np.eye(3), np.eye(3), np.eye(3), [0, 1, 1], "y should be a 1d array"),
    ],
)
def test_labels_and_rows_that_do_not_fit_are_refused(train, y_train, test, y_test, message):
    with pytest.raises(ValueError, match=message):
        knn_accuracy(train, y_train, test, y_test)


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "bilinear"])
@pytest.mark.parametrize("sparse", [False, True])
def test_values_that_are_not_finite_are_refused(metric, sparse):
    bad = np.eye(3)
    bad[1, 1] = np.nan
    rows = sp.csr_matrix(bad) if sparse else bad
    for train, test in ((rows, np.eye(3)), (np.eye(3), rows)):
        with pytest.raises(ValueError, match="contains NaN"):
            knn_accuracy(train, [0, 1, 1], test, [0, 1, 1], metric=metric)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
def test_lists_data_frames_and_columns_of_labels_give_the_same_accuracy():
    train, test = embeddings(60, 0), embeddings(30, 1)
    y, y_test = (train[:, 0] > 0).astype(int), (test[:, 0] > 0).astype(int)
    expected = knn_accuracy(train, y, test, y_test)
    assert expected > 0.6
    assert knn_accuracy(train.tolist(), y.tolist(), test.tolist(), y_test.tolist()) == expected
    assert knn_accuracy(pd.DataFrame(train), pd.Series(y), pd.DataFrame(test), pd.Series(y_test)) == expected
    assert knn_accuracy(train, y[:, None], test, y_test[:, None]) == expected


SCALES = [(np.float32, scale) for scale in (1e-44, 1e-38, 1e-25, 1e-20, 1e-12, 1e12, 1e20, 1e30, 1e37)]
SCALES += [(np.float64, scale) for scale in (1e-300, 1e-165, 1e165, 1e300)]
SIMILARITY = {
    "cosine": lambda rows, row: rows @ row / np.linalg.norm(rows, axis=1),
    "euclidean": lambda rows, row: -np.sum((rows - row) ** 2, axis=1),
    "bilinear": lambda rows, row: rows @ row,
}


@pytest.mark.parametrize("metric", SIMILARITY)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize(("dtype", "scale"), SCALES)
def test_neighbours_do_not_depend_on_the_scale_of_the_rows(metric, form, dtype, scale):
    random = np.random.RandomState(0)
    X, X_test = (random.randint(1, 8, (n, 5)).astype(float) for n in (30, 10))
    scaled, scaled_test = (form((rows * scale).astype(dtype)) for rows in (X, X_test))
    found, distances = nearest(scaled, scaled_test, 3, metric=metric)
    assert not np.isnan(distances).any()
    if scale < np.finfo(dtype).tiny:
        return  # the rows themselves have lost digits
    for neighbours, row in zip(found, X_test, strict=True):
        similarity = SIMILARITY[metric](X, row)
        np.testing.assert_allclose(similarity[neighbours], np.sort(similarity)[:-4:-1], rtol=1e-5)
