import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.preprocessing import normalize

from flrml import knn_accuracy
from flrml.baselines.classifiers import LogisticControl, RidgeClassifierControl

controls = pytest.mark.parametrize(
    ("control", "classifier"),
    [
        (RidgeClassifierControl(0.5, random_state=0), RidgeClassifier(0.5)),
        (LogisticControl(2.0, random_state=0), LogisticRegression(C=2.0, max_iter=1000)),
    ],
)


@controls
def test_the_map_is_the_coefficients_of_the_classifier(control, classifier, small_digits):
    data = small_digits
    control.fit(data.X, data.y)
    np.testing.assert_allclose(control.components_, classifier.fit(data.X, data.y).coef_, rtol=1e-6, atol=1e-9)
    embedded, others = control.transform(data.X), control.transform(data.X_test)
    assert knn_accuracy(embedded, data.y, others, data.y_test, metric=control.metric) > 0.85


@controls
def test_sparse_rows_are_taken_and_their_type_is_kept(control, classifier, text):
    X, y = text
    control.fit(X.astype(np.float32), y)
    assert control.components_.dtype == np.float32
    assert control.components_.shape == (4, 300)
    dense = control.fit(X.toarray(), y).components_
    np.testing.assert_allclose(control.fit(sp.csr_matrix(X), y).components_, dense, rtol=1e-2, atol=1e-3)


@controls
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("copies", [1, 2])
def test_few_wide_rows_are_solved_exactly(control, classifier, n_classes, copies):
    random = np.random.RandomState(0)
    X, y = sp.random(40, 4000, 0.05, "csr", random_state=random), np.arange(40) % n_classes
    X, y = sp.vstack([X] * copies, format="csr"), np.tile(y, copies)
    expected = np.atleast_2d(classifier.fit(X.toarray(), y).coef_)
    tolerance = 1e-9 if isinstance(classifier, RidgeClassifier) else 1e-3  # that solver iterates
    np.testing.assert_allclose(control.fit(X, y).components_, expected, atol=tolerance)


@controls
def test_a_single_decision_value_is_compared_by_distance(control, classifier):
    """Without the intercept all values can have the same sign, which is all that a cosine would see."""
    X, y = load_breast_cancer(return_X_y=True)
    control.fit(normalize(X), y)
    assert control.components_.shape == (1, 30)
    assert control.metric == control.metric_ == "euclidean"
    assert type(control).metric == "cosine"
