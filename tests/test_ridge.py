from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg

from flrml import FLRML, MFLRML, decompose, draw_triplets, knn_accuracy, ridge, search
from flrml.ridge import Choice, Plane, WhitenedRows, rows_of
from flrml.search import Candidates
from flrml.supervision import Labels, Triplets, pair_product


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
    fixed = {"variant": "ridge", "within": 0.0, "local": 1.0, "rounds": 0}
    whitened = FLRML(5, ridge=1e-12, **fixed).fit(X, y).transform(X)
    assert np.allclose(whitened.T @ whitened, np.eye(5), atol=1e-6)
    own = FLRML(5, ridge=1e12, **fixed).fit(X, y)
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
    G *= ridge.STEP / 2 * np.linalg.norm(E @ full) / np.linalg.norm(E @ G)
    assert np.allclose(plane.directions @ found, full + G, atol=1e-7)
    assert hinge == pytest.approx(mean)
    assert mean > 0


def test_a_round_draws_a_share_of_the_rows_within_bounds():
    assert [ridge.round_rows(n) for n in (10, 12_000, 36_000, 10**6)] == [1000, 1000, 3000, 5000]


def test_rounds_lower_the_hinge(digits):
    X, y = digits[:2]
    model = FLRML(10, variant="ridge", ridge=1.0, within=0.0, local=0.5, rounds=4, random_state=0).fit(X, y)
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

    def fit(**given):
        return FLRML(5, variant="ridge", random_state=0, **given).fit(X, y)

    free = fit()
    assert free.choice_ is free.search_[0]
    assert {(choice.within, choice.local) for choice in free.search_} == set(search.FORMS)
    given = fit(ridge=3.0, local=0.2)
    assert {(choice.ridge, choice.within, choice.local) for choice in given.search_} == {
        (3.0, 0.0, 0.2),
        (3.0, 0.9, 0.2),
        (3.0, 1.0, 0.2),
    }
    fixed = fit(ridge=3.0, within=0.5, local=0.2, rounds=2)
    assert fixed.search_ == [fixed.choice_]
    assert fixed.choice_.rounds == fixed.n_iter_ - 1 == 2
    for rounds in (0, 1):
        assert {choice.rounds for choice in fit(rounds=rounds).search_} == {rounds}


def test_without_labels_there_must_be_rounds(problem):
    X, y, _ = problem
    tried = FLRML(5, variant="ridge", within=0.0, local=1.0, random_state=0).fit(X, y).search_
    assert {choice.rounds for choice in tried} == {search.ROUNDS}


@pytest.mark.parametrize("few_rows", [0, 2000])
def test_every_score_is_that_of_fits_without_the_rows_held_out(monkeypatch, digits, few_rows):
    """With one ridge and one form; the leading directions are those of all rows, hence not quite the same."""
    X, y = digits[:2]
    monkeypatch.setattr(search, "FEW_ROWS", few_rows)
    parts = search.folds(Labels(y), np.random.RandomState(0))
    assert len(parts) == (search.FOLDS if few_rows else 1)
    given = {"variant": "ridge", "ridge": 0.1, "within": 0.9, "local": 0.1}
    found = FLRML(10, **given, random_state=0).fit(X, y).search_
    correct = 0.0
    for rows, held in parts:
        alone = FLRML(10, **given, rounds=0).fit(X[rows], y[rows])
        correct += len(held) * knn_accuracy(alone.transform(X[rows]), y[rows], alone.transform(X[held]), y[held])
    expected = correct / sum(len(held) for _, held in parts)
    assert next(choice.score for choice in found if choice.rounds == 0) == pytest.approx(expected, abs=0.002)


@pytest.mark.parametrize("n", [15, 22, 37])
def test_perfect_scores_are_one_and_favour_the_own_geometry(n):
    """Whatever the sizes of the folds, so that the standard error is zero and not undefined."""
    y = np.arange(n) % 3
    X = 5 * np.eye(3)[y] + 0.01 * np.random.RandomState(n).randn(n, 3)
    tried = FLRML(3, variant="ridge", random_state=0).fit(X, y).search_
    assert (tried[0].score, tried[0].local) == (1, 1)


def test_folds_without_a_triplet_do_not_count():
    y = np.arange(300) % 3
    X = 5 * np.eye(3)[y] + 0.01 * np.random.RandomState(0).randn(300, 3)
    T = np.array([[0, 3, 1], [4, 7, 2], [5, 8, 0]])
    assert FLRML(2, variant="ridge", random_state=0).fit(X, triplets=T).choice_.score == 1


