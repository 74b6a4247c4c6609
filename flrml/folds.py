"""Split rows into training and validation rows; rows of one group stay together."""

import warnings

import numpy as np
from numpy.typing import NDArray

Parts = tuple[NDArray, NDArray]  # numbers of the training rows, and of the validation rows

N_FOLDS = 5
ENOUGH_VALIDATION_GROUPS = 500  # folds are held out until there are as many
MAX_VALIDATION_ROWS = 1500  # of all folds


def number_groups(groups: NDArray | None, n: int) -> NDArray:
    """Return the group of each of n rows as a number 0, 1, …; without groups, each row is one."""
    return np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]


def n_folds(n_groups: int) -> int:
    """Return the number of folds; one fold of many groups has enough validation rows, a third of them at most."""
    return max(3, n_groups // MAX_VALIDATION_ROWS) if n_groups >= MAX_VALIDATION_ROWS else N_FOLDS


def stratified_folds(label: NDArray, groups: NDArray, random: np.random.RandomState) -> list[Parts]:
    """Split groups into folds, stratified by the label of their first row; no folds if no class has two groups."""
    label = label[np.unique(groups, return_index=True)[1]]
    number = min(n_folds(len(label)), int(np.bincount(label).max()))
    if number < 2:
        return []
    from sklearn.model_selection import StratifiedKFold  # slow to import

    splitter = StratifiedKFold(number, shuffle=True, random_state=random)
    with warnings.catch_warnings():  # a class with few members is missing from some folds
        warnings.simplefilter("ignore", UserWarning)
        return [_split_groups(groups, chosen) for _, chosen in splitter.split(label, label)]


def class_folds(label: NDArray, anchors: NDArray, random: np.random.RandomState) -> list[Parts]:
    """Split the classes into folds, each of which is held out once; classes are dealt by rows with positives."""
    size = np.bincount(label[anchors], minlength=label.max() + 1)
    order = random.permutation(len(size))
    fold = np.empty(len(size), dtype=np.int64)
    fold[order[np.argsort(-size[order], kind="stable")]] = np.arange(len(size)) % N_FOLDS
    return [_split_groups(fold[label], np.array([number])) for number in range(min(N_FOLDS, len(size)))]


def group_folds(groups: NDArray, n_groups: int, random: np.random.RandomState) -> list[Parts]:
    """Split groups into folds; no folds if there are fewer groups than folds."""
    if n_groups < N_FOLDS:
        return []
    from sklearn.model_selection import KFold  # slow to import

    splitter = KFold(n_folds(n_groups), shuffle=True, random_state=random)
    return [_split_groups(groups, chosen) for _, chosen in splitter.split(np.empty(n_groups))]


def validation_parts(
    folds: list[Parts],
    groups: NDArray,
    random: np.random.RandomState,
    *,
    enough_groups: float = ENOUGH_VALIDATION_GROUPS,
    max_rows: int = MAX_VALIDATION_ROWS,
) -> list[Parts]:
    """Return the first folds, until they hold out enough groups, with a limited number of validation rows.

    Errors within a group are correlated, so the number of groups decides, not that of rows. Folds without training
    or validation rows are left out.
    """
    chosen, n_groups = [], 0
    for train, validation in folds:
        if n_groups < enough_groups and len(train) and len(validation):
            chosen.append((train, validation))
            n_groups += len(np.unique(groups[validation]))
    most = max_rows // max(len(chosen), 1)
    return [(train, draw_at_most(most, validation, random)) for train, validation in chosen]


def split_labels(label: NDArray, groups: NDArray | None, random: np.random.RandomState) -> list[Parts]:
    """Return training and validation rows for labels, as :class:`flrml.RidgeFLRML` uses them."""
    numbers = number_groups(groups, len(label))
    return validation_parts(stratified_folds(label, numbers, random), numbers, random)


def draw_at_most(most: int, rows: NDArray, random: np.random.RandomState) -> NDArray:
    """Return the rows, or ``most`` random ones of them in ascending order."""
    return rows if len(rows) <= most else np.sort(random.choice(rows, most, replace=False))


def _split_groups(groups: NDArray, chosen: NDArray) -> Parts:
    """Return the rows of the other groups, and those of the chosen ones."""
    validation = np.isin(groups, chosen)
    return np.flatnonzero(~validation), np.flatnonzero(validation)
