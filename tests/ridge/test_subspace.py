from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from flrml import draw_triplets, wide
from flrml.ridge import subspace
from flrml.ridge.scaling import ScaledRows
from flrml.ridge.subspace import Shape, build_subspace, choose_method
from flrml.ridge.supervision import Labels, Triplets
from flrml.ridge.tall import random_columns

from . import literal

WIDE = Shape(12, 3.0)


def unscaled(X):
    return ScaledRows(X, np.ones(X.shape[1]))


def build(X, supervision, rows=None, d=10, shape=WIDE, seed=0):
    rows = np.arange(X.shape[0]) if rows is None else rows
    return build_subspace(unscaled(X), supervision.subset(rows), rows, d, shape, np.random.RandomState(seed))


def directions(found, X):
    return found.lift(np.eye(found.images.shape[1])) if found.dual is not None else np.eye(X.shape[1])


@pytest.fixture
def only_krylov(monkeypatch):
    monkeypatch.setattr(subspace, "SHORT_SIDE", {"rows": 0, "columns": 0})


@pytest.fixture
def tall():
    random = np.random.RandomState(0)
    y = np.arange(500) % 4
    X = random.standard_normal((500, 60)) * np.logspace(0, -1.5, 60) + 0.2 * random.standard_normal((4, 60))[y]
    return X, y


def test_the_short_side_decides_the_method():
    assert choose_method(unscaled(np.empty((5000, 150)))) == "columns"
    assert choose_method(unscaled(sp.random(5000, 190, 0.5, format="csr"))) == "columns"
    assert choose_method(unscaled(sp.random(5000, 190, 0.01, format="csr"))) == "krylov"
    assert choose_method(unscaled(np.empty((300, 5000)))) == "rows"
    assert choose_method(unscaled(np.empty((3000, 5000)))) == "krylov"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("side", ["rows", "columns", "krylov"])
def test_the_images_are_the_rows_in_orthonormal_directions(text, monkeypatch, side, dtype):
    X, y = text[0].astype(dtype), text[1]
    tolerance = 1e-8 if dtype == np.float64 else 1e-4
    limits = {"rows": 0, "columns": 0} | ({side: 1000} if side != "krylov" else {})
    monkeypatch.setattr(subspace, "SHORT_SIDE", limits)
    rows = np.arange(0, 160, 2)
    found = build(X, Labels(y), rows)
    Z = directions(found, X)
    E = found.images[rows].astype(np.float64)
    assert np.allclose(Z.T @ Z, np.eye(Z.shape[1]), atol=tolerance)
    assert np.allclose(found.images, X @ Z, atol=tolerance)
    assert np.allclose(found.scatter, E.T @ E, atol=tolerance)


@pytest.mark.parametrize("ridge", [1e-3, 0.1, 10.0])
def test_ridge_regression_on_the_classes_is_solved_at_full_rank(only_krylov, tall, ridge):
    """Twelve blocks of ten columns reach the rank 60 of the data, so that the solution is exact."""
    X, y = tall
    found = build(X, Labels(y))
    gamma = ridge * literal.mean_square_of_a_row(X)
    E = found.images
    C = np.linalg.solve(E.T @ E + gamma * np.eye(E.shape[1]), E.T @ np.eye(4)[y])
    expected = literal.ridge_regression(X, y, ridge)
    assert np.allclose(found.lift(C), expected, atol=1e-6 * abs(expected).max())


def test_more_blocks_come_closer_to_ridge_regression(only_krylov, text, monkeypatch):
    X, y = text
    expected = literal.ridge_regression(X.toarray(), y, 0.1)
    errors = []
    for blocks in (1, 2, 4, 8):
        monkeypatch.setattr(subspace, "DISCRIMINANTS", Shape(blocks, 0.0))
        monkeypatch.setattr(subspace, "WIDTH", 4)
        found = build(X, Labels(y), d=1, shape=Shape(blocks, 0.0))
        E = found.images
        C = np.linalg.solve(E.T @ E + 0.1 * np.eye(E.shape[1]), E.T @ np.eye(4)[y])
        errors.append(np.linalg.norm(found.lift(C) - expected) / np.linalg.norm(expected))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.03 < errors[0] / 3


def test_held_out_rows_take_no_part(only_krylov, tall):
    X, y = tall
    rows = np.arange(0, 500, 3)
    other = X.copy()
    other[1::3] = 7.0
    first, second = (build(data, Labels(y), rows) for data in (X, other))
    assert np.allclose(first.images[rows], second.images[rows])
    assert np.allclose(directions(first, X), directions(second, other))