def test_the_climb_ends_where_scores_fall():
    def climb(scores, enough=0.0, caution=0.0, error=0.0):
        asked = []

        def attempt(ridge):
            asked.append(ridge)
            return search.Trial(Choice(ridge, 0.0, 1.0, score=scores[ridge]), [])

        found = search._climb(attempt, sorted(scores), enough, lambda _: caution, lambda _: error)
        return found.choice.ridge, asked

    assert climb({1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4, 5: 0.35}) == (4, [3, 4, 5])
    assert climb({1: 0.1, 2: 0.4, 3: 0.3, 4: 0.2, 5: 0.9}) == (2, [3, 4, 2, 1])
    assert climb({1: 0.5, 2: 0.2, 3: 0.3, 4: 0.3, 5: 0.3})[0] == 5  # of equal ones the largest
    assert climb({7: 0.5}) == (7, [7])
    assert climb({1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4, 5: 0.35}, enough=0.31) == (3, [3])
    assert climb({1: 0.1, 2: 0.2, 3: 0.3, 4: 0.34, 5: 0.2}, caution=0.05) == (3, [3, 4, 2])
    assert climb({1: 0.5, 2: 0.32, 3: 0.3, 4: 0.1, 5: 0.2}, caution=0.05) == (3, [3, 4, 2])
    guesses = {1: 0.9, 2: 0.5, 3: 0.3, 4: 0.31, 5: 0.29}
    assert climb(guesses) == (4, [3, 4, 5])
    assert climb(guesses, error=0.02) == (1, [3, 4, 5, 2, 1])  # what larger ones gain may be chance


def test_rounds_start_from_the_own_geometry_unless_another_start_is_given(digits):
    def with_rounds(X, y, **given):
        tried = FLRML(10, variant="ridge", random_state=0, **given).fit(X, y).search_
        return {choice.local for choice in tried if choice.rounds}

    assert with_rounds(*digits[:2]) == {1.0}
    assert with_rounds(*digits[:2], local=0.1) == {0.1}


def test_rounds_are_not_tried_where_the_closed_form_is_far_behind():
    """Classes differ in directions of small variance, which the data's own geometry does not see."""
    random, y = np.random.RandomState(0), np.arange(600) % 3
    X = np.hstack((random.randn(600, 60), 0.3 * np.eye(3)[y]))
    tried = FLRML(10, variant="ridge", random_state=0).fit(X, y).search_
    assert tried[0].local == 0.1
    assert {choice.rounds for choice in tried} == {0}


def test_rounds_are_tried_only_where_they_decide(monkeypatch, digits):
    """On digits the closed form of the data's own geometry is ahead of discriminants already."""
    X, y = digits[:2]
    monkeypatch.setattr(search, "FEW_ROWS", 0)
    made = []
    monkeypatch.setattr(ridge.Plane, "rounds", lambda plane, T, B, number, *_: (made.append(number) or B, []))

    def fit(**given):
        made.clear()
        return FLRML(30, variant="ridge", random_state=0, **given).fit(X, y)

    found = fit().choice_
    assert (found.local, found.rounds, made) == (1.0, search.ROUNDS, [search.ROUNDS])  # the fit's own
    assert replace(found, rounds=0) in fit(rounds=0).search_
    monkeypatch.setattr(search, "_wins", lambda *_: False)
    fit()
    assert made == [search.ROUNDS] * 2


def test_what_wins_without_rounds():
    best = Choice(1.0, 0.9, 0.1, score=0.8)
    assert search._wins(Choice(1.0, 0.0, 1.0, score=0.77), best, spare=0.04)
    assert not search._wins(Choice(1.0, 0.0, 1.0, score=0.75), best, spare=0.04)


def test_the_own_geometry_wins_where_the_difference_is_chance():
    own, discriminants = Choice(1.0, 0.0, 1.0, 10, 0.90), Choice(1.0, 0.9, 0.1, 0, 0.91)
    assert search._rank(own, 0.02) > search._rank(discriminants, 0.02)
    assert search._rank(own, 0.005) < search._rank(discriminants, 0.005)
    own, discriminants = Choice(1.0, 0.0, 1.0, 10, 1.0), Choice(30.0, 0.9, 0.1, 0, 1.0)
    assert search._rank(own) > search._rank(discriminants)


@pytest.mark.parametrize("few_rows", [0, 2000])
def test_with_enough_caution_the_own_geometry_wins(monkeypatch, few_rows):
    random, y = np.random.RandomState(0), np.arange(300) % 3
    X = np.hstack((random.randn(300, 5), np.eye(3)[y] + 0.3 * random.randn(300, 3)))
    monkeypatch.setattr(search, "FEW_ROWS", few_rows)
    found = []
    for patience in (0.0, 100.0):
        monkeypatch.setattr(search, "CAUTION", patience)
        found.append(FLRML(5, variant="ridge", random_state=0).fit(X, y).choice_.local)
    assert found == [0.1, 1.0]


