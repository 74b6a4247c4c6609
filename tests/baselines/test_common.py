"""Sums over pairs, neighbours and the reduced data against literal loops."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from flrml import decompose
from flrml.baselines import common
from flrml.baselines.kissme import KISSME
from flrml.exceptions import NoSolutionError
from flrml.metric import require_solution


def test_the_laplacian_sums_outer_products_of_differences(random, triplet_case):
    Z, _, T = triplet_case
    a, b, signs = common.pairs_of(T)
    w = signs * random.rand(len(a))
    literal = sum(wp * np.outer(Z[p] - Z[q], Z[p] - Z[q]) for wp, p, q in zip(w, a, b, strict=True))
    np.testing.assert_allclose(common.scatter(Z, common.laplacian(a, b, w, len(Z))), literal, atol=1e-12)


def test_blocks_do_not_change_sums(monkeypatch, triplet_case):
    Z, _, T = triplet_case
    a, b, w = common.pairs_of(T)
    K = common.laplacian(a, b, w, len(Z))
    whole = common.scatter(Z, K), common.squared_distances(Z, a, b), common.inner_products(Z, Z, a, b)
    monkeypatch.setattr(common, "TEMPORARY_VALUES", 30)
    parts = common.scatter(Z, K), common.squared_distances(Z, a, b), common.inner_products(Z, Z, a, b)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    np.testing.assert_allclose(parts[1], [np.sum((Z[p] - Z[q]) ** 2) for p, q in zip(a, b, strict=True)])


def test_neighbours_are_those_of_a_full_sort(triplet_case):
    Z, y, _ = triplet_case
    distance = np.sum((Z[:, None] - Z[None]) ** 2, axis=2)
    i, j = common.neighbors_within(Z, y, 3)
    outside = common.neighbors_outside(Z, y, 4)
    for row in range(len(Z)):
        same = [q for q in np.argsort(distance[row]) if y[q] == y[row] and q != row]
        other = [q for q in np.argsort(distance[row]) if y[q] != y[row]]
        assert set(j[i == row]) == set(same[:3])
        assert set(outside[row]) == set(other[:4])


def test_duplicates_are_no_neighbours_of_themselves():
    i, j = common.neighbors_within(np.zeros((6, 2)), np.array([0, 0, 0, 0, 1, 2]), 2)
    assert np.all(i != j)
    assert i.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("shape", [(20, 50), (50, 20)], ids=["wide", "tall"])
@pytest.mark.parametrize("sparse", [False, True])
def test_reduced_data_map_back_to_the_features(shape, sparse, random):
    X = normalize(random.rand(*shape) * (random.rand(*shape) < 0.3))
    reduced = common.Reduced.of(decompose(sp.csr_matrix(X) if sparse else X), 15)
    np.testing.assert_allclose(reduced.Z.T @ reduced.Z, np.diag(reduced.singular_values**2), atol=1e-10)
    Lz = random.standard_normal((4, 15))
    np.testing.assert_allclose(X @ reduced.lift(Lz).T, reduced.Z @ Lz.T, atol=1e-10)


def test_the_strongest_directions_are_the_best_approximation(random):
    X = random.standard_normal((30, 8))
    reduced = common.Reduced.of(decompose(X), 8)
    Lz = random.standard_normal((8, 8))
    Y = reduced.Z @ Lz.T
    kept = reduced.Z @ reduced.strongest(Lz, 3).T
    best = np.sum(np.linalg.svd(Y, compute_uv=False)[:3] ** 2)
    np.testing.assert_allclose(np.sum(kept**2), best)


def test_a_zero_or_infinite_map_is_no_solution():
    with pytest.raises(NoSolutionError, match="zero"):
        require_solution("X", np.zeros(3))
    with pytest.raises(NoSolutionError, match="finite"):
        require_solution("X", np.array([1, np.nan]))


def test_a_centered_spectrum_is_refused(small_digits):
    with pytest.raises(ValueError, match="does not belong to the given ndarray"):
        KISSME().fit(small_digits.X, small_digits.y, spectrum=small_digits.centered)
