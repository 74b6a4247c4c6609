import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA, KernelPCA
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from flrml import FLRML
from flrml.exceptions import DamagedFileError
from flrml.files import write_arrays
from flrml.methods import build
from flrml.pipeline.stages.learned_map import LearnedMap


@pytest.fixture(scope="module")
def fitted(digits):
    X, y, *_ = digits
    return FLRML(10, max_rank=30, random_state=0).fit(X[:300], y[:300])


def test_a_metric_comes_back_from_its_file(tmp_path, fitted, digits):
    metric = LearnedMap.of(fitted)
    metric.save(tmp_path / "model.npz", {"method": "flrml"})
    back = LearnedMap.load(tmp_path / "model.npz")
    assert (back.metric, back.W) == ("cosine", None)
    np.testing.assert_array_equal(back.embed(digits[2]), fitted.transform(digits[2]))


def test_a_bilinear_metric_keeps_its_matrix(tmp_path, digits):
    X, y, *_ = digits
    fitted = build("oasis", random_state=0).fit(X[:200], y[:200])
    LearnedMap.of(fitted).save(tmp_path / "model.npz", {})
    back = LearnedMap.load(tmp_path / "model.npz")
    assert back.metric == "bilinear"
    np.testing.assert_array_equal(back.W, fitted.similarity_)


def test_without_a_map_rows_stay_as_they_are(tmp_path):
    LearnedMap(None, "cosine").save(tmp_path / "model.npz", {})
    back = LearnedMap.load(tmp_path / "model.npz")
    X = sp.csr_matrix(np.eye(3))
    assert back.components is None
    assert back.embed(X) is X


def test_a_metric_keeps_its_intercept(tmp_path, digits):
    X, y = 16 * digits[0][:300] * np.linspace(1, 2, 300)[:, None], digits[1][:300]
    fitted = build("flrml-ridge", n_components=10, local=0.1, rounds=0, random_state=0).fit(X, y)
    assert fitted.intercept_.any()
    LearnedMap.of(fitted).save(tmp_path / "model.npz", {})
    np.testing.assert_array_equal(LearnedMap.load(tmp_path / "model.npz").embed(X), fitted.transform(X))


@pytest.mark.parametrize("estimator", [PCA(5), NeighborhoodComponentsAnalysis(5, max_iter=2)])
def test_the_map_of_a_transformer_from_outside_is_its_transform(estimator, digits):
    X, y = digits[0][:100], digits[1][:100]
    learned = LearnedMap.of(estimator.fit(X, y))
    np.testing.assert_allclose(learned.embed(X), estimator.transform(X), rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize(
    ("estimator", "words"),
    [(KernelPCA(5), "no matrix components_"), (PCA(5, whiten=True), "is not x ↦ components_ x")],
)
def test_a_transformer_that_is_not_its_components_is_refused(estimator, words, digits):
    with pytest.raises(TypeError, match=words):
        LearnedMap.of(estimator.fit(digits[0][:100]))


@pytest.mark.parametrize(
    "arrays",
    [
        {"components": np.full((2, 3), np.nan)},
        {"components": np.ones(3)},
        {"components": np.ones((2, 3)), "intercept": np.ones(3)},
        {"intercept": np.ones(3)},
        {"W": np.ones(3)},
    ],
)
def test_a_file_without_a_finite_map_is_refused_by_name_and_set_aside(tmp_path, arrays):
    write_arrays(tmp_path / "model.npz", {"metric": "cosine"}, **arrays)
    with pytest.raises(DamagedFileError, match=r"model\.npz is damaged \(it holds no finite map\)"):
        LearnedMap.load(tmp_path / "model.npz")
    assert (tmp_path / "model.npz.damaged").exists()
