import numpy as np

from flrml.folds import split_labels, stratified_folds


def test_folds_are_stratified():
    label = np.repeat([0, 1, 2], [50, 30, 20])
    for _, validation in stratified_folds(label, np.arange(100), np.random.RandomState(0)):
        assert np.bincount(label[validation]).tolist() == [10, 6, 4]


def test_few_groups_are_cross_validated_for_any_number_of_rows():
    y, groups = np.arange(4000) % 4, np.arange(4000) % 200
    parts = split_labels(y, groups, np.random.RandomState(0))
    assert len(parts) == 5
    assert all(len(validation) == 300 for _, validation in parts)
    assert not any(set(groups[train]) & set(groups[validation]) for train, validation in parts)


def test_folds_are_held_out_until_there_are_enough_groups():
    for n, n_folds in ((600, 5), (1000, 3), (1499, 2), (1500, 1)):
        assert len(split_labels(np.arange(n) % 4, None, np.random.RandomState(0))) == n_folds


def test_of_many_groups_as_many_as_are_evaluated_are_held_out_a_third_at_most():
    for n, n_train, n_validation in ((1800, 1200, 600), (3600, 2400, 1200), (20_000, 18_462, 1500)):
        ((train, validation),) = split_labels(np.arange(n) % 4, None, np.random.RandomState(0))
        assert abs(len(train) - n_train) < 5
        assert abs(len(validation) - n_validation) < 5
