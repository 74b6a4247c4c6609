import numpy as np
import pytest

from flrml import RidgeFLRML, decompose, knn_accuracy
from flrml.ridge import selection
from flrml.ridge.plane import Choice, Form
from flrml.ridge.selection import Candidates, Effort, choose
from flrml.ridge.supervision import Labels

EVERYTHING = Candidates()
OWN, DISCRIMINANTS = Form(0.0, 1.0), Form(0.9, 0.1)


def tried(model):
    """What a fit tried, as rows (ridge, within, local, rounds)."""
    return list(
        zip(*(model.cv_results_[key].tolist() for key in ("ridge", "within", "local", "rounds")), strict=True)
    )


def search(X, y, d=10, candidates=EVERYTHING, **effort):
    supervision, random = Labels(np.unique(y, return_inverse=True)[1]), np.random.RandomState(0)
    return choose(decompose(X), supervision, d, 0.1, random, candidates, effort=Effort(**effort))


def test_the_choice_stays_in_what_is_given(problem):
    X, y, _ = problem

    def fit(**given):
        return RidgeFLRML(5, random_state=0, **given).fit(X, y)

    free = fit()
    assert tried(free)[0] == (free.ridge_, free.within_, free.local_, free.n_rounds_)
    assert free.cv_results_["score"][0] == free.best_score_
    assert {Form(*row[1:3]) for row in tried(free)} == set(selection.FORMS)
    given = fit(ridge=3.0, local=0.2)
    assert {row[:3] for row in tried(given)} == {(3.0, 0.0, 0.2), (3.0, 0.9, 0.2), (3.0, 1.0, 0.2)}
    fixed = fit(ridge=3.0, within=0.5, local=0.2, rounds=2)
    assert tried(fixed) == [(3.0, 0.5, 0.2, 2)]
    assert fixed.n_rounds_ == fixed.n_iter_ - 1 == 2
    for rounds in (0, 1):
        assert {row[3] for row in tried(fit(rounds=rounds))} == {rounds}


def test_without_labels_there_must_be_rounds(problem):
    X, y, _ = problem
    model = RidgeFLRML(5, within=0.0, local=1.0, random_state=0).fit(X, y)
    assert set(model.cv_results_["rounds"]) == {selection.ROUNDS}


@pytest.mark.parametrize("few_rows", [0, 2000])
def test_every_score_is_that_of_fits_without_the_rows_held_out(digits, few_rows):
    """With one ridge and one form; the leading directions are those of all rows, hence not quite the same."""
    X, y = digits[:2]
    parts = selection.folds(Labels(y), np.random.RandomState(0), few_rows)
    assert len(parts) == (selection.FOLDS if few_rows else 1)
    found = search(X, y, candidates=Candidates((0.1,), (DISCRIMINANTS,)), few_rows=few_rows)
    correct = 0.0
    for rows, held in parts:
        alone = RidgeFLRML(10, ridge=0.1, within=0.9, local=0.1, rounds=0).fit(X[rows], y[rows])
        correct += len(held) * knn_accuracy(alone.transform(X[rows]), y[rows], alone.transform(X[held]), y[held])
    expected = correct / sum(len(held) for _, held in parts)
    assert next(choice.score for choice in found if choice.rounds == 0) == pytest.approx(expected, abs=0.002)


@pytest.mark.parametrize("n", [15, 22, 37])
def test_perfect_scores_are_one_and_favour_the_own_geometry(n):
    """Whatever the sizes of the folds, so that the standard error is zero and not undefined."""
    y = np.arange(n) % 3
    X = 5 * np.eye(3)[y] + 0.01 * np.random.RandomState(n).randn(n, 3)
    model = RidgeFLRML(3, random_state=0).fit(X, y)
    assert (model.best_score_, model.local_) == (1, 1)


def test_folds_without_a_triplet_do_not_count():
    y = np.arange(300) % 3
    X = 5 * np.eye(3)[y] + 0.01 * np.random.RandomState(0).randn(300, 3)
    T = np.array([[0, 3, 1], [4, 7, 2], [5, 8, 0]])
    assert RidgeFLRML(2, random_state=0).fit(X, triplets=T).best_score_ == 1


def test_the_climb_ends_where_scores_fall():
    def climb(scores, enough=0.0, caution=0.0, error=0.0):
        asked = []

        def attempt(ridge):
            asked.append(ridge)
            return selection.Trial(Choice(ridge, OWN, score=scores[ridge]), [])

        found = selection._climb(attempt, sorted(scores), enough, lambda _: caution, lambda _: error)
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
        return {row[2] for row in tried(RidgeFLRML(10, random_state=0, **given).fit(X, y)) if row[3]}

    assert with_rounds(*digits[:2]) == {1.0}
    assert with_rounds(*digits[:2], local=0.1) == {0.1}


