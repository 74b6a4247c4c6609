import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from flrml import RidgeFLRML, knn_accuracy
from flrml.ridge.candidates import Settings
from flrml.ridge.scaling import ScaledRows, scale_rows, squares_of
from flrml.ridge.solver import scaled_for
from flrml.rows.binary import BinaryRows, RunRows, find_runs


@pytest.fixture
def table():
    """Rows whose features differ in size, and whose classes differ in distance from the origin alone."""
    random = np.random.RandomState(0)
    y = np.arange(300) % 3
    X = (1 + y[:, None]) * np.array([[100.0, 1.0, 0.01]]) * (1 + 0.1 * random.standard_normal((300, 3)))
    return X, y


def dense(X, weights, constant):
    scaled = X * weights
    return np.hstack((scaled, np.full((len(X), 1), constant))) if constant else scaled


@pytest.mark.parametrize("constant", [0.0, 2.5])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_products_are_those_of_the_dense_rows(constant, kind):
    random = np.random.RandomState(0)
    X, weights = random.standard_normal((30, 7)), random.rand(7) + 0.1
    expected, found = dense(X, weights, constant), ScaledRows(kind(X), weights, constant)
    B, R = random.standard_normal((expected.shape[1], 4)), random.standard_normal((30, 4))
    assert found.shape == expected.shape
    assert np.allclose(found.product(B), expected @ B)
    assert np.allclose(found.product_transposed(R), expected.T @ R)
    assert np.allclose(found.toarray(), expected)
    assert np.allclose(found.gram, expected @ expected.T)
    L_transposed, intercept = found.unscale(B.copy())
    assert np.allclose(X @ L_transposed + intercept, expected @ B)


def test_features_are_divided_by_a_power_of_their_root_mean_square(table):
    X, _ = table
    root_mean_squares = np.sqrt(np.mean(X**2, axis=0))
    for scale in (0.0, 0.5, 1.0):
        found = scale_rows(X, scale, False)
        assert np.allclose(found.toarray(), X / root_mean_squares**scale)
        assert found.mean_square == pytest.approx(np.mean(np.sum(found.toarray() ** 2, axis=1)))
        assert found.scale == scale


def test_a_feature_that_is_always_zero_gets_a_finite_weight():
    found = scale_rows(np.array([[1.0, 0.0], [1.0, 0.0]]), 1.0, True)
    assert np.isfinite(found.toarray()).all()
    assert found.mean_square == pytest.approx(2)


def test_discriminants_have_an_intercept_and_the_unsupervised_form_has_none(table):
    X, _ = table
    assert scaled_for(X, (False, 0.5), Settings(2)).constant > 0
    assert scaled_for(X, (True, 0.0), Settings(2)).constant == 0
    for unsupervised in (False, True):
        assert scaled_for(X, (unsupervised, 0.0), Settings(2, fit_intercept=False)).constant == 0
        assert scaled_for(X, (unsupervised, 0.0), Settings(2, fit_intercept=True)).constant > 0


def test_an_intercept_tells_a_class_around_the_origin_apart_in_rows_of_unit_length():
    """The middle one of three classes in a row has no direction of its own."""
    random, y = np.random.RandomState(0), np.arange(600) % 3
    X = normalize(np.hstack((4.0 * (y[:, None] - 1), np.zeros((600, 20)))) + random.standard_normal((600, 21)))

    def accuracy(fit_intercept):
        given = {"ridge": 1.0, "within": 0.97, "local": 0.1, "rounds": 0}
        model = RidgeFLRML(3, **given, fit_intercept=fit_intercept, random_state=0).fit(X[:400], y[:400])
        return knn_accuracy(model.transform(X[:400]), y[:400], model.transform(X[400:]), y[400:])

    assert accuracy(True) > accuracy(False) + 0.05


def test_squares_are_means_over_rows_of_any_kind(table):
    X, _ = table
    X = np.where(X > 1, X, 0)
    for data in (X, sp.csr_matrix(X)):
        assert np.allclose(squares_of(data), np.mean(X**2, axis=0))
    ones = sp.csr_matrix(np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]))
    runs, indptr = find_runs(ones.indices, ones.indptr)
    for binary in (BinaryRows(ones.indptr, ones.indices, 4), RunRows(indptr, runs, 4)):
        assert np.allclose(squares_of(binary), [1 / 6, 1 / 6, 1 / 3, 0])


def test_an_intercept_tells_rows_apart_that_differ_in_length_alone(table):
    X, y = table

    def accuracy(fit_intercept):
        model = RidgeFLRML(3, fit_intercept=fit_intercept, random_state=0).fit(X[:200], y[:200])
        return knn_accuracy(model.transform(X[:200]), y[:200], model.transform(X[200:]), y[200:])

    assert accuracy("auto") > 0.9 > 0.6 > accuracy(False)


@pytest.mark.parametrize("short_side", [True, False])
def test_the_unit_of_a_feature_does_not_matter_if_features_are_made_equal(table, short_side, monkeypatch):
    if not short_side:
        monkeypatch.setattr("flrml.ridge.scaling.EXACT_ROWS", 0)
        monkeypatch.setattr("flrml.ridge.scaling.ScaledRows.is_narrow", lambda self, n_columns: False)
    X, y = table
    given = {"ridge": 0.1, "within": 0.5, "local": 0.1, "rounds": 0, "scale": 1.0, "random_state": 0}
    first, second = (
        RidgeFLRML(3, **given, fit_intercept=False).fit(rows, y).transform(rows) for rows in (X, X * [1, 60, 9])
    )
    assert np.allclose(first @ first.T, second @ second.T, atol=1e-6 * abs(first @ first.T).max())
