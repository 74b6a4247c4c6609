from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from flrml import draw_triplets
from flrml.ridge import scaling, subspace
from flrml.ridge.arrays import combine, inner, random_columns
from flrml.ridge.krylov import Krylov, next_block
from flrml.ridge.sample_matrices import DualSampleMatrices, SampleMatrices
from flrml.ridge.scaling import ScaledRows
from flrml.ridge.subspace import Shape, assemble, build_subspace, leading_classes
from flrml.ridge.supervision import Labels, Triplets
from flrml.rows import wide

from . import literal

WIDE = Shape(12, 3.0)


def unscaled(X):
    return ScaledRows(X, np.ones(X.shape[1]))


def build(X, supervision, rows=None, d=10, shape=WIDE, seed=0):
    rows = np.arange(X.shape[0]) if rows is None else rows
    return build_subspace(unscaled(X), supervision.subset(rows), rows, d, shape, np.random.RandomState(seed))


def directions(found):
    return found.lift(np.eye(found.images.shape[1]))


def limit(monkeypatch, rows=0, columns=0):
    monkeypatch.setattr(scaling, "EXACT_ROWS", rows)
    monkeypatch.setattr(ScaledRows, "is_narrow", lambda self, n_columns: self.shape[1] <= columns)


@pytest.fixture(params=["directions", "duals"])
def only_krylov(request, monkeypatch):
    limit(monkeypatch)
    monkeypatch.setattr(scaling, "DUAL_COLUMNS_PER_ROW", 0 if request.param == "duals" else 10**9)


@pytest.fixture
def long_rows():
    random = np.random.RandomState(0)
    y = np.arange(500) % 4
    X = random.standard_normal((500, 60)) * np.logspace(0, -1.5, 60) + 0.2 * random.standard_normal((4, 60))[y]
    return X, y


def test_the_shape_decides_whether_the_whole_row_space_is_taken():
    def chosen(X):
        matrices = unscaled(X).matrices(None, 300)
        return type(matrices), matrices.is_narrow

    assert chosen(np.empty((5000, 150))) == chosen(np.empty((5000, 300))) == (SampleMatrices, True)
    assert chosen(np.empty((5000, 301))) == (SampleMatrices, False)
    assert chosen(sp.random(5000, 290, 0.5, format="csr")) == (SampleMatrices, True)
    assert chosen(sp.random(5000, 290, 0.01, format="csr")) == (SampleMatrices, False)
    assert chosen(np.eye(300, 5000)) == (DualSampleMatrices, True)
    assert chosen(sp.eye(3000, 10_000, format="csr")) == (DualSampleMatrices, False)
    assert chosen(np.empty((3000, 5000))) == (SampleMatrices, False)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("side", ["rows", "columns", "krylov", "dual"])
def test_the_images_are_the_rows_in_orthonormal_directions(text, monkeypatch, side, dtype):
    X, y = text[0].astype(dtype), text[1]
    tolerance = 1e-8 if dtype == np.float64 else 1e-4
    limit(monkeypatch, **({side: 1000} if side in ("rows", "columns") else {}))
    monkeypatch.setattr(scaling, "DUAL_COLUMNS_PER_ROW", 0 if side == "dual" else 3)
    rows = np.arange(0, 160, 2)
    found = build(X, Labels(y), rows)
    Z = directions(found)
    E = found.images[rows].astype(np.float64)
    assert np.allclose(Z.T @ Z, np.eye(Z.shape[1]), atol=tolerance)
    assert np.allclose(found.images, X @ Z, atol=tolerance)
    assert np.allclose(found.scatter, E.T @ E, atol=tolerance)


@pytest.mark.parametrize("ridge", [1e-3, 0.1, 10.0])
def test_ridge_regression_on_the_classes_is_solved_at_full_rank(only_krylov, long_rows, ridge):
    """Twelve blocks of ten columns reach the rank 60 of the data, so that the solution is exact."""
    X, y = long_rows
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
        monkeypatch.setattr(subspace, "DISCRIMINANT_SHAPE", Shape(blocks, 0.0))
        monkeypatch.setattr(subspace, "MIN_BLOCK_COLUMNS", 4)
        found = build(X, Labels(y), d=1, shape=Shape(blocks, 0.0))
        E = found.images
        C = np.linalg.solve(E.T @ E + 0.1 * np.eye(E.shape[1]), E.T @ np.eye(4)[y])
        errors.append(np.linalg.norm(found.lift(C) - expected) / np.linalg.norm(expected))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.03 < errors[0] / 3


def test_validation_rows_take_no_part(only_krylov, long_rows):
    X, y = long_rows
    rows = np.arange(0, 500, 3)
    other = X.copy()
    other[1::3] = 7.0
    first, second = (build(data, Labels(y), rows) for data in (X, other))
    assert np.allclose(first.images[rows], second.images[rows])
    assert np.allclose(directions(first), directions(second))


