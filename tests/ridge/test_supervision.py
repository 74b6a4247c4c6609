import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from flrml import draw_triplets
from flrml.folds import N_FOLDS
from flrml.neighbors import knn_accuracy
from flrml.retrieval import retrieval_scores
from flrml.ridge import supervision as supervision_module
from flrml.ridge.pairs import pair_product
from flrml.ridge.supervision import N_NEIGHBORS, Labels, NewClasses, Triplets


@pytest.fixture
def rows():
    random = np.random.RandomState(0)
    label = np.array([0] * 9 + [1] * 14 + [2] * 6 + [3])
    groups = np.concatenate((np.repeat(np.arange(3), 3), 3 + np.repeat(np.arange(7), 2), 10 + np.arange(6), [16]))
    order = random.permutation(30)
    return random.standard_normal((30, 4)), label[order], groups[order]


def expectation(label, groups):
    """A by counting every triplet of every sample."""
    n = len(label)
    A = np.zeros((n, n))
    for i in range(n):
        positives = [j for j in range(n) if label[j] == label[i]]
        negatives = [k for k in range(n) if label[k] != label[i]]
        if len(set(groups[positives])) == 1:  # a single object
            continue
        for j in positives:
            for k in negatives:
                A[i, j] += 1 / (len(positives) * len(negatives))
                A[i, k] -= 1 / (len(positives) * len(negatives))
    return A


@pytest.mark.parametrize("grouped", [False, True])
def test_the_contrast_is_the_mean_over_all_triplets(rows, grouped):
    Y, label, groups = rows
    A = expectation(label, groups if grouped else np.arange(30))
    supervision = Labels(label, groups if grouped else None)
    assert np.allclose(supervision.contrast(Y), (A + A.T) @ Y / 2)
    assert np.allclose(supervision.scatters(Y)[1], Y.T @ (A + A.T) @ Y / 2)
    assert 3 not in label[supervision.anchors]  # alone in its class


def test_many_random_triplets_come_close_to_the_expectation(rows):
    Y, label, _ = rows
    Y, label = np.tile(Y[label != 3], (20, 1)), np.tile(label[label != 3], 20)
    T = draw_triplets(label, 1000, 0)
    drawn, expected = Triplets(T, 580).contrast(Y), Labels(label).contrast(Y)
    assert np.linalg.norm(drawn - expected) < 0.1 * np.linalg.norm(expected)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("margin", [1e-6, 0.2, 3.0])
def test_active_pairs_are_those_of_a_search_by_hand(rows, grouped, margin):
    Y, label, groups = rows
    Y = Y / np.linalg.norm(Y, axis=1, keepdims=True)
    groups = groups if grouped else np.arange(30)
    weights, hinges = np.zeros((30, 30)), []
    for i in range(30):
        near = np.argsort(-(Y @ Y[i]))
        positives = [j for j in near if label[j] == label[i] and groups[j] != groups[i]][:N_NEIGHBORS]
        negatives = [k for k in near if label[k] != label[i]][:N_NEIGHBORS]
        for j in positives:
            for k in negatives:
                hinge = Y[i] @ Y[k] - Y[i] @ Y[j] + margin
                hinges.append(max(hinge, 0) / margin)
                weights[i, j] += hinge > 0
                weights[i, k] -= hinge > 0
    i, j, w, mean = Labels(label, groups).active_pairs(Y, margin)
    found = np.zeros((30, 30))
    np.add.at(found, (i, j), w)
    assert np.array_equal(found, weights)
    assert mean == pytest.approx(np.mean(hinges))


def test_of_many_rows_some_of_each_class_are_anchors_and_all_are_neighbours(monkeypatch):
    random, label = np.random.RandomState(0), np.arange(200) % 2
    Y = random.standard_normal((200, 4))
    Y /= np.linalg.norm(Y, axis=1, keepdims=True)
    every = dict(zip(*_pairs_and_weights(Labels(label), Y), strict=True))
    monkeypatch.setattr(supervision_module, "MAX_ANCHORS", 30)
    pairs, w = _pairs_and_weights(Labels(label), Y)
    anchors = sorted({i for i, _ in pairs})
    assert np.bincount(label[anchors]).tolist() == [15, 15]
    assert dict(zip(pairs, w, strict=True)) == {pair: every[pair] for pair in every if pair[0] in anchors}
    assert len({j for _, j in pairs}) > 100


