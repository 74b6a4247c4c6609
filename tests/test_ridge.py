import numpy as np
import pytest
import scipy.linalg

from flrml import FLRML, MFLRML, decompose, draw_triplets, knn_accuracy, ridge
from flrml.ridge import Choice, WhitenedRows, closed_form
from flrml.supervision import Labels, Triplets, pair_matrix


@pytest.fixture(scope="module")
def problem():
    random = np.random.RandomState(0)
    y = np.arange(90) % 3
    X = random.standard_normal((90, 12)) + 0.7 * random.standard_normal((3, 12))[y]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, y, decompose(X)


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


@pytest.mark.parametrize("g", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("local", [0.0, 0.3, 1.0])
def test_the_closed_form_is_the_top_of_the_explicit_matrix(problem, g, local):
    X, y, spectrum = problem
    E = dense_whitened(X, g)
    k, P = scipy.linalg.eigh(E.T @ ((1 - local) * explicit(y) + local * np.eye(90)) @ E)
    whole = closed_form(WhitenedRows(spectrum, g), Labels(y), 12)(local)  # the plane is the whole space
    assert np.allclose(whole.Y @ whole.Y.T, E @ (P * np.maximum(k, 0)) @ P.T @ E.T, atol=1e-8)
    found = closed_form(WhitenedRows(spectrum, g), Labels(y), 7)(local)
    assert np.sum(found.B**2) == pytest.approx(np.maximum(k, 0)[-7:].sum(), rel=0.03)


def test_no_ridge_whitens_and_a_large_one_keeps_the_geometry(problem):
    X, y, _ = problem
    V, sigma, _ = np.linalg.svd(X, full_matrices=False)
    fixed = {"variant": "ridge", "local": 1.0, "rounds": 0}
    whitened = FLRML(5, ridge=1e-12, **fixed).fit(X, y).transform(X)
    assert np.allclose(whitened.T @ whitened, np.eye(5), atol=1e-6)
    own = FLRML(5, ridge=1e12, **fixed).fit(X, y)
    assert np.allclose(cosines(own.transform(X)), cosines(V[:, :5] * sigma[:5] ** 2), atol=1e-6)


def test_rows_held_out_do_not_whiten(problem):
    X, _, spectrum = problem
    rows = WhitenedRows(spectrum, 1.0, (spectrum @ np.eye(12))[:30])
    sigma, U = spectrum.singular_values, spectrum.basis
    gamma = np.mean(sigma**2)
    Z = X[30:] @ U
    B = np.random.RandomState(0).standard_normal((12, 3))
    W = B / np.sqrt(sigma**2 + gamma)[:, None]
    A = Z.T @ Z + gamma * np.eye(12)
    assert np.allclose(rows.inner(B), W.T @ A @ W, atol=1e-8)
    R = np.random.RandomState(1).standard_normal((90, 2))
    half = np.sqrt(sigma**2 + gamma)[:, None]
    assert np.allclose(rows.pull(R), half * np.linalg.solve(A, (X @ U).T @ R), atol=1e-8)


def test_a_round_solves_the_step_in_its_plane(problem):
    X, y, spectrum = problem
    rows, known = WhitenedRows(spectrum, 1.0), Labels(y)
    start = closed_form(rows, known, 6)(0.5)  # with 12 dimensions, the plane of a round is the whole space
    found, hinge = ridge.another_round(rows, known, start, 0.1, np.random.RandomState(0))
    E = dense_whitened(X, 1.0)
    signs = np.sign(np.sum(E * (spectrum @ np.diag(rows.c[:, 0])), axis=0))
    B = signs[:, None] * start.B
    unit = start.Y / np.linalg.norm(start.Y, axis=1, keepdims=True)
    i, j, w, mean = known.active_pairs(unit, 0.1, 1000, np.random.RandomState(0))
    W, G = B @ B.T, E.T @ (pair_matrix(i, j, w, start.Y) @ E)
    k, P = scipy.linalg.eigh(W + ridge.STEP * np.linalg.norm(W) / np.linalg.norm(G) * G)
    k, P = np.maximum(k[:-7:-1], 0), P[:, :-7:-1]
    assert np.allclose(found.Y @ found.Y.T, E @ (P * k) @ P.T @ E.T, atol=1e-6)
    assert hinge == mean > 0


def test_rounds_lower_the_hinge(digits):
    X, y = digits[:2]
    model = FLRML(10, variant="ridge", ridge=1.0, local=0.5, rounds=4, random_state=0).fit(X, y)
    assert model.n_iter_ - 1 == len(model.history_) == 4
    assert model.history_[-1] < model.history_[0]


def test_both_sides_of_the_spectrum_agree(text):
    X, y = text
    wide, tall = X.toarray(), X.toarray()[:, :100]
    for rows in (wide, tall):
        left, right = (
            FLRML(6, variant="ridge", random_state=0).fit(rows, y, spectrum=decompose(rows, method=method))
            for method in ("gram", "randomized")
        )
        assert left.choice_ == right.choice_
        assert np.allclose(cosines(left.transform(rows)), cosines(right.transform(rows)), atol=1e-5)


def test_the_search_stays_in_what_is_given(problem):
    X, y, _ = problem
    free = FLRML(5, variant="ridge", random_state=0).fit(X, y)
    assert free.choice_ is free.search_[0]
    assert free.choice_.score == max(choice.score for choice in free.search_)
    given = FLRML(5, variant="ridge", ridge=3.0, local=0.2, random_state=0).fit(X, y)
    assert {(choice.ridge, choice.local) for choice in given.search_} == {(3.0, 0.2)}
    fixed = FLRML(5, variant="ridge", ridge=3.0, local=0.2, rounds=2, random_state=0).fit(X, y)
    assert fixed.search_ == [fixed.choice_]
    assert fixed.choice_.rounds == fixed.n_iter_ - 1 == 2
    assert FLRML(5, variant="ridge", rounds=1, random_state=0).fit(X, y).n_iter_ == 2


def test_few_rows_are_learned_from_without_a_search():
    X = np.random.RandomState(0).standard_normal((4, 6))
    model = FLRML(2, variant="ridge").fit(X, [0, 0, 1, 1])
    assert np.isnan(model.choice_.score)
    assert np.isfinite(model.components_).all()


def test_more_rows_than_are_worked_on(monkeypatch, digits):
    X, y, X_test, y_test = digits
    for name, value in (("WORKING_ROWS", 300), ("ANCHORS", 100), ("MOST_HELD_OUT", 150)):
        monkeypatch.setattr(ridge, name, value)
    model = FLRML(20, variant="ridge", rounds=2, random_state=0).fit(X, y)
    assert knn_accuracy(model.transform(X), y, model.transform(X_test), y_test) > 0.93


def test_groups_change_what_is_chosen():
    """Every object is seen from 8 sides; without groups, validation finds the object itself and likes noise."""
    random = np.random.RandomState(0)
    objects = random.standard_normal((60, 40))
    y = np.arange(60) % 2
    objects[:, 0] += 2 * y - 1
    groups = np.repeat(np.arange(60), 8)
    X = objects[groups] + 0.1 * random.standard_normal((480, 40))
    alone = FLRML(10, variant="ridge", random_state=0).fit(X, y[groups])
    together = FLRML(10, variant="ridge", random_state=0).fit(X, y[groups], groups=groups)
    assert alone.choice_.score > 0.99
    assert together.choice_.score < alone.choice_.score
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        FLRML(variant="ridge").fit(X, y[groups], groups=groups[:-1])
    with pytest.raises(ValueError, match="outside its group"):
        FLRML(variant="ridge").fit(X, y[groups], groups=y[groups])


def test_triplets_teach_as_labels_do(digits):
    X, y, X_test, y_test = digits
    model = FLRML(20, variant="ridge", random_state=0).fit(X, triplets=draw_triplets(y, 20, 0))
    assert knn_accuracy(model.transform(X), y, model.transform(X_test), y_test) > 0.9
    assert 0.8 < model.choice_.score <= 1


def test_the_order_of_rows_does_not_matter(problem):
    X, y, _ = problem
    order = np.random.RandomState(1).permutation(90)
    fixed = {"variant": "ridge", "ridge": 1.0, "local": 0.3, "rounds": 2}
    first, second = FLRML(5, **fixed).fit(X, y), FLRML(5, **fixed).fit(X[order], y[order])
    assert np.allclose(first.get_mahalanobis_matrix(), second.get_mahalanobis_matrix(), atol=1e-6)


def test_a_held_row_that_stands_alone_does_not_break_the_search():
    X = np.vstack((np.eye(20), np.eye(20)[:, ::-1])).astype(np.float32)
    y = np.arange(40) % 2
    assert np.isfinite(FLRML(5, variant="ridge", random_state=0).fit(X, y).components_).all()


@pytest.mark.parametrize("bad", [{"ridge": 0}, {"ridge": "best"}, {"local": 1.5}, {"rounds": -1}])
def test_parameters_out_of_range_are_named(problem, bad):
    X, y, _ = problem
    with pytest.raises(ValueError, match=next(iter(bad))):
        FLRML(variant="ridge", **bad).fit(X, y)


def test_choices_can_be_compared_and_shown():
    assert Choice(1.0, 0.5, 2) != Choice(1.0, 0.5, 1)
    assert "ridge=1.0" in repr(Choice(1.0, 0.5, 2))


def test_triplets_alone_have_no_labels():
    assert not hasattr(Triplets(np.array([[0, 1, 2]]), 3), "label")


def test_a_batch_step_moves_along_the_hinge():
    random = np.random.RandomState(0)
    X, y = random.standard_normal((40, 8)), np.arange(40) % 2
    Y, known = X @ random.standard_normal((8, 3)), Labels(y)
    step = ridge.batch_step(X @ X.T, known, Y, 1.0, 0.1, np.random.RandomState(0))
    moved = Y + X @ (X.T @ step.C)
    assert np.linalg.norm(moved - Y) == pytest.approx(ridge.BATCH_STEP * np.linalg.norm(Y))
    after = known.active_pairs(ridge.unit_rows(moved), 0.1, 40, np.random.RandomState(0))[-1]
    assert after < step.hinge
    far = ridge.batch_step(X @ X.T, known, np.eye(2)[y] + 0.0, 1.0, 0.1, np.random.RandomState(0))
    assert not far.C.any()


def test_the_first_mini_batch_is_solved_as_a_whole(digits):
    X, y = digits[:2]
    whole = FLRML(8, variant="ridge", ridge=1.0, local=0.5, rounds=1, random_state=0).fit(X, y)
    first = MFLRML(8, variant="ridge", ridge=1.0, local=0.5, rounds=1, n_batches=1, random_state=0).fit(X, y)
    assert np.allclose(whole.get_mahalanobis_matrix(), first.get_mahalanobis_matrix(), atol=1e-8)
    assert first.choice_ == whole.choice_


def test_mini_batches_of_many_rows(monkeypatch, digits):
    X, y, X_test, y_test = digits
    monkeypatch.setattr(ridge, "START_ROWS", 400)
    model = MFLRML(20, variant="ridge", random_state=0).fit(X, y)
    assert model.n_iter_ == len(model.history_) == 20
    assert knn_accuracy(model.transform(X), y, model.transform(X_test), y_test) > 0.9
