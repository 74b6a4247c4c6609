"""Select rows: stratified hold-outs and subsamples that keep the rows of a group together, and new classes."""

import numpy as np

from flrml.exceptions import DatasetError


def share_out(counts: np.ndarray, total: int, keep: int = 0) -> np.ndarray:
    """Distribute ``total`` over the classes in proportion to their counts, by largest remainder.

    Every class gets at least min(keep, its count) and at most its count.
    """
    floor = np.minimum(counts, keep)
    exact = counts * (total / counts.sum())
    shares = np.maximum(np.floor(exact).astype(np.int64), floor)
    # Classes raised to the floor take from the others, first from those most above their exact share.
    while shares.sum() > total:
        surplus = np.where(shares > floor, shares - exact, -np.inf)
        shares[np.argmax(surplus)] -= 1
    while shares.sum() < total:
        lack = np.where(shares < counts, exact - shares, -np.inf)
        shares[np.argmax(lack)] += 1
    return shares


def choose(y: np.ndarray, groups: np.ndarray | None, total: int, keep: int, seed: list[int]) -> np.ndarray:
    """Return a mask of the rows of ``total`` groups, stratified by class, with at least ``keep`` of every class."""
    _, first, unit = np.unique(
        np.arange(len(y)) if groups is None else groups, return_index=True, return_inverse=True
    )
    unit_y = y[first]
    rng = np.random.default_rng(seed)
    shares = share_out(np.bincount(unit_y), total, keep)
    chosen = np.zeros(len(first), dtype=bool)
    for number, share in enumerate(shares):
        members = np.flatnonzero(unit_y == number)
        chosen[rng.permutation(members)[:share]] = True
    return chosen[unit]


def n_groups(groups: np.ndarray | None, n_rows: int) -> int:
    """Return the number of distinct groups; without groups, the number of rows."""
    return n_rows if groups is None else len(np.unique(groups))


def hold_out(
    y: np.ndarray, groups: np.ndarray | None, fraction: float, seed: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the row numbers of a training and a test part; the test part has ⌊fraction · groups⌋ groups.

    Every class keeps at least one group in the training part.
    """
    n = n_groups(groups, len(y))
    n_test = int(n * fraction + 1e-9)
    n_classes = int(y.max()) + 1
    if n_test < 1 or n - n_test < n_classes:
        raise DatasetError(
            f"a hold-out of {fraction} leaves {n - n_test} training and {n_test} test "
            f"{'examples' if groups is None else 'groups'} for {n_classes} classes; choose another fraction"
        )
    train = choose(y, groups, n - n_test, 1, seed)
    return np.flatnonzero(train), np.flatnonzero(~train)


def has_new_classes(split: int | str | None) -> bool:
    """Return whether an option ``split`` says that the classes of the test part are new: classes, classes-1, ..."""
    return str(split).startswith("classes")


def split_classes(y: np.ndarray, groups: np.ndarray | None, seed: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the row numbers of a training part and of a test part with half of the classes, which are new.

    A class with one row or group cannot be new, because its rows would have nothing to find.
    """
    n_classes = int(y.max()) + 1
    group = np.arange(len(y)) if groups is None else np.unique(groups, return_inverse=True)[1]
    units = np.unique(np.column_stack((y, group)), axis=0)[:, 0]
    repeated = np.flatnonzero(np.bincount(units) > 1)
    n_new = n_classes // 2
    if not 2 <= n_new <= len(repeated):
        raise DatasetError(
            f"split: classes needs two classes to train on and two new ones with two rows or groups each, but of "
            f"{n_classes} classes {len(repeated)} have two; take another split"
        )
    new = np.isin(y, np.random.default_rng(seed).permutation(repeated)[:n_new])
    return np.flatnonzero(~new), np.flatnonzero(new)


def subsample(
    rows: np.ndarray, y: np.ndarray, groups: np.ndarray | None, limit: int | None, keep: int, seed: list[int]
) -> np.ndarray:
    """Return at most ``limit`` of the rows, stratified; all of them if it is None."""
    if limit is None or len(rows) <= limit:
        return rows
    y, groups = y[rows], None if groups is None else groups[rows]
    total = limit * n_groups(groups, len(rows)) // len(rows)
    needed = keep * len(np.unique(y))
    if total < max(1, needed):
        raise DatasetError(
            f"a limit of {limit} rows is too small for {len(np.unique(y))} classes"
            + (" with all poses of a model" if groups is not None else "")
            + "; raise it"
        )
    return rows[choose(y, groups, total, keep, seed)]
