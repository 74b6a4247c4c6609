"""DRML: gradients, invariance and the manifold."""

import numpy as np
import pytest
import scipy.sparse as sp

from flrml.baselines.common import pairs_of
from flrml.baselines.drml import DRML, Objective
from flrml.stiefel import random_point


@pytest.fixture
def problem(triplet_case, random):
    X, _, T = triplet_case
    A = random.standard_normal((3, 5))
    return Objective(X, *pairs_of(T), 1.0, 0.1), random_point(6, 3, random), A @ A.T


def test_value(problem):
    f, W, M = problem
    difference = f.X[f.a] - f.X[f.b]
    d2 = np.einsum("pi,ij,pj->p", difference, W @ M @ W.T, difference)
    pull = np.trace(M) - np.log(np.linalg.det(M)) - 3
    assert f.value(W, M) == pytest.approx(np.mean(np.log1p(np.exp(f.signs * (d2 - 1)))) + 0.1 * pull)


def test_gradients(problem, random):
    f, W, M = problem
    G_W, G_M = f.gradient(W, M)
    for direction in range(3):
        dW, dM, t = random.standard_normal(W.shape), random.standard_normal(M.shape), 1e-6
        dM = dM + dM.T
        slope = (f.value(W + t * dW, M + t * dM) - f.value(W - t * dW, M - t * dM)) / (2 * t)
        assert slope == pytest.approx(np.sum(G_W * dW) + np.sum(G_M * dM), rel=1e-5), direction


def test_rotating_the_subspace_changes_nothing(problem, random):
    f, W, M = problem
    R = random_point(3, 3, random)
    assert f.value(W @ R, R.T @ M @ R) == pytest.approx(f.value(W, M), abs=1e-10)


@pytest.mark.parametrize("init", ["svd", "random"])
def test_the_objective_falls(small_digits, init):
    model = DRML(8, init=init, max_iter=8, random_state=0).fit(
        sp.csr_matrix(small_digits.X), triplets=small_digits.triplets
    )
    assert model.history_[-1] < model.history_[0]
    assert np.all(np.diff(model.history_) <= 1e-12)