def test_open_choices_are_paired_with_what_is_given():
    assert Candidates.of(FLRML()) == Candidates()
    assert Candidates.of(FLRML(ridge=2, within=0.3, rounds=4)) == Candidates((2.0,), ((0.3, 0.1), (0.3, 1.0)), 4)


def test_very_few_rows_are_learned_from():
    X = np.random.RandomState(0).standard_normal((4, 6))
    searched = FLRML(2, variant="ridge", random_state=0).fit(X, [0, 0, 1, 1])
    assert 0 <= searched.choice_.score <= 1
    alone = FLRML(2, variant="ridge").fit(X, triplets=[[0, 1, 2]], groups=[0, 0, 0, 0])  # nothing to hold out
    assert np.isnan(alone.choice_.score)
    assert np.isfinite(np.vstack((searched.components_, alone.components_))).all()


def test_more_rows_than_are_worked_on(monkeypatch, digits):
    X, y, X_test, y_test = digits
    for module, name, value in (
        (search, "WORKING_ROWS", 300),
        (search, "MOST_HELD_OUT", 150),
        (ridge, "ROUND_ROWS", 200),
    ):
        monkeypatch.setattr(module, name, value)
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
    fixed = {"variant": "ridge", "ridge": 1.0, "within": 0.5, "local": 0.3, "rounds": 2}
    first, second = FLRML(5, **fixed).fit(X, y), FLRML(5, **fixed).fit(X[order], y[order])
    assert np.allclose(first.get_mahalanobis_matrix(), second.get_mahalanobis_matrix(), atol=1e-6)


def test_a_held_row_that_stands_alone_does_not_break_the_search():
    X = np.vstack((np.eye(20), np.eye(20)[:, ::-1])).astype(np.float32)
    y = np.arange(40) % 2
    assert np.isfinite(FLRML(5, variant="ridge", random_state=0).fit(X, y).components_).all()


@pytest.mark.parametrize("bad", [{"ridge": 0}, {"ridge": "best"}, {"within": -0.1}, {"local": 1.5}, {"rounds": -1}])
def test_parameters_out_of_range_are_named(problem, bad):
    X, y, _ = problem
    with pytest.raises(ValueError, match=next(iter(bad))):
        FLRML(variant="ridge", **bad).fit(X, y)


def test_choices_can_be_compared_and_shown():
    assert Choice(1.0, 0.0, 0.5, 2) != Choice(1.0, 0.0, 0.5, 1)
    assert "within=0.9" in repr(Choice(1.0, 0.9, 0.5, 2))


def test_triplets_alone_have_no_labels():
    assert not hasattr(Triplets(np.array([[0, 1, 2]]), 3), "label")


def test_a_batch_step_moves_along_the_hinge():
    random = np.random.RandomState(0)
    X, y = random.standard_normal((40, 8)), np.arange(40) % 2
    Y, known = X @ random.standard_normal((8, 3)), Labels(y)
    step = ridge.batch_step(X @ X.T, known, Y, 1.0, 0.1)
    moved = Y + X @ (X.T @ step.C)
    assert np.linalg.norm(moved - Y) == pytest.approx(ridge.BATCH_STEP * np.linalg.norm(Y))
    after = known.active_pairs(ridge.unit_rows(moved), 0.1)[-1]
    assert after < step.hinge
    far = ridge.batch_step(X @ X.T, known, np.eye(2)[y] + 0.0, 1.0, 0.1)
    assert not far.C.any()


def test_the_first_mini_batch_is_solved_as_a_whole(monkeypatch, digits):
    X, y = digits[:2]
    monkeypatch.setattr(ridge, "ROUND_ROWS", len(X))  # nothing is drawn
    given = {"variant": "ridge", "ridge": 1.0, "within": 0.5, "local": 0.5, "rounds": 1}
    whole = FLRML(8, **given, random_state=0).fit(X, y)
    first = MFLRML(8, **given, n_batches=1, random_state=0).fit(X, y)
    assert np.allclose(whole.get_mahalanobis_matrix(), first.get_mahalanobis_matrix(), atol=1e-8)
    assert first.choice_ == whole.choice_


def test_mini_batches_of_many_rows(monkeypatch, digits):
    X, y, X_test, y_test = digits
    monkeypatch.setattr(ridge, "START_ROWS", 400)
    model = MFLRML(20, variant="ridge", random_state=0).fit(X, y)
    assert model.n_iter_ == len(model.history_) == 20
    assert knn_accuracy(model.transform(X), y, model.transform(X_test), y_test) > 0.9
