"""SGDINC: the factored step against the dense proximal step."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from flrml import BinaryRows, draw_triplets, knn_accuracy
from flrml.baselines.sgdinc import SGDINC, FactoredMetric
from flrml.exceptions import NoSolutionError


def dense_step(M, X, T, eta, lam):
    G = np.zeros_like(M)
    for i, j, k in T:
        near, far = X[i] - X[j], X[i] - X[k]
        if 1 + near @ M @ near - far @ M @ far > 0:
            G += (np.outer(near, near) - np.outer(far, far)) / len(T)
    values, H = np.linalg.eigh(M - eta * G)
    values = np.maximum(values - eta * lam, 0)
    return (H * values) @ H.T


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_steps_equal_dense_proximal_steps(form, random):
    X = random.standard_normal((12, 30))
    metric, M = FactoredMetric(30, 30, X.dtype), np.zeros((30, 30))
    for t in range(1, 5):
        T = np.array([random.choice(12, 3, replace=False) for _ in range(6)])
        metric.step(form(X), T, 0.02 / np.sqrt(t), 0.1)
        M = dense_step(M, X, T, 0.02 / np.sqrt(t), 0.1)
        np.testing.assert_allclose((metric.Q * metric.s) @ metric.Q.T, M, atol=1e-12)


@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-8), (np.float32, 1e-4)])
def test_factors_stay_orthonormal_under_the_cap(small_digits, dtype, error):
    X, T = small_digits.X.astype(dtype), small_digits.triplets
    metric, random = FactoredMetric(64, 12, dtype), np.random.RandomState(0)
    for t in range(1, 101):
        rows, local = np.unique(T[random.choice(len(T), 30)], return_inverse=True)
        metric.step(X[rows], local.reshape(-1, 3), 5 / np.sqrt(t), 1e-3)
    assert metric.rank <= 12
    assert np.abs(metric.Q.T @ metric.Q - np.eye(metric.rank)).max() < error


def test_a_large_lambda_leaves_no_solution(small_digits):
    with pytest.raises(NoSolutionError, match="zero"):
        SGDINC(lam=100.0, n_steps=3).fit(small_digits.X, small_digits.y)


def test_binary_rows_with_many_features(random):
    n, n_features = 200, 50_000
    y = np.arange(n) % 4
    rows = [np.sort(random.choice(600, 60, replace=False)) + 10_000 * c for c in y]
    X = BinaryRows(np.arange(0, 60 * n + 1, 60), np.concatenate(rows), n_features)
    model = SGDINC(5, n_steps=10, random_state=0).fit(X, y)
    assert model.components_.dtype == np.float32
    assert model.components_.shape == (5, n_features)
    Y = model.transform(X)
    assert knn_accuracy(Y[:150], y[:150], Y[150:], y[150:], metric="euclidean") > 0.9


def test_memory_is_that_of_the_map(random):
    n, n_features = 300, 100_000
    rows = np.concatenate([np.sort(random.choice(n_features, 50, replace=False)) for _ in range(n)])
    X = BinaryRows(np.arange(0, 50 * n + 1, 50), rows, n_features)
    T = draw_triplets(np.arange(n) % 3, 5, 0)
    tracemalloc.start()
    model = SGDINC(20, n_steps=4, random_state=0).fit(X, triplets=T)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    dense_batch = 200 * n_features * 4
    assert peak < 4 * model.components_.nbytes < dense_batch
