"""SCML: bases, weights and the outcome without a solution."""

import numpy as np
import pytest
import scipy.sparse as sp

from flrml.baselines.scml import SCML, discriminants, dual_averaging, local_bases, objective
from flrml.exceptions import NoSolutionError


def test_objective_equals_the_sum_over_triplets(triplet_case, random):
    XB, _, T = triplet_case
    w = random.rand(6)
    hinge = [max(0, 1 + w @ ((XB[i] - XB[j]) ** 2 - (XB[i] - XB[k]) ** 2)) for i, j, k in T]
    assert objective(XB, T, w, 0.1) == pytest.approx(np.mean(hinge) + 0.1 * w.sum())


def test_the_discriminating_basis_gets_the_largest_weight(triplet_case, random):
    XB, y, T = triplet_case
    XB = 0.1 * XB
    XB[:, 2] = y
    w, history = dual_averaging(XB, T, 1e-5, 5e-3, 2000, 500, random)
    assert np.argmax(w) == 2
    assert np.all(w >= 0)
    assert np.sum(w > 0) < 6
    assert min(history) < 1


def test_a_large_beta_leaves_no_solution(triplet_case, random):
    XB, _, T = triplet_case
    with pytest.raises(NoSolutionError, match="zero"):
        dual_averaging(XB, T, 1e3, 5e-3, 100, 50, random)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_bases_are_unit_directions(small_digits, form):
    B = local_bases(form(small_digits.X), small_digits.y, 40, 0.1, np.random.RandomState(0))
    assert B.shape == (40, 64)
    np.testing.assert_allclose(np.linalg.norm(B, axis=1), 1)


def test_discriminants_separate_two_classes(random):
    y = np.repeat([0, 1], 30)
    X = random.standard_normal((60, 5)) * [5, 1, 5, 5, 5]
    X[:, 1] += 6 * y
    b = discriminants(X, y, 3, 0.0)
    assert b.shape == (1, 5)
    assert abs(b[0, 1]) > 0.95


def test_labels_are_needed(small_digits):
    with pytest.raises(ValueError, match="requires y"):
        SCML().fit(small_digits.X, None, triplets=small_digits.triplets)
