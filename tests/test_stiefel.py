import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from flrml import stiefel
from tests.literal import authors_search


class Plain:
    """A problem that is its own image."""

    def __init__(self, function, gradient):
        self.function, self.gradient = function, gradient

    def image(self, P):
        return P

    def combine(self, P, a, Q, b):
        return P @ a + Q @ b

    def value(self, P):
        return self.function(P)

    def along(self, P, Q):
        return lambda a, b: self.function(P @ a + Q @ b)

    def accept(self, P):
        return self.function(P), lambda: self.gradient(P)


def random_point(r, d, seed=0):
    return stiefel.random_point(r, d, np.random.RandomState(seed))


def point_of(curve, tau):
    a, b = curve.coefficients(tau)
    return curve.P @ a + curve.Q @ b


@given(st.integers(1, 8), st.integers(0, 8), st.floats(1e-20, 1e20), st.integers(0, 99))
def test_the_curve_stays_on_the_manifold(d, more, tau, seed):
    P = random_point(d + more, d, seed)
    G = np.random.RandomState(seed + 1).standard_normal(P.shape)
    moved = point_of(stiefel.CayleyCurve(P, G), tau)
    assert np.allclose(moved.T @ moved, np.eye(d), atol=1e-12)


def test_the_curve_leaves_along_minus_the_projected_gradient():
    P, tau = random_point(9, 3), 1e-7
    G = np.random.RandomState(1).standard_normal(P.shape)
    curve = stiefel.CayleyCurve(P, G)
    assert np.allclose((point_of(curve, tau) - P) / tau, -stiefel.project(P, G), atol=1e-5)
    assert np.allclose(curve.descent, stiefel.project(P, G), atol=1e-13)


def test_top_eigenvectors_of_a_symmetric_matrix():
    random = np.random.RandomState(0)
    S = random.standard_normal((40, 40))
    S = S + S.T
    problem = Plain(lambda P: -np.sum(P * (S @ P)), lambda P: -2 * S @ P)
    found = stiefel.minimize(problem, random_point(40, 5), max_iter=2000, tol=1e-13)
    assert found.values[-1] == pytest.approx(-np.linalg.eigvalsh(S)[-5:].sum(), rel=1e-8)
    assert np.allclose(found.P.T @ found.P, np.eye(5), atol=1e-10)
    assert len(found.steps) < 2000
    assert len(found.values) == len(found.steps) + 1


def test_the_orthogonal_procrustes_problem():
    random = np.random.RandomState(0)
    A, B = random.standard_normal((60, 6)), random.standard_normal((60, 6))
    problem = Plain(lambda P: np.sum((A @ P - B) ** 2), lambda P: 2 * A.T @ (A @ P - B))
    best, _ = scipy.linalg.orthogonal_procrustes(A, B)
    # St(6, 6) has two components; start in that of the answer.
    start = random_point(6, 6)
    start[:, 0] *= np.sign(np.linalg.det(start) * np.linalg.det(best))
    found = stiefel.minimize(problem, start, max_iter=2000, tol=1e-15)
    assert np.allclose(found.P, best, atol=1e-5)


def test_a_stationary_start_is_left_alone():
    P = np.eye(5)[:, :2]
    found = stiefel.minimize(Plain(lambda P: 1.0, np.zeros_like), P)
    assert len(found.steps) < 20
    assert found.steps == []
    assert np.array_equal(found.P, P)


def test_a_step_lost_in_rounding_gives_no_step_length():
    """Where trials are compared with a value that none can reach, the search ends instead of following noise."""
    S = np.diag(np.arange(12.0))

    class Unreachable(Plain):
        def accept(self, P):
            noise = 1e-16 * np.random.RandomState(0).standard_normal(P.shape)
            return self.function(P) - 1, lambda: self.gradient(P) + noise

    problem = Unreachable(lambda P: np.sum(P * (S @ P)), lambda P: 2 * S @ P)
    found = stiefel.minimize(problem, random_point(12, 3), max_iter=20, tol=1e-3)
    assert len(found.steps) < 20
    assert len(found.steps) == 3
    assert max(found.steps) < 1e-15