def _pairs_and_weights(supervision, Y):
    i, j, w, _ = supervision.active_pairs(Y, 3.0)  # a margin that every triplet is inside of
    return list(zip(i.tolist(), j.tolist(), strict=True)), w.tolist()


def test_given_triplets_are_active_inside_the_margin(rows):
    Y, label, _ = rows
    Y = Y / np.linalg.norm(Y, axis=1, keepdims=True)
    T = draw_triplets(label[label != 3], 2, 0)
    supervision = Triplets(T, 30)
    _, _, w, _ = supervision.active_pairs(Y, 0.1)
    active = np.sum(Y[T[:, 0]] * (Y[T[:, 2]] - Y[T[:, 1]]), axis=1) + 0.1 > 0
    assert w.sum() == 0
    assert len(w) == 2 * active.sum()


def test_the_pair_product_is_the_gradient_of_the_cosines():
    random = np.random.RandomState(1)
    E, L = random.standard_normal((12, 5)), random.standard_normal((5, 3))
    i, j, w = random.randint(0, 6, 20), random.randint(6, 12, 20), random.standard_normal(20)

    def value(W):
        K = E @ W @ E.T
        return np.sum(w * K[i, j] / np.sqrt(K[i, i] * K[j, j]))

    W, direction = L @ L.T, random.standard_normal((5, 5))
    direction += direction.T
    G = E.T @ pair_product(i, j, w, E @ L, E)
    step = 1e-6
    slope = (value(W + step * direction) - value(W - step * direction)) / (2 * step)
    assert np.sum((G + G.T) / 2 * direction) == pytest.approx(slope, rel=1e-5)


def test_class_means_weigh_as_their_classes(rows):
    Y, label, _ = rows
    expected = [np.sqrt(np.sum(label == c)) * Y[label == c].mean(axis=0) for c in range(4)]
    assert np.allclose(Labels(label).class_means(Y), expected)
    assert np.allclose(Labels(label).scatters(Y)[0], np.transpose(expected) @ expected)
    assert not Triplets(np.array([[0, 1, 2]]), 30).scatters(Y)[0].any()


def test_rows_are_drawn_without_repetition_and_with_triplets(rows):
    _, label, _ = rows
    random = np.random.RandomState(0)
    assert np.array_equal(Labels(label).draw(30, random), np.arange(30))
    drawn = Labels(label).draw(10, random)
    assert len(set(drawn)) == 10
    supervision = Triplets(draw_triplets(label[label != 3], 1, 0), 30)
    drawn = supervision.draw(12, random)
    assert len(drawn) <= 12
    assert len(supervision.subset(drawn).triplets) >= 4


def test_rows_of_many_classes_are_drawn_as_whole_classes():
    label = np.random.RandomState(0).permutation(np.repeat(np.arange(50), 4))
    drawn = Labels(label).draw(42, np.random.RandomState(0))
    assert np.array_equal(drawn, np.unique(drawn))
    assert sorted(np.bincount(label[drawn], minlength=50))[-11:] == [2] + 10 * [4]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3)), min_size=1, max_size=30), st.integers(0, 2**16))
def test_folds_hold_out_each_group_once(objects, seed):
    """Objects are classes and numbers of rows."""
    label = np.concatenate([[kind] * size for kind, size in objects])
    groups = np.repeat(np.arange(len(objects)), [size for _, size in objects])
    largest = np.bincount([kind for kind, _ in objects]).max()
    T = np.column_stack([np.arange(len(label))] * 3)
    for supervision, number in (
        (Labels(label, groups), min(N_FOLDS, largest) if largest > 1 else 0),
        (Triplets(T, len(label), groups), N_FOLDS if len(objects) >= N_FOLDS else 0),
    ):
        parts = supervision.folds(np.random.RandomState(seed))
        assert len(parts) == number
        for rows, validation in parts:
            assert np.array_equal(np.sort(np.concatenate((rows, validation))), np.arange(len(label)))
            assert not set(groups[rows]) & set(groups[validation])
        if parts:
            assert np.array_equal(
                np.sort(np.concatenate([validation for _, validation in parts])), np.arange(len(label))
            )


