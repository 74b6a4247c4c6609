import numpy as np
import pytest
import scipy.linalg

from flrml import RidgeFLRML, RidgeMFLRML, decompose, draw_triplets, knn_accuracy
from flrml.ridge import plane as solver
from flrml.ridge.plane import Plane, WhitenedRows, rows_of
from flrml.ridge.supervision import Labels, Triplets, pair_product, unit_rows


def dense_whitened(X, g):
    V, sigma, _ = np.linalg.svd(X, full_matrices=False)
    return V * (sigma / np.sqrt(sigma**2 + g * np.mean(sigma**2)))


def explicit(label):
    """½ (A + Aᵀ) of the expectation."""
    same = label[:, None] == label
    A = (same & ~np.eye(len(label), dtype=bool)) / (same.sum(axis=1) - 1)[:, None] - ~same / (~same).sum(axis=1)
    return (A + A.T) / 2


def cosines(Y):
    Y = Y / np.linalg.norm(Y, axis=1, keepdims=True)
    return Y @ Y.T


def between(E, y):
    """Σ_c n_c μ_c μ_cᵀ."""
    return sum(np.sum(y == c) * np.outer(mean, mean) for c in set(y) for mean in [E[y == c].mean(axis=0)])


@pytest.mark.parametrize("g", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("within", [0.0, 0.9])
@pytest.mark.parametrize("local", [0.0, 0.3, 1.0])
def test_the_closed_form_is_the_top_of_the_explicit_matrix(problem, g, within, local):
    X, y, spectrum = problem
    E = dense_whitened(X, g)
    scatter = np.eye(12) - within * between(E, y)
    k, P = scipy.linalg.eigh(E.T @ ((1 - local) * explicit(y) + local * np.eye(90)) @ E, scatter)

    def weights_and_embeddings(d):
        plane = Plane(WhitenedRows(spectrum, g), Labels(y), d)
        B = plane.solve(plane.whitening(within), local)
        return np.trace(B.T @ (plane._total - within * plane._between) @ B), plane.images @ B

    weight, Y = weights_and_embeddings(12)  # the plane is the whole space
    assert weight == pytest.approx(np.maximum(k, 0).sum())
    assert np.allclose(Y @ Y.T, E @ (P * np.maximum(k, 0)) @ P.T @ E.T, atol=1e-8)
    assert weights_and_embeddings(7)[0] == pytest.approx(np.maximum(k, 0)[-7:].sum(), rel=0.03)


def test_the_scatter_within_classes_whitens_where_all_of_that_between_them_is_left_out(problem):
    _, y, spectrum = problem
    plane = Plane(WhitenedRows(spectrum, 1e-9), Labels(y), 12)
    rows = plane.images @ plane.whitening(1.0)
    for c in range(3):
        rows[y == c] -= rows[y == c].mean(axis=0)
    assert np.allclose(rows.T @ rows, np.eye(12), atol=1e-6)


def test_no_ridge_whitens_and_a_large_one_keeps_the_geometry(problem):
    X, y, _ = problem
    V, sigma, _ = np.linalg.svd(X, full_matrices=False)
    fixed = {"within": 0.0, "local": 1.0, "rounds": 0}
    whitened = RidgeFLRML(5, ridge=1e-12, **fixed).fit(X, y).transform(X)
    assert np.allclose(whitened.T @ whitened, np.eye(5), atol=1e-6)
    own = RidgeFLRML(5, ridge=1e12, **fixed).fit(X, y)
    assert np.allclose(cosines(own.transform(X)), cosines(V[:, :5] * sigma[:5] ** 2), atol=1e-6)


def test_rows_held_out_do_not_whiten(problem):
    X, y, spectrum = problem
    sigma, U = spectrum.singular_values, spectrum.basis
    gamma = np.mean(sigma**2)
    rest = np.arange(30, 90)
    rows = WhitenedRows(rows_of(spectrum, rest), 1.0, (spectrum @ np.eye(12))[:30])
    Z = X[rest] @ U
    half, A = np.sqrt(sigma**2 + gamma)[:, None], Z.T @ Z + gamma * np.eye(12)
    R = np.random.RandomState(1).standard_normal((60, 2))
    assert np.allclose(rows.pull(R), half * np.linalg.solve(A, Z.T @ R), atol=1e-8)
    plane = Plane(rows, Labels(y[rest]), 5)
    T = plane.directions @ plane.whitening(0.0) / half
    assert np.allclose(T.T @ A @ T, np.eye(T.shape[1]), atol=1e-8)


def test_a_sample_of_the_rows_whitens_as_all_of_them_do(problem):
    """Every row is there twice, so that one half is a perfect sample."""
    X, y, _ = problem
    spectrum = decompose(np.vstack((X, X)))
    whole = Plane(WhitenedRows(spectrum, 1.0), Labels(np.tile(y, 2)), 12)
    half = Plane(WhitenedRows(rows_of(spectrum, np.arange(90)), 1.0, n=180), Labels(y), 12)
    for plane in (whole, half):
        T = plane.directions @ plane.whitening(0.5)
        plane.metric = T @ T.T
    assert np.allclose(whole.metric, half.metric, atol=1e-8)


@pytest.mark.parametrize("within", [0.0, 0.9])
def test_a_round_is_a_step_along_the_gradient_of_the_hinge(problem, within):
    X, y, spectrum = problem
    plane = Plane(WhitenedRows(spectrum, 1.0), Labels(y), 12)
    T = plane.whitening(within)
    B = plane.solve(T, 0.5)
    found, hinge = plane.another_round(T, B, 4, 0.1, np.random.RandomState(0))  # all 90 rows are drawn
    E = dense_whitened(X, 1.0)
    E *= np.sign(np.sum(E * (spectrum @ np.eye(12)), axis=0))
    full = plane.directions @ B
    i, j, w, mean = Labels(y).active_pairs((E @ full) / np.linalg.norm(E @ full, axis=1, keepdims=True), 0.1)
    T_pairs = pair_product(i, j, w, E @ full, np.eye(90))
    G = np.linalg.solve(np.eye(12) - within * between(E, y), E.T @ T_pairs @ E @ full)
    G *= solver.STEP / 2 * np.linalg.norm(E @ full) / np.linalg.norm(E @ G)
    assert np.allclose(plane.directions @ found, full + G, atol=1e-7)
    assert hinge == pytest.approx(mean)
    assert mean > 0


def test_a_round_draws_a_share_of_the_rows_within_bounds():
    assert [solver.default_round_rows(n) for n in (10, 12_000, 36_000, 10**6)] == [1000, 1000, 3000, 5000]


def test_rounds_lower_the_hinge(digits):
    X, y = digits[:2]
    model = RidgeFLRML(10, ridge=1.0, within=0.0, local=0.5, rounds=4, random_state=0).fit(X, y)
    assert model.n_iter_ - 1 == len(model.history_) == 4
    assert model.history_[-1] < model.history_[0]


def test_both_sides_of_the_spectrum_agree(text):
    X, y = text
    wide, tall = X.toarray(), X.toarray()[:, :100]
    for rows in (wide, tall):
        left, right = (
            RidgeFLRML(6, random_state=0).fit(rows, y, spectrum=decompose(rows, method=method))
            for method in ("gram", "randomized")
        )
        assert (left.ridge_, left.local_, left.n_rounds_) == (right.ridge_, right.local_, right.n_rounds_)
        assert np.allclose(cosines(left.transform(rows)), cosines(right.transform(rows)), atol=1e-5)


def test_triplets_teach_as_labels_do(digits):
    X, y, X_test, y_test = digits
    model = RidgeFLRML(20, random_state=0).fit(X, triplets=draw_triplets(y, 20, 0))
    assert knn_accuracy(model.transform(X), y, model.transform(X_test), y_test) > 0.9
    assert 0.8 < model.best_score_ <= 1


def test_the_order_of_rows_does_not_matter(problem):
    X, y, _ = problem
    order = np.random.RandomState(1).permutation(90)
    fixed = {"ridge": 1.0, "within": 0.5, "local": 0.3, "rounds": 2}
    first, second = RidgeFLRML(5, **fixed).fit(X, y), RidgeFLRML(5, **fixed).fit(X[order], y[order])
    assert np.allclose(first.get_mahalanobis_matrix(), second.get_mahalanobis_matrix(), atol=1e-6)


@pytest.mark.parametrize("bad", [{"ridge": 0}, {"ridge": "best"}, {"within": -0.1}, {"local": 1.5}, {"rounds": -1}])
def test_parameters_out_of_range_are_named(problem, bad):
    X, y, _ = problem
    with pytest.raises(ValueError, match=next(iter(bad))):
        RidgeFLRML(**bad).fit(X, y)


def test_triplets_alone_have_no_labels():
    assert not hasattr(Triplets(np.array([[0, 1, 2]]), 3), "label")


def test_a_batch_step_moves_along_the_hinge():
    random = np.random.RandomState(0)
    X, y = random.standard_normal((40, 8)), np.arange(40) % 2
    Y, supervision = X @ random.standard_normal((8, 3)), Labels(y)
    step = solver.batch_step(X @ X.T, supervision, Y, 1.0, 0.1)
    moved = Y + X @ (X.T @ step.C)
    assert np.linalg.norm(moved - Y) == pytest.approx(solver.BATCH_STEP * np.linalg.norm(Y))
    after = supervision.active_pairs(unit_rows(moved), 0.1)[-1]
    assert after < step.hinge
    far = solver.batch_step(X @ X.T, supervision, np.eye(2)[y] + 0.0, 1.0, 0.1)
    assert not far.C.any()


def test_the_first_mini_batch_is_solved_as_a_whole(digits):
    X, y = (part[:900] for part in digits[:2])  # so few that a round draws all of them
    given = {"ridge": 1.0, "within": 0.5, "local": 0.5, "rounds": 1}
    whole = RidgeFLRML(8, **given, random_state=0).fit(X, y)
    first = RidgeMFLRML(8, **given, n_batches=1, random_state=0).fit(X, y)
    assert np.allclose(whole.get_mahalanobis_matrix(), first.get_mahalanobis_matrix(), atol=1e-8)
    assert (first.ridge_, first.n_rounds_) == (whole.ridge_, whole.n_rounds_) == (1.0, 1)


def test_mini_batches_of_many_rows(digits):
    X, y, X_test, y_test = digits
    model = RidgeMFLRML(20, start_rows=400, random_state=0).fit(X, y)
    assert model.n_iter_ == len(model.history_) == 20
    assert knn_accuracy(model.transform(X), y, model.transform(X_test), y_test) > 0.9
