import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import normalize

from flrml import BinaryRows, neighbors
from flrml.neighbors import knn_accuracy, knn_predict, nearest, vote


def embeddings(n, seed, dtype=np.float64):
    return np.random.RandomState(seed).standard_normal((n, 6)).astype(dtype)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("block", [50, 2**24], ids=["many blocks", "one block"])
@pytest.mark.parametrize("dense_above", [0.0, 1.0], ids=["densified", "sparse"])
def test_neighbours_equal_a_brute_force_search(metric, dtype, block, dense_above, monkeypatch):
    monkeypatch.setattr(neighbors, "BLOCK_VALUES", block)
    monkeypatch.setattr(neighbors, "DENSE_ABOVE", dense_above)
    train, test = embeddings(80, 0, dtype), embeddings(30, 1, dtype)
    found = [
        nearest(train, test, 5, metric=metric),
        nearest(sp.csr_matrix(train), sp.csr_matrix(test), 5, metric=metric),
    ]
    if metric == "cosine":
        train, test = normalize(train), normalize(test)
    every = ((test[:, None].astype(float) - train[None]) ** 2).sum(axis=2)
    order = np.argsort(every, axis=1)[:, :5]
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
    assert vote(labels).tolist() == brute_force_vote(labels)
    assert vote(labels, distances).tolist() == brute_force_vote(labels, distances)


def test_ties_go_to_the_nearest_and_the_reference_vote_to_the_farthest():
    labels, distances = np.array([[2, 1, 1, 2, 0]]), np.array([[1.0, 2.0, 3.0, 4.0, 9.0]])
    assert vote(labels) == [2]
    assert vote(labels, distances) == [0]


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


def test_few_training_rows_and_empty_rows_are_fine():
    train = np.array([[1.0, 0], [0, 1], [0, 0]])
    assert knn_predict(train, ["a", "b", "b"], np.zeros((1, 2))).tolist() in (["a"], ["b"])
    assert knn_accuracy(train, ["a", "b", "b"], np.array([[0.0, 2.0]]), ["b"]) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "manhattan"}, "metric must be one of"),
        ({"vote": "loudest"}, "vote must be one of"),
    ],
)
def test_unknown_rules_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        knn_accuracy(np.eye(3), [0, 1, 1], np.eye(3), [0, 1, 1], **options)


def test_labels_must_match_rows():
    with pytest.raises(ValueError, match="3 training rows but 2 labels"):
        knn_accuracy(np.eye(3), [0, 1], np.eye(3), [0, 1, 1])
    with pytest.raises(ValueError, match="3 test rows but 1 labels"):
        knn_accuracy(np.eye(3), [0, 1, 1], np.eye(3), [0])
