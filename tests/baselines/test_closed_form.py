"""KISSME, RMML, LDA and the controls: identities that their formulas promise."""

import numpy as np
import pytest
import scipy.linalg
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize

from flrml import BinaryRows, knn_accuracy
from flrml.baselines.controls import CosineControl, SVDControl
from flrml.baselines.kissme import KISSME, metric_of, pair_covariances
from flrml.baselines.lda import LDA, SHRINKAGES, TunedLDA
from flrml.baselines.rmml import RMML, geodesic_metric
from flrml.exceptions import NoSolutionError
from flrml.folds import split_labels


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


def test_kissme_without_a_ridge_reports_singular_covariances(small_digits):
    few = np.flatnonzero(small_digits.y < 2)[:12]
    with pytest.raises(NoSolutionError, match="regularisation"):
        KISSME(ridge=0).fit(np.eye(12), small_digits.y[few])


def test_rmml_solves_the_riccati_equation(random):
    S, D = spd(random), spd(random)
    M = geodesic_metric(S, D, 0.1)
    eye = np.eye(6)
    np.testing.assert_allclose(M @ (S + 0.1 * eye) @ M, D + 0.1 * eye, atol=1e-10)
    assert np.linalg.eigvalsh(M)[0] > 0
    np.testing.assert_allclose(geodesic_metric(S, D, 0.1, t=0), np.linalg.inv(S + 0.1 * eye), atol=1e-10)
    np.testing.assert_allclose(geodesic_metric(S, D, 0.1, t=1), D + 0.1 * eye, atol=1e-10)


def test_full_rank_maps_give_the_metric_back(small_digits):
    T = small_digits.triplets
    model = RMML(n_components=64, lam=0.1).fit(small_digits.X, triplets=T)
    Z = small_digits.X @ np.linalg.svd(small_digits.X, full_matrices=False)[2].T
    S, D = pair_covariances(Z[:, : small_digits.spectrum.rank], T)
    M = geodesic_metric(S, D, 0.1 * np.trace(D) / len(D))
    pairs = np.stack((small_digits.X[:50], small_digits.X[50:100]), axis=1)
    difference = (Z[:50] - Z[50:100])[:, : small_digits.spectrum.rank]
    literal = np.sqrt(np.einsum("pi,ij,pj->p", difference, M, difference))
    np.testing.assert_allclose(model.pair_distance(pairs), literal, rtol=1e-8)


def test_lda_has_one_direction_fewer_than_classes(small_digits):
    assert LDA().fit(small_digits.X, small_digits.y).components_.shape == (9, 64)


def test_tuned_lda_has_the_best_shrinkage_over_folds(random):
    """Against generalised eigenvectors of the scatter between classes and of the shrunk scatter within them."""
    groups = np.arange(240) // 8
    y = groups % 4
    X = random.standard_normal((240, 8)) + 0.7 * random.standard_normal((4, 8))[y]

    def directions(shrinkage, rows=slice(None)):
        Z, means = X[rows], np.array([X[rows][y[rows] == label].mean(axis=0) for label in range(4)])[y[rows]]
        within, between = (Z - means).T @ (Z - means), (means - Z.mean(axis=0)).T @ (means - Z.mean(axis=0))
        shrunk = (1 - shrinkage) * within + shrinkage * np.trace(within) / 8 * np.eye(8)
        return scipy.linalg.eigh(between, shrunk)[1][:, -3:]

    def n_correct(shrinkage, metric):
        found = 0
        for rows, held in split_labels(y, groups, np.random.RandomState(5)):
            L = directions(shrinkage, rows)
            found += round(len(held) * knn_accuracy(X[rows] @ L, y[rows], X[held] @ L, y[held], metric=metric))
        return found

    model = TunedLDA(random_state=5).fit(X, y, groups=groups)
    scores = {(s, metric): n_correct(s, metric) for s in SHRINKAGES for metric in ("cosine", "euclidean")}
    assert len(set(scores.values())) > 1
    assert scores[model.shrinkage_, model.metric] == max(scores.values())
    expected = directions(model.shrinkage_)
    np.testing.assert_allclose(model.get_mahalanobis_matrix(), expected @ expected.T, rtol=1e-6, atol=1e-9)


def test_tuned_lda_compares_two_classes_by_distance():
    """They have one direction, in which all rows of positive features may have the same sign."""
    X, y = load_breast_cancer(return_X_y=True)
    X = normalize(X)
    model = TunedLDA(random_state=0).fit(X[::2], y[::2])
    embedded, others = model.transform(X[::2]), model.transform(X[1::2])
    assert (TunedLDA.metric, model.metric) == ("cosine", "euclidean")
    assert knn_accuracy(embedded, y[::2], others, y[1::2], metric=model.metric) > 0.88


def test_svd_control_is_the_truncated_svd(small_digits):
    model = SVDControl(10).fit(small_digits.X)
    expected = TruncatedSVD(10, algorithm="arpack").fit(small_digits.X).components_
    np.testing.assert_allclose(np.abs(model.components_ @ expected.T), np.eye(10), atol=1e-6)
    white = (
        SVDControl(10, whiten=True).fit(small_digits.X, spectrum=small_digits.spectrum).transform(small_digits.X)
    )
    np.testing.assert_allclose(white.T @ white, np.eye(10), atol=1e-8)


def test_cosine_control_hands_rows_through():
    X = BinaryRows(np.array([0, 1, 3]), np.array([2, 0, 1]), 3)
    assert CosineControl().fit(X).transform(X) is X