def test_rounds_are_not_tried_where_the_closed_form_is_far_behind():
    """Classes differ in directions of small variance, which the data's own geometry does not see."""
    random, y = np.random.RandomState(0), np.arange(600) % 3
    X = np.hstack((random.randn(600, 60), 0.3 * np.eye(3)[y]))
    model = RidgeFLRML(10, random_state=0).fit(X, y)
    assert model.local_ == 0.1
    assert set(model.cv_results_["rounds"]) == {0}


def test_what_wins_without_rounds():
    best = Choice(1.0, DISCRIMINANTS, score=0.8)
    assert selection._wins(Choice(1.0, OWN, score=0.77), best, spare=0.04)
    assert not selection._wins(Choice(1.0, OWN, score=0.75), best, spare=0.04)


def test_the_own_geometry_wins_where_the_difference_is_chance():
    own, discriminants = Choice(1.0, OWN, 10, 0.90), Choice(1.0, DISCRIMINANTS, 0, 0.91)
    assert selection._rank(own, 0.02) > selection._rank(discriminants, 0.02)
    assert selection._rank(own, 0.005) < selection._rank(discriminants, 0.005)
    own, discriminants = Choice(1.0, OWN, 10, 1.0), Choice(30.0, DISCRIMINANTS, 0, 1.0)
    assert selection._rank(own) > selection._rank(discriminants)


@pytest.mark.parametrize("few_rows", [0, 2000])
def test_with_enough_caution_the_own_geometry_wins(few_rows):
    random, y = np.random.RandomState(0), np.arange(300) % 3
    X = np.hstack((random.randn(300, 5), np.eye(3)[y] + 0.3 * random.randn(300, 3)))
    found = [search(X, y, 5, few_rows=few_rows, caution=caution)[0].form.local for caution in (0.0, 100.0)]
    assert found == [0.1, 1.0]


def test_open_choices_are_paired_with_what_is_given():
    assert Candidates.of("auto", "auto", "auto", "auto") == Candidates()
    given = Candidates.of(2, 0.3, "auto", 4)
    assert given == Candidates((2.0,), (Form(0.3, 0.1), Form(0.3, 1.0)), 4)


def test_very_few_rows_are_learned_from():
    X = np.random.RandomState(0).standard_normal((4, 6))
    searched = RidgeFLRML(2, random_state=0).fit(X, [0, 0, 1, 1])
    assert 0 <= searched.best_score_ <= 1
    alone = RidgeFLRML(2).fit(X, triplets=[[0, 1, 2]], groups=[0, 0, 0, 0])  # nothing to hold out
    assert np.isnan(alone.best_score_)
    assert np.isfinite(np.vstack((searched.components_, alone.components_))).all()


def test_more_rows_than_are_worked_on(digits):
    X, y = digits[:2]
    few = search(X, y, 20, few_rows=0, working_rows=300, held_out_rows=150)
    many = search(X, y, 20, few_rows=0)
    assert few[0].score == pytest.approx(many[0].score, abs=0.06)
    assert few[0].score * 150 == pytest.approx(round(few[0].score * 150))


def test_groups_change_what_is_chosen():
    """Every object is seen from 8 sides; without groups, validation finds the object itself and likes noise."""
    random = np.random.RandomState(0)
    objects = random.standard_normal((60, 40))
    y = np.arange(60) % 2
    objects[:, 0] += 2 * y - 1
    groups = np.repeat(np.arange(60), 8)
    X = objects[groups] + 0.1 * random.standard_normal((480, 40))
    alone = RidgeFLRML(10, random_state=0).fit(X, y[groups])
    together = RidgeFLRML(10, random_state=0).fit(X, y[groups], groups=groups)
    assert alone.best_score_ > 0.99
    assert together.best_score_ < alone.best_score_
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        RidgeFLRML().fit(X, y[groups], groups=groups[:-1])
    with pytest.raises(ValueError, match="outside its group"):
        RidgeFLRML().fit(X, y[groups], groups=y[groups])


def test_a_held_row_that_stands_alone_does_not_break_the_search():
    X = np.vstack((np.eye(20), np.eye(20)[:, ::-1])).astype(np.float32)
    y = np.arange(40) % 2
    assert np.isfinite(RidgeFLRML(5, random_state=0).fit(X, y).components_).all()
