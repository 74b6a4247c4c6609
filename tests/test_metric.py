import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from flrml import FLRML, MFLRML, BinaryRows, RidgeFLRML, knn_accuracy, metric
from flrml.baselines.controls import CosineControl
from flrml.baselines.kissme import KISSME
from flrml.baselines.oasis import OASIS

ESTIMATORS = [FLRML, MFLRML, RidgeFLRML, KISSME, OASIS, CosineControl]


def fitted(Estimator, X, y):
    names = Estimator().get_params()
    return Estimator(**{k: v for k, v in {"n_components": 8, "random_state": 0}.items() if k in names}).fit(X, y)


def literal_score(model, x, other):
    """The similarity of two rows by the definition of each metric."""
    a, b = np.asarray(model.transform(x[None]))[0], np.asarray(model.transform(other[None]))[0]
    if model.metric == "bilinear":
        return a @ model.similarity_ @ b
    if model.metric == "euclidean":
        return -np.sqrt(np.sum((a - b) ** 2))
    return a @ b / (np.sqrt(a @ a) * np.sqrt(b @ b)) if a.any() and b.any() else 0.0


@pytest.mark.filterwarnings("ignore::flrml.exceptions.FlrmlWarning")
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_pairs_are_compared_by_the_learned_metric(Estimator, digits):
    X, y = digits[:2]
    model = fitted(Estimator, X, y)
    first, second = X[:10].copy(), X[10:20]
    first[3] = 0
    expected = [literal_score(model, x, other) for x, other in zip(first, second, strict=True)]
    pairs = np.stack((first, second), axis=1)
    nested = tuple((tuple(x), tuple(other)) for x, other in pairs.tolist())
    for given in (pairs, nested, (first, second), (sp.csr_matrix(first), sp.csr_matrix(second))):
        np.testing.assert_allclose(model.pair_score(given), expected, atol=1e-10)
    if model.metric == "bilinear":
        with pytest.raises(ValueError, match="OASIS learns a similarity, which has no distance; use pair_score"):
            model.pair_distance(pairs)
        return
    distances = -np.array(expected) if model.metric == "euclidean" else np.sqrt(2 - 2 * np.array(expected))
    np.testing.assert_allclose(model.pair_distance(pairs), distances, atol=1e-7)
    np.testing.assert_allclose(model.pair_distance((sp.csr_matrix(first), second)), distances, atol=1e-7)
    assert model.pair_distance((second.astype(np.float32), second)).max() < 1e-5, (
        "rows have no distance to themselves"
    )


@pytest.mark.parametrize("bad", ["shape", "lengths"])
def test_pairs_of_another_shape_are_refused(digits, bad):
    X, y = digits[:2]
    model = KISSME(5, random_state=0).fit(X, y)
    if bad == "shape":
        with pytest.raises(ValueError, match=r"shape \(n_pairs, 2, 64\)"):
            model.pair_score(X[:10])
    else:
        with pytest.raises(ValueError, match=r"one shape, got \(10, 64\), \(9, 64\)"):
            model.pair_distance((X[:10], X[:9]))


def test_binary_rows_are_compared():
    X = BinaryRows(np.array([0, 1, 3]), np.array([2, 0, 1]), 3)
    other = BinaryRows(np.array([0, 1, 2]), np.array([2, 0]), 3)
    np.testing.assert_allclose(CosineControl().fit(X).pair_score((X, other)), [1, np.sqrt(0.5)], rtol=1e-6)


@pytest.mark.parametrize("Estimator", [FLRML, RidgeFLRML])
@pytest.mark.filterwarnings("ignore::flrml.exceptions.FlrmlWarning")
def test_the_learned_metric_verifies_better_than_the_distance_of_embeddings(digits, Estimator):
    """Pairs of test digits: do both show the same one?"""
    X, y, X_test, y_test = digits
    model = Estimator(20, random_state=0).fit(X, y)
    i, j = np.random.RandomState(0).randint(len(y_test), size=(2, 3000))
    same, Y = y_test[i] == y_test[j], model.transform(X_test)
    by_metric = roc_auc_score(same, model.pair_score((X_test[i], X_test[j])))
    by_distance = roc_auc_score(same, -np.linalg.norm(Y[i] - Y[j], axis=1))
    print(f"{Estimator.__name__}: AUC {by_metric:.3f}, by Euclidean distance {by_distance:.3f}")
    assert by_metric > by_distance + 0.005
    assert by_metric > 0.85
    assert roc_auc_score(same, -model.pair_distance((X_test[i], X_test[j]))) == pytest.approx(by_metric, abs=1e-3)


def test_the_matrix_is_that_of_the_distance_of_embeddings(digits):
    X, y = digits[:2]
    model = KISSME(5, random_state=0).fit(X, y)
    difference = X[0] - X[10]
    squared = difference @ model.get_mahalanobis_matrix() @ difference
    assert squared == pytest.approx(model.pair_distance((X[:1], X[10:11]))[0] ** 2)
    with pytest.raises(ValueError, match="OASIS learns a similarity, which has no distance; use similarity_"):
        OASIS(random_state=0).fit(X, y).get_mahalanobis_matrix()


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_masked_arrays_are_refused(digits, Estimator):
    X, y = digits[0][:200], digits[1][:200]
    masked_y = np.ma.masked_equal(y, 3)
    with pytest.raises(ValueError, match="X is a masked array; fill masked values or leave out their rows"):
        fitted(Estimator, np.ma.masked_equal(X, 0), y)
    if Estimator is not CosineControl:  # it uses no labels
        with pytest.raises(ValueError, match="y is a masked array"):
            fitted(Estimator, X, masked_y)
    with pytest.raises(ValueError, match="y_test is a masked array"):
        knn_accuracy(X, y, X, masked_y)


def test_a_matrix_larger_than_the_memory_is_refused(monkeypatch):
    rows = sp.csr_matrix((np.ones(4), ([0, 1, 2, 3], [0, 1, 0, 1])), shape=(4, 1_000_000))
    assert metric.physical_memory() < 8e12
    message = r"a 1000000 × 1000000 matrix takes 8,000 GB; use components_, pair_score or pair_distance"
    with pytest.raises(MemoryError, match=message):
        CosineControl().fit(rows).get_mahalanobis_matrix()
    monkeypatch.delattr("os.sysconf")  # as on Windows
    assert metric.physical_memory() == np.inf
