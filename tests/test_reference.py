import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import normalize
from sklearn.utils.random import sample_without_replacement

from flrml import BinaryRows, decompose, stiefel
from flrml.loss import LossRows
from flrml.reference import CenteredRows, ReferenceFLRML, ReferenceLoss, ReferenceMFLRML
from flrml.rows import cross_gram, fingerprint, gram, gram_of_columns, product, product_transposed
from flrml.triplets import contrast_matrix, draw_triplets
from tests.literal import authors_search, z_by_loops


def rows(kind):
    random = np.random.RandomState(0)
    X = normalize(random.standard_normal((20, 8)) * (random.random_sample((20, 8)) < 0.6))
    if kind == "binary":
        ones = sp.csr_matrix(X != 0)
        return BinaryRows(ones.indptr, ones.indices, 8, np.float64)
    return sp.csr_matrix(X) if kind == "sparse" else X


@pytest.mark.parametrize("kind", ["dense", "sparse", "binary"])
def test_centered_rows_multiply_like_a_dense_matrix_with_its_row_means_subtracted(kind):
    X = rows(kind)
    dense = X[:].toarray() if kind != "dense" else X
    dense = dense - dense.mean(axis=1, keepdims=True)
    centered, random = CenteredRows(X), np.random.RandomState(1)
    B, R = random.standard_normal((8, 3)), random.standard_normal((20, 3))
    np.testing.assert_allclose(product(centered, B), dense @ B, atol=1e-12)
    np.testing.assert_allclose(product_transposed(centered, R), dense.T @ R, atol=1e-12)
    np.testing.assert_allclose(gram(centered), dense @ dense.T, atol=1e-12)
    np.testing.assert_allclose(gram_of_columns(centered), dense.T @ dense, atol=1e-12)
    one, other = CenteredRows(X[:7]), CenteredRows(X[7:])
    np.testing.assert_allclose(cross_gram(one, other), dense[:7] @ dense[7:].T, atol=1e-12)
    assert fingerprint(centered) != fingerprint(X)


def reference_loss(n=40, margin_ratio=1.0):
    random = np.random.RandomState(0)
    X = normalize(random.standard_normal((n, 15)))
    T = draw_triplets(np.arange(n) % 3, 5, 0)
    rows = LossRows(decompose(X), contrast_matrix(T, n))
    loss = ReferenceLoss(rows, margin_ratio, random)
    P = stiefel.random_point(rows.rank, 4, random)
    loss.start(loss.image(P))
    return loss, P, T


def test_trials_are_compared_with_the_hinge_sum_from_the_first_step_on():
    loss, P, T = reference_loss()
    start, _ = loss.accept(loss.image(P))
    assert start == pytest.approx(loss.value(loss.image(P)))
    kept, _ = loss.accept(loss.image(P))
    z = z_by_loops(loss.image(P).E * np.sqrt(loss.s), T)
    assert kept == pytest.approx(np.maximum(z + loss.margin, 0).sum())


def test_the_gradient_belongs_to_the_active_set_before_the_step():
    loss, P, _ = reference_loss(margin_ratio=0.05)
    loss.accept(loss.image(P))
    moved = stiefel.random_point(len(P), 4, np.random.RandomState(5))
    before = loss.active
    _, gradient = loss.accept(loss.image(moved))
    assert not np.array_equal(before, loss.active)
    loss.active = before
    direction, step = np.random.RandomState(6).standard_normal(P.shape), 1e-6
    ahead, behind = (loss.value(loss.image(moved + sign * step * direction)) for sign in (1, -1))
    assert np.sum(gradient() * direction) == pytest.approx((ahead - behind) / (2 * step), rel=1e-5, abs=1e-8)


def test_the_margin_comes_from_a_hundred_samples():
    loss = reference_loss(n=150)[0]
    assert len(np.unique(loss.margin_rows)) == 100
    assert len(reference_loss(n=90)[0].margin_rows) == 90


class InCoordinates:
    """A loss as a function of P itself."""

    def __init__(self, loss):
        self.loss = loss

    def value(self, P):
        return self.loss.value(self.loss.image(P))

    def accept(self, P):
        return self.loss.accept(self.loss.image(P))


@pytest.mark.parametrize("seed", range(4))
def test_the_descent_is_that_of_the_authors_and_goes_on_after_a_null_step(seed):
    def start():
        random, y = np.random.RandomState(seed), np.arange(300) % 5
        centres = 2 * random.standard_normal((5, 200))[y] * (random.random_sample((300, 200)) < 0.1)
        spectrum = decompose(normalize(centres + 0.4 * random.standard_normal((300, 200))))
        T = draw_triplets(y, 5, seed)
        loss = ReferenceLoss(LossRows(spectrum, contrast_matrix(T, 300)), 1.0, random)
        P = np.vstack((stiefel.random_point(20, 20, random), np.zeros((spectrum.rank - 20, 20))))
        loss.start(loss.image(P))
        return loss, P

    loss, P = start()
    values, steps, trials = authors_search(InCoordinates(loss), P)
    assert trials[1] == 15
    assert steps[1] < 1e-10 < 1e-1 < steps[2]
    loss, P = start()
    found = ReferenceFLRML.search(loss, P)
    # The move of a null step has few correct digits, and the next step is computed from it.
    np.testing.assert_allclose(found.steps, steps, rtol=1e-2)
    np.testing.assert_allclose(found.values, values, rtol=1e-3)


def dense_reference_step(X, T, random, d):
    """One step of the authors' M-FLRML on all samples, with every matrix explicit."""

    def over_coordinates(B):
        return B - B.mean(axis=1, keepdims=True)

    centered = X - X.mean(axis=1, keepdims=True)
    V, sigma, Ut = np.linalg.svd(centered, full_matrices=False)
    kept = sigma > 1e-6 * sigma[0]
    V, sigma, Ut = V[:, kept], sigma[kept], Ut[kept]
    signs = np.sign(V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])])
    V, Ut = V * signs, signs[:, None] * Ut
    contrasts = contrast_matrix(T, len(X)).toarray()
    B = (random.standard_normal((d, len(X))) @ V) * sigma
    Q, root_s, Pt = np.linalg.svd(over_coordinates(B), full_matrices=False)
    P, s = Pt.T, root_s**2
    K = -V.T @ contrasts.T @ V  # every sample is active
    G = (K + K.T) @ P @ np.diag(s)
    target = P - G + P @ G.T @ P
    P_next = stiefel.polar(over_coordinates(target.T).T)
    s_next = np.log1p(np.exp(-np.diag(P.T @ K @ P)))
    return Q @ np.diag(np.sqrt(s_next)) @ P_next.T @ np.diag(1 / sigma) @ Ut


@pytest.mark.parametrize("sparse", [False, True])
def test_one_batch_of_all_samples_equals_a_dense_step(sparse):
    random = np.random.RandomState(3)
    X, y = random.standard_normal((24, 40)), np.arange(24) % 3
    T = draw_triplets(y, 5, 0)
    model = ReferenceMFLRML(4, batch_triplets=len(T), n_batches=1, random_state=0)
    model.fit(sp.csr_matrix(X) if sparse else X, triplets=T)

    random = np.random.RandomState(0)
    sample_without_replacement(len(T), len(T), random_state=random)  # the estimator's choice of triplets
    np.testing.assert_allclose(model.components_, dense_reference_step(X, T, random, 4), atol=1e-8)