@given(st.integers(1, 6), st.integers(2, 40), st.integers(0, 2**16))
def test_the_basis_is_orthonormal_whatever_the_rank(rank, n, seed):
    random = np.random.RandomState(seed)
    X = random.standard_normal((n, rank)) @ random.standard_normal((rank, 50))
    krylov = subspace._Krylov(unscaled(X).tall(None))
    krylov.extend(np.hstack((X[:, :3], X[:, :2], np.zeros((n, 1)))), 5)  # columns that depend on one another
    B, KB = np.hstack(krylov.basis), np.hstack(krylov.images)
    assert np.allclose(B.T @ B, np.eye(B.shape[1]), atol=1e-9)
    assert np.allclose(KB, X @ (X.T @ B))
    assert B.shape[1] <= min(n, max(rank, 1) + 3)


def test_what_little_a_float32_block_adds_is_found():
    random = np.random.RandomState(0)
    Q = np.linalg.qr(random.standard_normal((400, 5)))[0]
    krylov = subspace._Krylov(unscaled(Q.astype(np.float32)).tall(None))
    first, second = Q[:, [0, 0]] + 3e-5 * Q[:, 1:3], Q[:, [0, 0]] + 3e-5 * Q[:, 3:]
    for block in (first, second):
        krylov.extend(block.astype(np.float32), 1)
    B = np.hstack(krylov.basis)
    assert B.dtype == np.float32
    assert np.allclose(B.T @ B, np.eye(4), atol=1e-6)
    wanted = np.linalg.qr(np.hstack((first, second)))[0]
    assert np.linalg.svd(B.T @ wanted)[1].min() > 1 - 1e-5


@pytest.mark.parametrize("side", ["rows", "krylov"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_zeros_have_a_direction(monkeypatch, side, dtype):
    monkeypatch.setattr(subspace, "SHORT_SIDE", {"rows": 1000 if side == "rows" else 0, "columns": 0})
    X, rows = np.zeros((40, 30), dtype), np.arange(20)
    X[30:] = 1  # rows that are not learned from
    found = build(X, Labels(np.arange(40) % 2), rows)
    assert found.images.shape[1] == 1
    assert not found.images[rows].any()
    assert np.isfinite(found.images).all()
    assert not found.scatter.any()


def test_many_classes_do_not_widen_the_blocks(only_krylov, monkeypatch):
    monkeypatch.setattr(subspace, "MOST_CLASSES", 12)
    random = np.random.RandomState(0)
    y = np.arange(400) % 40
    X = random.standard_normal((40, 80))[y] + 0.1 * random.standard_normal((400, 80))
    found = build(X, Labels(y), d=5)
    assert found.images.shape[1] <= 12 * 12
    assert found.images.shape[1] >= 12


def test_contrasts_of_triplets_are_in_the_space(only_krylov, tall):
    X, y = tall
    supervision = Triplets(draw_triplets(y, 5, 0), 500)
    found = build(X, supervision)
    leading = np.linalg.svd(X, full_matrices=False)[0][:, :2]
    wanted = X.T @ supervision.contrast(leading)
    Z = directions(found, X)
    assert np.linalg.norm(wanted - Z @ (Z.T @ wanted)) < 1e-3 * np.linalg.norm(wanted)


def test_a_short_wide_matrix_gives_the_same_subspace_from_its_gram_matrix(monkeypatch):
    random = np.random.RandomState(0)
    X, y = random.standard_normal((420, 600)), np.arange(420) % 5
    found = []
    for many in (10**9, 1):
        monkeypatch.setattr(wide, "MANY_COLUMNS", many)
        built = build(X, Labels(y), np.arange(0, 420, 2))
        found.append(built.images @ built.images.T)
    assert np.allclose(found[0], found[1])


@given(st.integers(0, 2**31 - 1), st.integers(1, 5), st.lists(st.integers(0, 60), max_size=6))
def test_random_columns_do_not_depend_on_the_blocks_of_rows(seed, width, cuts):
    bounds = [0, *sorted(cuts), 60]
    whole = random_columns(seed, 0, 60, width)
    parts = [random_columns(seed, *pair, width) for pair in pairwise(bounds)]
    assert np.array_equal(np.concatenate(parts), whole)
    assert len(np.unique(whole)) == whole.size
