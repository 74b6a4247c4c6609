from itertools import pairwise

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from flrml import draw_triplets
from flrml.ridge import reduced_problem
from flrml.ridge.pairs import pair_product
from flrml.ridge.reduced_problem import ROUND_STEP, ReducedProblem
from flrml.ridge.supervision import Labels, Triplets
from flrml.triplets import contrast_matrix

from . import literal


@pytest.mark.parametrize("ridge", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("within", [0.0, 0.9])
@pytest.mark.parametrize("local", [0.0, 0.3, 1.0])
def test_the_closed_form_is_that_of_the_literal_matrices(problem, ridge, within, local):
    X, y, _ = problem
    d = 2 if local == 0 else 7
    s, expected = literal.closed_form(X, literal.contrasts(y), y, ridge, within, local, d)
    reduced = ReducedProblem(X, Labels(y), d)
    A = reduced.whitening(ridge * literal.mean_square_of_a_row(X), within)
    C = reduced.solve(A, local)
    assert np.allclose(np.einsum("ij,ij->j", C, A @ C), s)
    assert np.allclose(C @ C.T, expected @ expected.T, atol=1e-6 * abs(expected @ expected.T).max())


def test_the_closed_form_of_triplets_is_that_of_the_literal_matrices(problem):
    X, y, _ = problem
    T = draw_triplets(y, 5, 0)
    contrasts = contrast_matrix(T, 90).toarray()
    _, expected = literal.closed_form(X, contrasts, None, 1.0, 0.9, 0.3, 5)
    reduced = ReducedProblem(X, Triplets(T, 90), 5)
    C = reduced.solve(reduced.whitening(literal.mean_square_of_a_row(X), 0.9), 0.3)
    assert np.allclose(C @ C.T, expected @ expected.T)


def test_the_scatter_within_classes_whitens_if_that_between_them_is_left_out(problem):
    X, y, _ = problem
    reduced = ReducedProblem(X, Labels(y), 12)
    rows = X @ np.linalg.inv(np.linalg.cholesky(reduced.whitening(1e-12, 1.0))).T
    for label in range(3):
        rows[y == label] -= rows[y == label].mean(axis=0)
    assert np.allclose(rows.T @ rows, np.eye(12), atol=1e-6)


@pytest.mark.parametrize("within", [0.0, 0.9])
def test_a_round_is_a_step_along_the_gradient_of_the_hinge(problem, within):
    X, y, _ = problem
    reduced = ReducedProblem(X, Labels(y), 12)
    A = reduced.whitening(1.0, within)
    C = reduced.solve(A, 0.5)
    found, hinges = reduced.rounds(A, C, 1, 0.1, np.random.RandomState(0))  # all 90 rows are drawn
    i, j, w, mean = Labels(y).active_pairs(normalize(X @ C), 0.1)
    G = np.linalg.solve(A, X.T @ pair_product(i, j, w, X @ C, np.eye(90)) @ X @ C)
    G *= ROUND_STEP * np.linalg.norm(X @ C) / np.linalg.norm(X @ G)
    assert np.allclose(found, C + G)
    assert hinges == [pytest.approx(mean)]
    assert mean > 0


def test_later_rounds_make_shorter_steps(problem):
    X, y, _ = problem
    reduced = ReducedProblem(X, Labels(y), 5)
    A = reduced.whitening(1.0, 0.0)
    maps = [reduced.rounds(A, reduced.solve(A, 1.0), n, 0.1, np.random.RandomState(0))[0] for n in range(5)]
    lengths = [np.linalg.norm(X @ (b - a)) / np.linalg.norm(X @ a) for a, b in pairwise(maps)]
    assert np.allclose(lengths, [ROUND_STEP / root for root in np.sqrt([1, 2, 3, 4])])


def test_a_round_draws_a_share_of_the_rows_within_bounds():
    assert [reduced_problem.round_rows(n) for n in (10, 12_000, 36_000, 10**6)] == [1000, 3000, 9000, 10_000]


def test_the_rank_of_the_rows_limits_the_directions(problem):
    X, y, _ = problem
    reduced = ReducedProblem(X[:, :3] @ np.ones((3, 8)) + X[:, :1], Labels(y), 5)
    assert reduced.rank == 1
    assert reduced.solve(reduced.whitening(1.0, 0.9), 0.1).shape == (8, 1)
