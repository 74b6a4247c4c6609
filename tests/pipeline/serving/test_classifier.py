"""The classifier that a learned metric makes, and its file."""

import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from mlflow.exceptions import MlflowException
from scipy.spatial.distance import cdist
from sklearn.base import clone

from flrml import FLRML, knn_accuracy
from flrml.datasets.encoders.rows import RowsEncoder
from flrml.methods import build
from flrml.pipeline.serving.classifier import MetricClassifier, RawInputModel, _load_pyfunc
from flrml.pipeline.stages.learned_map import LearnedMap
from flrml.rows import BinaryRows


@pytest.fixture(scope="module")
def fitted(digits):
    X, y, *_ = digits
    return FLRML(10, max_rank=30, random_state=0).fit(X[:300], y[:300])


@pytest.fixture(scope="module")
def classifier(fitted, digits):
    X, y, *_ = digits
    return MetricClassifier(LearnedMap.of(fitted), n_neighbors=3).fit(X[:300], y[:300])


def test_the_classifier_embeds_and_predicts_as_the_evaluation_does(fitted, digits):
    X, y, X_test, y_test = digits
    X, y = X[:300], y[:300]
    classifier = MetricClassifier(LearnedMap.of(fitted), n_neighbors=3).fit(X, y)
    expected = knn_accuracy(fitted.transform(X), y, fitted.transform(X_test), y_test, n_neighbors=3)
    assert classifier.score(X_test, y_test) == expected
    assert expected > 0.8
    np.testing.assert_array_equal(classifier.transform(X_test), fitted.transform(X_test))
    np.testing.assert_array_equal(classifier.classes_, np.arange(10))


def test_the_classifier_follows_scikit_learns_conventions(fitted):
    copy = clone(MetricClassifier(LearnedMap.of(fitted), n_neighbors=7))
    assert copy.get_params()["n_neighbors"] == 7
    assert not hasattr(copy, "y_")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_classifier_comes_back_exactly_from_its_file(tmp_path, fitted, digits, dtype):
    X, y, X_test, _ = (part.astype(dtype) if part.ndim == 2 else part for part in digits)
    classifier = MetricClassifier(LearnedMap.of(fitted), n_neighbors=3).fit(X[:300], y[:300])
    classifier.save(tmp_path / "classifier.npz")
    back = MetricClassifier.load(tmp_path / "classifier.npz")
    assert back.n_neighbors == 3
    assert back.embedded_.dtype == classifier.embedded_.dtype
    np.testing.assert_array_equal(back.transform(X_test), classifier.transform(X_test))
    np.testing.assert_array_equal(back.predict(X_test), classifier.predict(X_test))


@pytest.mark.parametrize("kind", ["csr", "binary"])
def test_sparse_training_rows_come_back_exactly(tmp_path, kind, digits):
    X, y, *_ = digits
    rows = sp.csr_matrix((X[:100] > 0.1).astype(np.float32))
    if kind == "binary":
        rows = BinaryRows(rows.indptr, rows.indices, rows.shape[1])
    fitted = MetricClassifier(LearnedMap(None, "cosine")).fit(rows, y[:100])
    fitted.save(tmp_path / "classifier.npz")
    back = MetricClassifier.load(tmp_path / "classifier.npz")
    np.testing.assert_array_equal(back.embedded_.toarray(), rows[:].toarray())


def test_a_bilinear_similarity_comes_back(tmp_path, digits):
    X, y, X_test, _ = digits
    learned = LearnedMap.of(build("oasis", random_state=0).fit(X[:200], y[:200]))
    fitted = MetricClassifier(learned).fit(X[:200], y[:200])
    fitted.save(tmp_path / "classifier.npz")
    back = MetricClassifier.load(tmp_path / "classifier.npz")
    np.testing.assert_array_equal(back.predict(X_test), fitted.predict(X_test))


def test_the_model_of_mlflow_takes_raw_rows_and_comes_back_from_its_folder(tmp_path, classifier, digits):
    RawInputModel(classifier, RowsEncoder(n_columns=64)).save(tmp_path)
    model = _load_pyfunc(str(tmp_path))
    scaled = digits[2] * np.arange(1, len(digits[2]) + 1)[:, None]
    np.testing.assert_array_equal(model.predict(scaled), classifier.predict(digits[2]))
    np.testing.assert_array_equal(model.predict(sp.csr_matrix(scaled)), classifier.predict(digits[2]))


def test_names_of_classes_and_rows_come_back(tmp_path, fitted, digits):
    X, y, X_test, _ = digits
    names = np.array([f"row {number}" for number in range(300)])
    classifier = MetricClassifier(LearnedMap.of(fitted), n_neighbors=2)
    classifier.fit(X[:300], np.array(list("abcdefghij"))[y[:300]], names).save(tmp_path / "classifier.npz")
    back = MetricClassifier.load(tmp_path / "classifier.npz")
    np.testing.assert_array_equal(back.predict(X_test), classifier.predict(X_test))
    found = back.neighbors(X[:3])
    assert found["neighbor_1"].tolist() == ["row 0", "row 1", "row 2"]
    assert found["class_1"].tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "bilinear"])
def test_similarities_are_those_of_pairs(digits, metric):
    X, y, X_test, _ = (part[:100] for part in digits)
    W = np.random.RandomState(0).standard_normal((64, 64))
    classifier = MetricClassifier(LearnedMap(None, metric, W if metric == "bilinear" else None)).fit(X, y)
    expected = {"cosine": X_test @ X.T, "bilinear": X_test @ W @ X.T, "euclidean": -cdist(X_test, X)}[metric]
    found = classifier.neighbors(X_test)
    for k in range(1, 6):
        rows = found[f"neighbor_{k}"].to_numpy()
        np.testing.assert_allclose(found[f"similarity_{k}"], expected[np.arange(100), rows], rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(found[f"class_{k}"], y[rows])
    np.testing.assert_allclose(found["similarity_1"], expected.max(axis=1), rtol=1e-4, atol=1e-6)


def test_a_model_without_a_map_has_no_embedding(digits):
    model = RawInputModel(MetricClassifier(LearnedMap(None, "cosine")).fit(*digits[:2]), RowsEncoder(n_columns=64))
    with pytest.raises(MlflowException, match="has no embedding"):
        model.predict(digits[2], params={"output": "embedding"})


def test_the_file_holds_no_pickle(tmp_path, classifier):
    classifier.save(tmp_path / "classifier.npz")
    with zipfile.ZipFile(tmp_path / "classifier.npz") as archive:
        for name in archive.namelist():
            np.load(archive.open(name), allow_pickle=False)


def test_a_classifier_keeps_the_intercept_of_its_metric(tmp_path, digits):
    X, y = 16 * digits[0][:300] * np.linspace(1, 2, 300)[:, None], digits[1][:300]
    fitted = build("flrml-ridge", n_components=10, local=0.1, rounds=0, random_state=0).fit(X, y)
    assert fitted.intercept_.any()
    classifier = MetricClassifier(LearnedMap.of(fitted)).fit(X, y)
    classifier.save(tmp_path / "classifier.npz")
    back = MetricClassifier.load(tmp_path / "classifier.npz")
    np.testing.assert_array_equal(back.transform(X), fitted.transform(X))
