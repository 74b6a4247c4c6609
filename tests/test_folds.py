import numpy as np

from flrml.folds import split_labels, stratified_folds


def test_folds_are_stratified():
    label = np.repeat([0, 1, 2], [50, 30, 20])
    for _, validation in stratified_folds(label, np.arange(100), np.random.RandomState(0)):
        assert np.bincount(label[validation]).tolist() == [10, 6, 4]


def test_few_rows_are_cross_validated_and_many_are_split_once():
    random = np.random.RandomState(0)
    for n, number in ((1900, 5), (4000, 1)):
        y, groups = np.arange(n) % 4, np.arange(n) % 200
        parts = split_labels(y, groups, random)
        assert len(parts) == len(split_labels(y, None, random)) == number
        assert not any(set(groups[train]) & set(groups[validation]) for train, validation in parts)
        assert sum(len(validation) for _, validation in parts) == (1500 if number == 5 else n // 5)
    assert len(split_labels(np.arange(20_000) % 4, None, random)[0][1]) == 1500
