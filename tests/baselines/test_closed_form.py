"""KISSME, RMML, LDA and the controls: identities that their formulas promise."""

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD

from flrml import BinaryRows
from flrml.baselines.controls import CosineControl, SVDControl
from flrml.baselines.kissme import KISSME, metric_of, pair_covariances
from flrml.baselines.lda import LDA
from flrml.baselines.rmml import RMML, geodesic_metric
from flrml.exceptions import NoSolutionError


def spd(random, size=6):
    A = random.standard_normal((size, 2 * size))
    return A @ A.T / size


def test_kissme_finds_the_metric_of_two_gaussians(random):
    A, B = np.diag([0.5, 1.0, 2.0]), np.diag([2.0, 1.5, 3.0])
    n = 60_000
    half = random.standard_normal((n, 3)) @ np.sqrt(A)
    far = random.standard_normal((n, 3)) @ np.sqrt(B)
    Z = np.concatenate((np.zeros((n, 3)), half, far))
    T = np.arange(n)[:, None] + [0, n, 2 * n]
    M = metric_of(*pair_covariances(Z, T))
    np.testing.assert_allclose(M, np.linalg.inv(A) - np.linalg.inv(B), atol=0.03)


def test_kissme_follows_linear_changes_of_the_data(random, triplet_case):
    Z, _, T = triplet_case
    A = random.standard_normal((6, 6))
    changed = metric_of(*pair_covariances(Z @ A.T, T))
    back = np.linalg.inv(A)
    np.testing.assert_allclose(changed, back.T @ metric_of(*pair_covariances(Z, T)) @ back, atol=1e-8)


def test_kissme_without_a_ridge_reports_singular_covariances(digits):
    few = np.flatnonzero(digits.y < 2)[:12]
    with pytest.raises(NoSolutionError, match="regularisation"):
        KISSME(ridge=0).fit(np.eye(12), digits.y[few])


def test_rmml_solves_the_riccati_equation(random):
    S, D = spd(random), spd(random)
    M = geodesic_metric(S, D, 0.1)
    eye = np.eye(6)
    np.testing.assert_allclose(M @ (S + 0.1 * eye) @ M, D + 0.1 * eye, atol=1e-10)
    assert np.linalg.eigvalsh(M)[0] > 0
    np.testing.assert_allclose(geodesic_metric(S, D, 0.1, t=0), np.linalg.inv(S + 0.1 * eye), atol=1e-10)
    np.testing.assert_allclose(geodesic_metric(S, D, 0.1, t=1), D + 0.1 * eye, atol=1e-10)


def test_full_rank_maps_give_the_metric_back(digits):
    T = digits.triplets
    model = RMML(n_components=64, lam=0.1).fit(digits.X, triplets=T)
    Z = digits.X @ np.linalg.svd(digits.X, full_matrices=False)[2].T
    S, D = pair_covariances(Z[:, : digits.spectrum.rank], T)
    M = geodesic_metric(S, D, 0.1 * np.trace(D) / len(D))
    pairs = np.stack((digits.X[:50], digits.X[50:100]), axis=1)
    difference = (Z[:50] - Z[50:100])[:, : digits.spectrum.rank]
    literal = np.sqrt(np.einsum("pi,ij,pj->p", difference, M, difference))
    np.testing.assert_allclose(model.pair_distance(pairs), literal, rtol=1e-8)


def test_lda_has_one_direction_fewer_than_classes(digits):
    assert LDA().fit(digits.X, digits.y).components_.shape == (9, 64)


def test_svd_control_is_the_truncated_svd(digits):
    model = SVDControl(10).fit(digits.X)
    expected = TruncatedSVD(10, algorithm="arpack").fit(digits.X).components_
    np.testing.assert_allclose(np.abs(model.components_ @ expected.T), np.eye(10), atol=1e-6)
    white = SVDControl(10, whiten=True).fit(digits.X, spectrum=digits.spectrum).transform(digits.X)
    np.testing.assert_allclose(white.T @ white, np.eye(10), atol=1e-8)


def test_cosine_control_hands_rows_through():
    X = BinaryRows(np.array([0, 1, 3]), np.array([2, 0, 1]), 3)
    assert CosineControl().fit(X).transform(X) is X
