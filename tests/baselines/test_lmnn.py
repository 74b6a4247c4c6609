"""LMNN's objective and its gradient."""

import numpy as np
import pytest
from scipy.optimize import check_grad

from flrml.baselines.common import neighbors_outside, neighbors_within
from flrml.baselines.lmnn import LMNN, Objective


def literal(Z, y, L, targets, squared, mu=0.5):
    Y = Z @ L.T
    D = np.sum((Y[:, None] - Y[None]) ** 2, axis=2)
    total = 0.0
    for i, j in zip(*targets, strict=True):
        hinge = np.maximum(1 + D[i, j] - D[i, y != y[i]], 0)
        total += (1 - mu) * D[i, j] + mu * np.sum(hinge**2 if squared else hinge)
    return total / len(Z)


@pytest.mark.parametrize("squared", [True, False])
def test_value_and_gradient(triplet_case, random, squared):
    Z, y, _ = triplet_case
    targets, everyone = neighbors_within(Z, y, 3), neighbors_outside(Z, y, 26)
    f = Objective(Z, *targets, everyone, 0.5, squared)
    L = random.standard_normal((3, 6)) / 3
    # The largest class has 14 members, so 26 impostors are all there are for its samples, but not for others'.
    kept = np.flatnonzero(y == 0)
    only = np.isin(targets[0], kept)
    of_class = Objective(Z, targets[0][only], targets[1][only], everyone, 0.5, squared)
    expected = literal(Z, y, L, (targets[0][only], targets[1][only]), squared)
    assert of_class(L.ravel())[0] == pytest.approx(expected)
    assert check_grad(lambda v: f(v)[0], lambda v: f(v)[1], L.ravel()) < 1e-3


def test_far_apart_blobs_leave_the_pull_term(random):
    centres = np.repeat(np.eye(3) * 50, 20, axis=0)
    Z, y = centres + 0.1 * random.standard_normal((60, 3)), np.repeat(np.arange(3), 20)
    targets = neighbors_within(Z, y, 3)
    value = Objective(Z, *targets, neighbors_outside(Z, y, 40))(np.eye(3).ravel())[0]
    assert value == pytest.approx(0.5 * sum(np.sum((Z[i] - Z[j]) ** 2) for i, j in zip(*targets, strict=True)) / 60)


def test_the_objective_falls(small_digits):
    model = LMNN(20, max_iter=15, refresh=15).fit(small_digits.X, small_digits.y)
    assert np.all(np.diff(model.history_) <= 1e-12)
    assert len(model.history_) == model.n_iter_ + 1
