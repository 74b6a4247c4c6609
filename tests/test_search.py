from dataclasses import replace

import numpy as np
import pytest

from flrml import FLRML, knn_accuracy, ridge, search
from flrml.ridge import Choice
from flrml.search import Candidates
from flrml.supervision import Labels


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


def test_a_held_row_that_stands_alone_does_not_break_the_search():
    X = np.vstack((np.eye(20), np.eye(20)[:, ::-1])).astype(np.float32)
    y = np.arange(40) % 2
    assert np.isfinite(FLRML(5, variant="ridge", random_state=0).fit(X, y).components_).all()


def test_choices_can_be_compared_and_shown():
    assert Choice(1.0, 0.0, 0.5, 2) != Choice(1.0, 0.0, 0.5, 1)
    assert "within=0.9" in repr(Choice(1.0, 0.9, 0.5, 2))
