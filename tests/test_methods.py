"""Every method of the registry keeps the one contract."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from flrml import BinaryRows, knn_accuracy
from flrml.methods import METHODS, Method, build
from flrml.metric import LowRankMetric
from flrml.pipeline.stages.learned_map import LearnedMap

SHORT = {
    "lmnn": {"max_iter": 20},
    "lrsml": {"max_iter": 60},
    "scml": {"n_steps": 10_000, "n_bases": 100},
    "drml": {"max_iter": 20},
    "sgdinc": {"n_steps": 150},
    "nca": {"max_iter": 10},
}
COMMON = {"n_components": 20, "random_state": 0}


def short(name, **overrides):
    common = {key: value for key, value in COMMON.items() if key in METHODS[name].accepts}
    return build(name, **(common | SHORT.get(name, {}) | overrides))


def fitted(name, data, X=None, **overrides):
    method, same = METHODS[name], X is None
    spectrum = (data.centered if method.spectrum_kind == "centered" else data.spectrum) if same else None
    arguments = method.fit_arguments(triplets=data.triplets, spectrum=spectrum)
    return short(name, **overrides).fit(data.X if same else X, data.y, **arguments)


@pytest.mark.filterwarnings("ignore:on validation rows:flrml.exceptions.FlrmlWarning")  # of few rows
@pytest.mark.parametrize("name", METHODS)
def test_contract(name, small_digits):
    model = fitted(name, small_digits)
    train, test = model.transform(small_digits.X), model.transform(small_digits.X_test)
    metric = METHODS[name].metric
    accuracy = knn_accuracy(
        train, small_digits.y, test, small_digits.y_test, metric=metric, W=getattr(model, "similarity_", None)
    )
    assert accuracy > 0.8
    assert test.shape == (400, train.shape[1])
    assert model.n_features_in_ == 64
    assert len(model.get_feature_names_out()) == train.shape[1]
    assert model.n_iter_ >= 0
    assert np.all(np.isfinite(model.history_))
    if name != "cosine":
        assert model.components_.shape == (train.shape[1], 64)
        np.testing.assert_allclose(small_digits.X_test @ model.components_.T, test)

    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(small_digits.X_test), test)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "n_iter_")


@pytest.mark.filterwarnings("ignore:on validation rows:flrml.exceptions.FlrmlWarning")  # of few rows
@pytest.mark.parametrize("name", METHODS)
def test_float32_and_sparse_rows(name, small_digits):
    X, X_test = (sp.csr_matrix(part, dtype=np.float32) for part in (small_digits.X, small_digits.X_test))
    fewer = {"n_steps": 40} if name == "sgdinc" else {}
    one, other = (fitted(name, small_digits, X, **fewer).transform(X_test) for _ in range(2))
    assert one.dtype == np.float32
    assert abs(one - other).max() == 0, "a seed fixes the outcome"


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.table == 4])
def test_binary_rows_on_the_data_itself(name, small_digits):
    ones = [np.flatnonzero(row > 0.15) for row in small_digits.X]
    X = BinaryRows(np.cumsum([0, *map(len, ones)]), np.concatenate(ones), 64)
    model = fitted(name, small_digits, X)
    assert model.transform(X).shape[0] == 600


@pytest.mark.parametrize("name", METHODS)
def test_supervision_is_asked_for(name, small_digits):
    if not short(name).__sklearn_tags__().target_tags.required:
        short(name).fit(small_digits.X)
    else:
        with pytest.raises(ValueError, match="requires y"):
            short(name).fit(small_digits.X, None)


def test_unknown_names_are_explained():
    with pytest.raises(ValueError, match=r"'lmmn' \(did you mean 'lmnn'\?\).*choose from flrml,"):
        build("lmmn")
    with pytest.raises(ValueError, match=r"'lmnn' has no parameter 'max_iters' \(did you mean 'max_iter'\?\)"):
        build("lmnn", max_iters=3)
    with pytest.raises(ValueError, match=r"no parameter 'margin_ratio' \(did you mean 'margin'\?\)"):
        build("flrml-ridge", margin_ratio=1.0)


def test_entries_are_consistent():
    assert sum(method.paper is not None for method in METHODS.values()) == 13
    for name, method in METHODS.items():
        assert method.name == name
        defaults = method.estimator().get_params()
        for parameter, value in method.parameters.items():
            assert defaults[parameter] != value
        assert method.table == (3 if method.uses_spectrum else 4)
        build(name)


def test_the_registry_imports_no_optional_library():
    code = "import sys, flrml.methods; assert not {'pymanopt', 'pyriemann', 'mlflow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


class Leading(LowRankMetric):
    """The leading directions of the rows."""

    def __init__(self, n_components=5):
        self.n_components = n_components

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        self.components_ = np.linalg.svd(X, full_matrices=False)[2][: self.n_components]
        return self


def test_a_new_method_needs_only_fit_and_components(small_digits):
    method = Method("leading", "leading directions", f"{__name__}.Leading", 4)
    assert method.accepts == ("n_components",)
    assert method.fit_arguments(triplets=small_digits.triplets) == {}
    model = method.estimator(3)
    model._validate_params()
    assert model.fit(small_digits.X, small_digits.y).transform(small_digits.X).shape == (len(small_digits.X), 3)
    assert LearnedMap.of(model).components.shape == (3, 64)