def test_rows_are_classified_by_five_neighbours(digits):
    X, y = digits[:2]
    rows, validation = np.arange(0, 900), np.arange(900, 1200)
    correct, groups = Labels(y).evaluate(X[rows], rows, X[validation], validation)
    assert np.array_equal(groups, validation)
    assert correct.mean() == pytest.approx(knn_accuracy(X[rows], y[rows], X[validation], y[validation]), abs=0.004)


def test_sparse_rows_are_evaluated_like_dense_ones_at_any_density():
    random = np.random.RandomState(0)
    for filled in (0.02, 0.5):
        X = random.random_sample((120, 80)) * (random.random_sample((120, 80)) < filled)
        y, rows, validation = np.arange(120) % 3, np.arange(90), np.arange(90, 120)
        sparse = sp.csr_matrix(X)
        expected = Labels(y).evaluate(X[rows], rows, X[validation], validation)[0]
        assert np.array_equal(Labels(y).evaluate(sparse[rows], rows, sparse[validation], validation)[0], expected)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_new_classes_are_scored_like_retrieval(digits, grouped, form):
    X, y, groups = form(digits[0]), digits[1], np.arange(1200) // 4 if grouped else None
    rows, validation = np.arange(100, 500), np.arange(100, 400)
    supervision = NewClasses(y, groups)
    found, of_groups = supervision.evaluate(X[rows], rows, X[validation], validation)
    given = None if groups is None else groups[rows]
    scores = retrieval_scores(X[rows], y[rows], groups=given, k=1, average=False)
    expected = (scores["recall_at_1"] + scores["map_at_r"]) / 2
    assert np.allclose(found, expected[:300])
    assert np.array_equal(of_groups, supervision.groups[validation])


def test_rows_without_another_one_of_their_class_are_no_queries():
    X, y = np.eye(6)[[0, 0, 1, 2, 3, 3]], np.array([0, 0, 1, 2, 3, 3])
    supervision, rows = NewClasses(y), np.arange(6)
    found, groups = supervision.evaluate(X, rows, X, rows)
    assert found.tolist() == [1, 1, 1, 1]
    assert groups.tolist() == [0, 1, 4, 5]
    assert [len(part) for part in supervision.evaluate(X, rows, X[2:4], rows[2:4])] == [0, 0]


@given(st.lists(st.integers(1, 9), min_size=4, max_size=12), st.integers(0, 2**16))
def test_folds_of_new_classes_hold_out_each_class_once(sizes, seed):
    label = np.random.RandomState(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    folds = NewClasses(label).folds(np.random.RandomState(seed))
    assert len(folds) == min(len(sizes), 5)
    held = [np.unique(label[validation]) for _, validation in folds]
    assert sorted(np.concatenate(held)) == list(range(len(sizes)))
    several = np.bincount(label) > 1
    for counts in ([len(classes) for classes in held], [several[classes].sum() for classes in held]):
        assert max(counts) - min(counts) <= 1
    for train, validation in folds:
        assert np.array_equal(np.sort(np.concatenate((train, validation))), np.arange(len(label)))


def test_the_score_of_triplets_is_the_share_satisfied():
    Y = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.95, 0.05]])
    supervision = Triplets(np.array([[3, 0, 2], [3, 2, 1], [0, 1, 2]]), 4)
    for rows, validation, expected in (([0, 1, 2], 3, [1, 0]), ([1, 2], 0, [1]), ([0], 3, [])):
        right, groups = supervision.evaluate(Y[rows], np.array(rows), Y[[validation]], np.array([validation]))
        assert right.tolist() == expected
        assert set(groups) <= {validation}


def test_a_subset_keeps_what_concerns_its_rows(rows):
    Y, label, groups = rows
    chosen = np.arange(0, 30, 2)
    assert np.allclose(
        Labels(label, groups).subset(chosen).contrast(Y[chosen]),
        Labels(label[chosen], groups[chosen]).contrast(Y[chosen]),
    )
    T = Triplets(np.array([[0, 2, 4], [0, 1, 4], [28, 2, 0]]), 30).subset(chosen).triplets
    assert np.array_equal(T, [[0, 1, 2], [14, 1, 0]])