@given(st.integers(1, 6), st.integers(2, 40), st.integers(0, 2**16))
def test_the_directions_are_orthonormal_whatever_the_rank(rank, n, seed):
    random = np.random.RandomState(seed)
    X = random.standard_normal((n, rank)) @ random.standard_normal((rank, 50))
    krylov = Krylov(SampleMatrices(unscaled(X), None, False))
    start = np.hstack((X[:, :3], X[:, :2], np.zeros((n, 1))))  # columns that depend on one another
    krylov.extend(X.T @ start, 5)
    V, E = np.hstack([block.directions for block in krylov.blocks]), np.hstack(krylov.images)
    assert np.allclose(V.T @ V, np.eye(V.shape[1]), atol=1e-9)
    assert np.allclose(E, X @ V)
    assert np.allclose(assemble(krylov.columns), E.T @ E)
    assert V.shape[1] <= rank + 3


def test_what_little_a_float32_block_adds_is_found():
    random = np.random.RandomState(0)
    Q = np.linalg.qr(random.standard_normal((400, 5)))[0]
    first, second = Q[:, :2], Q[:, :2] + 3e-5 * Q[:, 2:4]
    blocks = []
    for sums in (first, second, first):
        blocks.append(next_block(blocks, sums.astype(np.float32)))
    assert [block.directions.shape[1] for block in blocks] == [2, 2, 0]
    V = np.hstack([block.directions for block in blocks])
    assert V.dtype == np.float32
    assert np.allclose(V.T @ V, np.eye(4), atol=1e-6)
    wanted = np.linalg.qr(np.hstack((first, second)))[0]
    assert np.linalg.svd(V.T @ wanted)[1].min() > 1 - 1e-5


def test_a_block_after_an_empty_one_is_empty():
    empty = next_block([next_block([], np.eye(30, 3))], np.eye(30, 2))
    assert empty.directions.shape == (30, 0)
    assert empty.along.shape == (3, 2)
    following = next_block([next_block([], np.eye(30, 3)), empty], np.empty((30, 0)))
    assert following.directions.shape == (30, 0)
    assert following.along.shape == (3, 0)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.integers(1, 3000), st.integers(0, 4))
def test_long_matrices_are_multiplied_in_blocks(widths, n, width):
    random = np.random.RandomState(0)
    pieces, B = [random.rand(n, p) for p in widths], random.rand(n, width)
    C = random.rand(sum(widths), width)
    assert np.allclose(inner(pieces, B), np.hstack(pieces).T @ B)
    assert np.allclose(combine(pieces, C), np.hstack(pieces) @ C)


@pytest.mark.parametrize("side", ["rows", "krylov", "dual"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_zeros_have_a_direction(monkeypatch, side, dtype):
    limit(monkeypatch, rows=1000 if side == "rows" else 0)
    monkeypatch.setattr(scaling, "DUAL_COLUMNS_PER_ROW", 0 if side == "dual" else 3)
    X, rows = np.zeros((40, 30), dtype), np.arange(20)
    X[30:] = 1  # rows that are not learned from
    found = build(X, Labels(np.arange(40) % 2), rows)
    assert found.images.shape[1] >= 1
    assert not found.images[rows].any()
    assert np.isfinite(found.images).all()
    assert not found.scatter.any()


def test_many_classes_do_not_widen_the_blocks(only_krylov, monkeypatch):
    monkeypatch.setattr(subspace, "MAX_START_COLUMNS", 12)
    random = np.random.RandomState(0)
    y = np.arange(400) % 40
    X = random.standard_normal((40, 80))[y] + 0.1 * random.standard_normal((400, 80))
    found = build(X, Labels(y), d=5)
    assert found.images.shape[1] <= 12 * 12
    assert found.images.shape[1] >= 12


@pytest.mark.parametrize("side", ["directions", "duals"])
def test_leading_combinations_of_classes_are_those_of_an_svd_of_their_means(side):
    random = np.random.RandomState(0)
    y = np.arange(900) % 300
    X = random.standard_normal((300, 400))[y] * np.logspace(0, -1.5, 400) + 0.1 * random.standard_normal((900, 400))
    scaled, labels = unscaled(X), Labels(y)
    matrices = SampleMatrices(scaled, None, False)
    if side == "duals":
        matrices = DualSampleMatrices(scaled, None, False, False)
    Q = leading_classes(matrices, labels, 40, 0)
    means = labels.class_means(X)
    assert np.allclose(Q.T @ Q, np.eye(40))
    best = np.sum(np.linalg.svd(means)[1][:40] ** 2)
    assert 0.9 * best < np.sum((Q.T @ means) ** 2) <= best
    assert np.array_equal(leading_classes(matrices, labels, 300, 0), np.eye(300))


def test_contrasts_of_triplets_are_in_the_space(only_krylov, long_rows):
    X, y = long_rows
    supervision = Triplets(draw_triplets(y, 5, 0), 500)
    found = build(X, supervision)
    leading = np.linalg.svd(X, full_matrices=False)[0][:, :2]
    wanted = X.T @ supervision.contrast(leading)
    Z = directions(found)
    assert np.linalg.norm(wanted - Z @ (Z.T @ wanted)) < 1e-3 * np.linalg.norm(wanted)


def test_a_short_wide_matrix_gives_the_same_subspace_from_its_gram_matrix(monkeypatch):
    random = np.random.RandomState(0)
    X, y = random.standard_normal((420, 600)), np.arange(420) % 5
    found = []
    for many in (10**9, 1):
        monkeypatch.setattr(wide, "GRAM_COLUMNS_PER_ROW", many)
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
