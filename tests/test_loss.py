import numpy as np
import pytest

from flrml import decompose, stiefel
from flrml.loss import LossRows, MarginLoss, objective, slope, softplus
from flrml.triplets import contrast_matrix, draw_triplets
from tests.literal import LiteralLoss, z_by_loops


def problem(n=40, n_features=15, d=4, seed=0, dtype=np.float64, kind=MarginLoss, **options):
    random = np.random.RandomState(seed)
    X = random.standard_normal((n, n_features))
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(dtype)
    T = draw_triplets(np.arange(n) % 3, 5, seed)
    contrasts = contrast_matrix(T, n, dtype)
    loss = kind(LossRows(decompose(X), contrasts), random=random, **options)
    P = stiefel.random_point(loss.rows.rank, d, random)
    loss.start(loss.image(P))
    return loss, P, T


def literal(loss):
    V = loss.rows.spectrum @ np.eye(loss.rows.rank, dtype=loss.rows.dtype)
    return LiteralLoss(V, loss.rows.contrasts, loss.margin, loss.active.copy())


shapes = pytest.mark.parametrize(("n", "n_features"), [(40, 15), (20, 50)], ids=["tall", "wide"])


@shapes
@pytest.mark.parametrize("margin_ratio", [0.01, 1.0])
def test_value_and_gradient_equal_the_literal_ones(n, n_features, margin_ratio):
    loss, P, _ = problem(n, n_features, margin_ratio=margin_ratio)
    oracle = literal(loss)
    assert loss.value(loss.image(P)) == pytest.approx(oracle.value(P), rel=1e-12)
    (value, gradient), (expected_value, expected_gradient) = loss.accept(loss.image(P)), oracle.accept(P)
    assert value == pytest.approx(expected_value, rel=1e-12)
    assert np.allclose(gradient(), expected_gradient(), atol=1e-10)
    assert np.allclose(loss.s, oracle.s, atol=1e-10)
    assert np.array_equal(loss.active, oracle.active)


@shapes
def test_the_whole_descent_equals_the_literal_one(n, n_features):
    loss, P, _ = problem(n, n_features)
    oracle = literal(loss)
    fast = stiefel.minimize(loss, P, max_iter=30, tol=0)
    slow = stiefel.minimize(oracle, P, max_iter=30, tol=0)
    assert np.allclose(fast.values, slow.values, rtol=1e-8)
    assert np.allclose(fast.P.T @ fast.P, np.eye(4), atol=1e-8)


def test_the_gradient_equals_finite_differences():
    loss, P, _ = problem()
    loss.accept(loss.image(P))
    _, gradient = loss.accept(loss.image(P))
    random = np.random.RandomState(5)
    for _ in range(5):
        direction = random.standard_normal(P.shape)
        step = 1e-6
        ahead, behind = (loss.value(loss.image(P + sign * step * direction)) for sign in (1, -1))
        assert np.sum(gradient() * direction) == pytest.approx((ahead - behind) / (2 * step), rel=1e-5, abs=1e-8)


def test_the_slope_is_the_derivative_of_the_objective():
    k, step = np.linspace(-3, 3, 13), 1e-6
    for a in range(len(k)):
        shift = step * (np.arange(len(k)) == a)
        difference = (objective(k + shift, 0.1, 3) - objective(k - shift, 0.1, 3)) / (2 * step)
        assert slope(k)[a] == pytest.approx(difference, abs=1e-7)


def test_values_along_a_curve_equal_values_at_its_points():
    loss, P, _ = problem()
    E, EQ = loss.image(P), loss.image(np.random.RandomState(1).standard_normal(P.shape))
    along, random = loss.along(E, EQ), np.random.RandomState(2)
    for _ in range(3):
        a, b = random.standard_normal((2, 4, 4))
        assert along(a, b) == pytest.approx(loss.value(loss.combine(E, a, EQ, b)), rel=1e-12)


def test_z_equals_a_loop_over_triplets():
    loss, P, T = problem()
    E = loss.image(P)
    z = z_by_loops(E.E * np.sqrt(loss.s), T)
    assert np.allclose(-(E.Z @ loss.s), z)
    assert loss.margin > 0
    assert np.array_equal(loss.active, z + loss.margin > 0)
    assert loss.hinge == pytest.approx(np.maximum(z + loss.margin, 0).sum())
    assert loss.n_active == np.sum(z + loss.margin > 0)


def test_the_start_is_a_fixed_point_of_the_weights():
    loss, P, _ = problem()
    E = loss.image(P).E
    Z = E * (loss.rows.contrasts @ E)
    assert np.allclose(loss.s, softplus(loss.active @ Z), rtol=0.05)


def test_many_iterations_reach_the_closed_form_for_a_fixed_active_set():
    loss, P, _ = problem(60, 12, d=3, margin_ratio=1e6)  # so large a margin keeps every sample active
    found = stiefel.minimize(loss, P, max_iter=3000, tol=1e-15)
    oracle = literal(loss)
    _, vectors = np.linalg.eigh(-(oracle.K + oracle.K.T) / 2)
    best = oracle.value(vectors[:, -3:])
    margins = loss.margin * len(oracle.V)
    assert found.values[-1] - margins == pytest.approx(best - margins, rel=1e-6)
    assert np.allclose(np.linalg.svd(vectors[:, -3:].T @ found.P)[1], 1, atol=1e-4)


def test_softplus_is_smooth_and_does_not_overflow():
    assert np.allclose(softplus(np.array([-1000.0, 0.0, 1000.0])), [0, np.log(2), 1000])
