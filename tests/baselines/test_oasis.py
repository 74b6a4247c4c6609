"""OASIS against its literal loop."""

import numpy as np
import pytest

from flrml.baselines.oasis import OASIS, passive_aggressive


def literal(Z, T, C):
    W, losses = np.eye(Z.shape[1]), []
    for i, j, k in T:
        losses.append(max(0.0, 1 - Z[i] @ W @ (Z[j] - Z[k])))
        if losses[-1] > 0:
            delta = Z[j] - Z[k]
            W = W + min(C, losses[-1] / (Z[i] @ Z[i] * (delta @ delta))) * np.outer(Z[i], delta)
    return W, losses


@pytest.mark.parametrize("C", [0.01, 0.1, 10.0])
def test_blocks_of_updates_equal_single_updates(triplet_case, C):
    Z, _, T = triplet_case
    W = np.eye(6)
    losses = np.concatenate([passive_aggressive(W, Z, T[start : start + 50], C) for start in range(0, len(T), 50)])
    expected_W, expected_losses = literal(Z, T, C)
    np.testing.assert_allclose(W, expected_W, atol=1e-10)
    np.testing.assert_allclose(losses, expected_losses, atol=1e-9)


def test_an_unbounded_update_leaves_no_loss(triplet_case):
    Z, _, T = triplet_case
    W = np.eye(6)
    passive_aggressive(W, Z, T[:1], np.inf)
    i, j, k = T[0]
    assert Z[i] @ W @ (Z[j] - Z[k]) >= 1 - 1e-12


def test_no_update_without_loss_or_contrast():
    Z = np.array([[2.0, 0], [2, 0], [0, 1], [0, 1]])
    W = np.eye(2)
    assert passive_aggressive(W, Z, np.array([[0, 1, 2]]), 1.0) == [0]
    assert passive_aggressive(W, Z, np.array([[0, 2, 3]]), 1.0) == [1]
    np.testing.assert_array_equal(W, np.eye(2))


def test_scores_are_the_bilinear_similarity(small_digits):
    model = OASIS(random_state=0).fit(small_digits.X, triplets=small_digits.triplets)
    Z = model.transform(small_digits.X[:4])
    S = Z @ model.similarity_ @ Z.T
    pairs = np.stack((small_digits.X[[0, 2]], small_digits.X[[1, 3]]), axis=1)
    np.testing.assert_allclose(model.pair_score(pairs), [S[0, 1], S[2, 3]])
