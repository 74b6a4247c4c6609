import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flrml.exceptions import FlrmlWarning
from flrml.triplets import TripletsByAnchor, check_triplets, contrast_matrix, draw_triplets
from tests.literal import z_by_loops

labels = st.lists(st.integers(0, 4), min_size=3, max_size=40).filter(
    lambda y: len(set(y)) > 1 and min(np.unique(y, return_counts=True)[1]) > 1
)


@given(labels, st.integers(1, 7), st.integers(0, 99))
def test_every_triplet_has_a_positive_and_a_negative(y, t, seed):
    y = np.array(y)
    i, j, k = draw_triplets(y, t, seed).T
    assert np.array_equal(i, np.repeat(np.arange(len(y)), t))
    assert np.all(i != j)
    assert np.all(y[i] == y[j])
    assert np.all(y[i] != y[k])


@given(labels, st.integers(0, 99))
def test_the_seed_decides(y, seed):
    assert np.array_equal(draw_triplets(y, 3, seed), draw_triplets(y, 3, seed))


def test_positives_and_negatives_are_uniform():
    y = np.repeat([0, 1, 2], 4)
    i, j, k = draw_triplets(y, 30_000, 0).T
    of_five = i == 5
    assert np.allclose(np.bincount(j[of_five], minlength=12)[[4, 6, 7]] / 30_000, 1 / 3, atol=0.02)
    assert np.allclose(np.bincount(k[of_five], minlength=12)[[0, 1, 2, 3, 8, 9, 10, 11]] / 30_000, 1 / 8, atol=0.02)


def test_labels_may_be_strings():
    assert len(draw_triplets(["b", "a", "b", "a"], 2, 0)) == 8


def test_a_lonely_sample_gets_no_triplet_and_one_warning():
    with pytest.warns(FlrmlWarning, match=r"^2 sample\(s\) are alone") as caught:
        T = draw_triplets([0, 0, 1, 2, 0], 5, 0)
    assert len(caught) == 1
    assert set(T[:, 0]) == {0, 1, 4}


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, 1, 1], r"1 class\(es\): \[1\]"),
        ([1, 2, 3], "every class of y has a single member"),
        ([[1, 2]], "one-dimensional"),
    ],
)
def test_labels_that_give_no_triplets_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        draw_triplets(y)


@pytest.mark.parametrize(
    ("triplets", "message"),
    [
        ([[0, 1]], r"shape \(m, 3\)"),
        (np.empty((0, 3), dtype=int), "m at least 1"),
        ([["a", "b", "c"]], "must be row numbers"),
        ([[0, 1, 2], [0, 1.5, 2]], r"triplet 1 is \(0.0, 1.5, 2.0\): row numbers must be whole"),
        ([[0, 1, 2], [3, 1, 9], [0, 1, -1]], r"triplet 1 is \(3, 1, 9\): row numbers must lie in 0 to 4"),
        ([[0, 1, 2], [1, 2, 3], [4, 4, 0]], r"triplet 2 is \(4, 4, 0\): the three row numbers must differ"),
    ],
)
def test_bad_triplets_name_the_first_bad_row(triplets, message):
    with pytest.raises(ValueError, match=message):
        check_triplets(triplets, 5)


@given(labels, st.integers(1, 4), st.integers(0, 99))
def test_contrasts_equal_a_loop_over_triplets(y, t, seed):
    T = draw_triplets(y, t, seed)
    Y = np.random.RandomState(seed).standard_normal((len(y), 3))
    contrasts = contrast_matrix(T, len(y))
    assert np.allclose(-np.sum(Y * (contrasts @ Y), axis=1), z_by_loops(Y, T))


def test_half_a_triplet_counts_one_half():
    contrasts = TripletsByAnchor(np.array([[0, 1, 2], [0, 1, 3]])).contrasts(np.array([0, 1, 2])).toarray()
    assert np.allclose(contrasts[0], [0, 2 / 2.5, -1 / 2.5])


@given(labels, st.integers(1, 4), st.booleans(), st.data())
def test_contrasts_among_few_samples_equal_a_loop_over_triplets(y, t, shuffled, data):
    T = draw_triplets(y, t, 0)
    T = np.random.RandomState(0).permutation(T) if shuffled else T
    samples = np.array(sorted(data.draw(st.sets(st.integers(0, len(y) - 1), min_size=1))))
    differences = np.zeros((len(y), len(y)))
    for i, j, k in T:
        differences[i, j] += 1
        differences[i, k] -= 1
    among = differences[np.ix_(samples, samples)]
    halves = np.abs(among).sum(axis=1, keepdims=True)
    assert np.allclose(TripletsByAnchor(T).contrasts(samples).toarray(), among / (halves / 2 + 1))


def test_samples_beyond_the_last_anchor_have_no_contrasts():
    contrasts = TripletsByAnchor(np.array([[1, 0, 3]])).contrasts(np.array([0, 1, 3, 9]))
    assert np.allclose(contrasts.toarray(), [[0] * 4, [0.5, 0, -0.5, 0], [0] * 4, [0] * 4])
