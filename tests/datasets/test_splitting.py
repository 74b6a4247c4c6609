import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flrml.datasets.splitting import hold_out, share_out, split_classes, subsample
from flrml.exceptions import DatasetError


@given(
    counts=st.lists(st.integers(1, 50), min_size=1, max_size=8).map(np.array),
    share=st.floats(0, 1),
    keep=st.integers(0, 1),
)
def test_shares_are_proportional_and_add_up(counts, share, keep):
    total = max(int(share * counts.sum()), keep * len(counts))
    shares = share_out(counts, total, keep)
    assert shares.sum() == total
    assert (shares <= counts).all()
    assert (shares >= keep).all()
    exact = counts * (total / counts.sum())
    free = exact >= keep  # classes that needed no lift
    if free.all():
        assert (np.abs(shares - exact) < 1 + 1e-9).all()


@settings(deadline=None)
@given(
    y=st.lists(st.integers(0, 3), min_size=30, max_size=80),
    fraction=st.floats(0.1, 0.6),
    seed=st.integers(0, 9),
)
def test_a_hold_out_is_stratified_and_repeatable(y, fraction, seed):
    y = np.unique(y, return_inverse=True)[1]
    train, test = hold_out(y, None, fraction, seed)
    assert sorted([*train, *test]) == list(range(len(y)))
    assert len(test) == int(len(y) * fraction + 1e-9)
    assert set(y[train]) == set(y)
    again, _ = hold_out(y, None, fraction, seed)
    np.testing.assert_array_equal(train, again)


def test_halves_of_the_paper():
    assert [len(part) for part in hold_out(np.arange(9_625) % 4, None, 0.5, 0)] == [4_813, 4_812]


def test_the_seed_changes_the_choice():
    y = np.repeat([0, 1], 50)
    assert not np.array_equal(hold_out(y, None, 0.5, 0)[0], hold_out(y, None, 0.5, 1)[0])


def test_rows_of_one_object_stay_together():
    y, groups = np.repeat([0, 1, 0, 1, 0, 1], 4), np.repeat(np.arange(6), 4)
    train, test = hold_out(y, groups, 0.34, 0)
    assert not set(groups[train]) & set(groups[test])
    assert len(test) == 8
    rows = subsample(np.arange(24), y, groups, 11, 1, [0])
    assert len(rows) == 8
    assert len(np.unique(groups[rows])) == 2


def test_impossible_sizes_are_refused():
    with pytest.raises(DatasetError, match="hold-out"):
        hold_out(np.array([0, 1, 2]), None, 0.5, 0)
    with pytest.raises(DatasetError, match="leaves 1 training and 0 test groups for 2 classes"):
        hold_out(np.array([0, 1, 1]), np.zeros(3), 0.5, 0)
    with pytest.raises(DatasetError, match="too small"):
        subsample(np.arange(9), np.arange(9), None, 5, 1, [0])


@given(
    y=st.lists(st.integers(0, 7), min_size=40, max_size=80),
    with_groups=st.booleans(),
    seed=st.integers(0, 9),
)
def test_half_of_the_classes_are_new_and_their_rows_have_something_to_find(y, with_groups, seed):
    y = np.unique(y, return_inverse=True)[1]
    groups = np.arange(len(y)) // 2 if with_groups else None
    n_classes = len(set(y))
    units = [len(set(y_groups)) for c in range(n_classes) for y_groups in [np.arange(len(y))[y == c] // 2]]
    repeated = sum(count > 1 for count in (units if with_groups else np.bincount(y)))
    if not 2 <= n_classes // 2 <= repeated:
        with pytest.raises(DatasetError, match="needs two classes to train on and two new ones"):
            split_classes(y, groups, [seed])
        return
    train, test = split_classes(y, groups, [seed])
    assert sorted([*train, *test]) == list(range(len(y)))
    assert not set(y[train]) & set(y[test])
    assert len(set(y[test])) == n_classes // 2
    for number in set(y[test]):
        own = np.flatnonzero(y == number)
        assert len(set(own if groups is None else groups[own])) > 1
    np.testing.assert_array_equal(split_classes(y, groups, [seed])[0], train)


def test_another_seed_makes_other_classes_new():
    y = np.arange(200) % 20
    assert len({tuple(split_classes(y, None, [0, number])[1]) for number in range(5)}) == 5


def test_too_few_classes_cannot_be_split():
    with pytest.raises(DatasetError, match="of 3 classes 3 have two; take another split"):
        split_classes(np.arange(30) % 3, None, [0])
