"""LRSML: operator, proximal map and the convergence of the ADMM."""

import numpy as np
import pytest

from flrml.baselines.common import pairs_of
from flrml.baselines.lrsml import ADMM, LRSML, PairSimilarities, hinge_prox, project_psd


def test_prox_of_the_hinge():
    np.testing.assert_allclose(hinge_prox(np.array([4.0, 1.0, -1.0]), 2.0), [2.0, 0.0, -1.0])


def test_operator_and_adjoint(triplet_case, random):
    Z, _, T = triplet_case
    pairs = PairSimilarities(Z, *pairs_of(T))
    W = random.standard_normal((6, 6))
    W, c = W + W.T, random.standard_normal(2 * len(T))
    literal = [Z[a] @ W @ Z[b] for a, b in zip(pairs.a, pairs.b, strict=True)]
    np.testing.assert_allclose(pairs.of(W), literal)
    assert pairs.of(W) @ c == pytest.approx(np.sum(pairs.adjoint(c) * W))
    rows = np.stack(
        [(np.outer(Z[a], Z[b]) + np.outer(Z[b], Z[a])).ravel() / 2 for a, b in zip(pairs.a, pairs.b, strict=True)]
    )
    assert pairs.norm() == pytest.approx(np.linalg.norm(rows, 2) ** 2, rel=0.02)


def test_admm_converges_to_a_semidefinite_matrix(small_digits):
    Z = small_digits.X[:400] @ np.linalg.svd(small_digits.X[:400])[2][:10].T
    T = small_digits.triplets[np.all(small_digits.triplets < 400, axis=1)]
    traces = {}
    for alpha in (1e-3, 1e-1):
        admm = ADMM(PairSimilarities(Z, *pairs_of(T)), alpha, 1e-2, 1.0)
        start = admm.objective()
        for _ in range(200):
            residual, _ = admm.step()
        assert np.linalg.eigvalsh(admm.W)[0] > -1e-8
        assert residual < 1e-3
        assert admm.objective() < start
        traces[alpha] = np.trace(admm.W)
    assert traces[1e-1] < traces[1e-3]


def test_projection_on_semidefinite_matrices(random):
    M = random.standard_normal((5, 5))
    P = project_psd(M + M.T)
    assert np.linalg.eigvalsh(P)[0] > -1e-12
    np.testing.assert_allclose(project_psd(P), P, atol=1e-12)


def test_the_objective_falls(small_digits):
    model = LRSML(8, max_iter=5).fit(small_digits.X, triplets=small_digits.triplets)
    assert model.history_[-1] < model.history_[0]
