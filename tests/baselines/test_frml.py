"""FRML: gradient, tangent space and retraction on the matrices of fixed rank."""

import numpy as np
import pytest

from flrml.baselines.frml import FRML, Objective, Tangent
from flrml.stiefel import random_point


def full(Q, s):
    return (Q * s) @ Q.T


def test_value_and_gradient(triplet_case, random):
    Z, y, _ = triplet_case
    f = Objective.of_labels(Z, y, 3, 0.01)
    Q, s = random_point(6, 3, random), np.array([2.0, 1.0, 0.5])
    W = full(Q, s)
    distance = np.einsum("abi,ij,abj->ab", Z[:, None] - Z[None], W, Z[:, None] - Z[None])
    means = []
    for a, b in (f.near, f.far):
        means.append(np.array([distance[i, b[a == i]].mean() for i in range(len(Z))]))
    expected = 0.005 * np.sum(W**2) + np.mean(np.log1p(np.exp(1 + means[0] - means[1])))
    value, GQ = f.value_gradient(Q, s)
    assert value == pytest.approx(expected)
    assert f.value(Q, s) == value

    xi, t = Tangent.of(Q, GQ), 1e-5
    change = f.value(*xi.retract(s, t)) - f.value(*xi.retract(s, -t))
    assert change / (2 * t) == pytest.approx(xi.squared_norm(), rel=1e-6)


def test_retraction_is_of_second_order(random):
    Q, s = random_point(8, 3, random), np.array([2.0, 1.0, 0.5])
    G = random.standard_normal((8, 8))
    xi = Tangent.of(Q, (G + G.T) @ Q)
    tangent = Q @ xi.A @ Q.T + xi.B @ Q.T + Q @ xi.B.T
    np.testing.assert_allclose(xi.squared_norm(), np.sum(tangent**2))
    first, third = [], []
    for t in (1e-2, 1e-3):
        Qt, st = xi.retract(s, t)
        np.testing.assert_allclose(Qt.T @ Qt, np.eye(3), atol=1e-12)
        moved = full(Q, s) + t * tangent
        values, H = np.linalg.eigh(moved)
        nearest = full(H[:, -3:], values[-3:])
        first.append(np.linalg.norm(full(Qt, st) - moved))
        third.append(np.linalg.norm(full(Qt, st) - nearest))
    assert first[0] / first[1] == pytest.approx(100, rel=0.2)
    assert third[0] / third[1] > 500


def test_descent_is_monotone_and_keeps_the_rank(small_digits):
    model = FRML(8, max_iter=15).fit(small_digits.X, small_digits.y)
    assert np.all(np.diff(model.history_) <= 0)
    assert model.history_[-1] < 0.9 * model.history_[0]
    assert np.linalg.matrix_rank(model.components_) == 8
