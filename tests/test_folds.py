import numpy as np

from flrml.folds import split_labels, stratified_folds


def test_folds_are_stratified():
    label = np.repeat([0, 1, 2], [50, 30, 20])
    for _, validation in stratified_folds(label, np.arange(100), np.random.RandomState(0)):
        assert np.bincount(label[validation]).tolist() == [10, 6, 4]


def test_few_groups_are_cross_validated_for_any_number_of_rows():
    y, groups = np.arange(4000) % 4, np.arange(4000) % 200
    random = np.random.RandomState(0)
    ((_, validation),) = split_labels(y, None, random)
    assert len(validation) == 800
    parts = split_labels(y, groups, random)
    assert len(parts) == 5
    assert all(len(validation) == 300 for _, validation in parts)
    assert not any(set(groups[train]) & set(groups[validation]) for train, validation in parts)
    assert len(split_labels(np.arange(20_000) % 4, None, random)[0][1]) == 1500


def test_folds_are_held_out_until_there_are_enough_groups():
    for n, n_folds in ((600, 5), (1000, 3), (2000, 2), (2500, 1)):
        assert len(split_labels(np.arange(n) % 4, None, np.random.RandomState(0))) == n_folds