def test_many_steps_stay_on_the_manifold():
    P = random_point(12, 5)
    for seed in range(200):
        G = np.random.RandomState(seed).standard_normal(P.shape)
        P = point_of(stiefel.CayleyCurve(P, G), 10.0 ** (seed % 7 - 3))
    assert np.allclose(P.T @ P, np.eye(5), atol=1e-12)


@given(st.integers(1, 6), st.integers(0, 8), st.floats(1e-3, 10), st.integers(0, 99))
def test_the_curve_equals_the_dense_formula(d, more, tau, seed):
    P = random_point(d + more, d, seed)
    G = np.random.RandomState(seed + 1).standard_normal(P.shape)
    W, identity = G @ P.T - P @ G.T, np.eye(len(P))
    dense = np.linalg.solve(identity + tau / 2 * W, (identity - tau / 2 * W) @ P)
    assert np.allclose(point_of(stiefel.CayleyCurve(P, G), tau), dense, atol=1e-10)


def test_polar_is_the_nearest_point():
    Y = np.random.RandomState(0).standard_normal((8, 3))
    assert np.allclose(stiefel.polar(Y), scipy.linalg.polar(Y)[0])


def test_projection_and_retraction_reach_the_top_eigenvectors_too():
    A = np.diag(np.arange(1.0, 9.0)) / 10
    problem = Plain(lambda P: -np.trace(P.T @ A @ P), lambda P: -2 * A @ P)
    found = stiefel.retract(problem, random_point(8, 2), max_iter=500, tol=1e-12)
    assert len(found.steps) < 500
    assert found.values[-1] == pytest.approx(-1.5, abs=1e-4)
    assert np.allclose(found.P.T @ found.P, np.eye(2), atol=1e-12)


def test_null_steps_are_iterations_without_a_sufficient_decrease():
    A = np.diag(np.arange(1.0, 9.0))

    class Misled(Plain):
        def accept(self, P):
            value, gradient = super().accept(P)
            return value - 100, gradient  # trials are compared with a value that none of them reaches

    plain = Plain(lambda P: -np.trace(P.T @ A @ P), lambda P: -2 * A @ P)
    assert stiefel.minimize(plain, random_point(8, 2), max_iter=3, tol=0).null_steps == 0
    misled = Misled(plain.function, plain.gradient)
    assert stiefel.minimize(misled, random_point(8, 2), max_iter=3, tol=0).null_steps == 3


def test_the_smallest_step_ends_a_line_search_and_the_smallest_move_the_descent():
    """Where the function is so steep that sensible steps are below the smallest one."""
    S = np.diag(np.linspace(1e10, 5e10, 9))
    problem, start = Plain(lambda P: np.sum(P * (S @ P)), lambda P: 2 * S @ P), random_point(9, 2)
    values, steps, _ = authors_search(problem, start, max_iter=200, ftol=0, xtol=1e-2)
    found = stiefel.minimize(problem, start, max_iter=200, tol=0, smallest_step=1e-10, smallest_move=1e-2)
    assert len(found.steps) < 200
    assert 3 < len(found.steps) < 200
    np.testing.assert_allclose(found.steps, steps, rtol=1e-6)
    np.testing.assert_allclose(found.values, values, rtol=1e-6)


@pytest.mark.parametrize("shortest", [0.5, 1e-3, 1e-9])
def test_the_polar_factor_is_orthonormal_and_nearest_whatever_the_condition(shortest):
    random = np.random.RandomState(0)
    left, right = stiefel.random_point(30, 6, random), stiefel.random_point(6, 6, random)
    found = stiefel.polar(left @ np.diag(np.geomspace(1, shortest, 6)) @ right.T)
    assert np.allclose(found.T @ found, np.eye(6), atol=1e-13)
    assert np.allclose(found, left @ right.T, atol=1e-6)
