import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import Normalizer

from flrml import RidgeFLRML, draw_triplets, knn_accuracy
from flrml.exceptions import FlrmlWarning
from flrml.ridge import scaling
from flrml.rows import BinaryRows

from . import literal

GIVEN = {"ridge": 1.0, "within": 0.5, "local": 0.3, "rounds": 0, "scale": 0.0, "fit_intercept": False}


def metric(model):
    return model.get_mahalanobis_matrix()


def cosines(Y):
    Y = Y / np.linalg.norm(Y, axis=1, keepdims=True)
    return Y @ Y.T


@pytest.fixture(params=["exact", "krylov"])
def either(request, monkeypatch):
    """The whole row space, and the Krylov space, which on small data is the whole one as well."""
    if request.param == "krylov":
        monkeypatch.setattr(scaling, "EXACT_ROWS", 0)
        monkeypatch.setattr(scaling.ScaledRows, "is_narrow", lambda self, n_columns: False)


@pytest.mark.parametrize("given", [GIVEN, GIVEN | {"local": 1.0}, GIVEN | {"ridge": 0.01, "local": 0.1}])
def test_the_map_is_that_of_the_literal_matrices(either, problem, given):
    X, y, _ = problem
    form = {name: given[name] for name in ("ridge", "within", "local")}
    s, expected = literal.closed_form(X, literal.contrasts(y), y, **form, d=5)
    model = RidgeFLRML(5, **given).fit(X, y)
    assert np.allclose(metric(model), expected @ expected.T, atol=1e-6 * abs(expected @ expected.T).max())
    assert np.allclose(model.weights_, s)


def test_no_ridge_whitens_and_a_large_one_keeps_the_geometry(problem):
    X, y, _ = problem
    fixed = {"within": 0.0, "local": 1.0, "rounds": 0}
    whitened = RidgeFLRML(12, ridge=1e-12, **fixed).fit(X, y).transform(X)
    assert np.allclose(whitened.T @ whitened, np.eye(12), atol=1e-6)
    kept = RidgeFLRML(12, ridge=1e9, **fixed).fit(X, y)
    assert np.allclose(cosines(kept.transform(X)), cosines(X), atol=1e-6)


@pytest.mark.parametrize("rounds", [0, 3])
def test_a_rotation_of_the_features_changes_nothing(either, problem, rounds):
    X, y, _ = problem
    Q = np.linalg.qr(np.random.RandomState(0).standard_normal((12, 12)))[0]
    first, second = (
        RidgeFLRML(5, **GIVEN | {"rounds": rounds}, random_state=0).fit(rows, y).transform(rows)
        for rows in (X, X @ Q)
    )
    assert np.allclose(first @ first.T, second @ second.T, atol=1e-8)


@pytest.mark.parametrize("rounds", [0, 2])
def test_the_order_of_rows_does_not_matter(either, problem, rounds):
    X, y, _ = problem
    order = np.random.RandomState(1).permutation(90)
    first = RidgeFLRML(5, **GIVEN | {"rounds": rounds}).fit(X, y)
    second = RidgeFLRML(5, **GIVEN | {"rounds": rounds}).fit(X[order], y[order])
    assert np.allclose(metric(first), metric(second), atol=1e-6)


def test_duplicated_rows_count_as_weights(either, problem):
    """Everything doubles, with the ridge; the metric halves."""
    X, y, _ = problem
    first = RidgeFLRML(5, **GIVEN).fit(X, y)
    second = RidgeFLRML(5, **GIVEN | {"ridge": 2.0}).fit(np.vstack((X, X)), np.tile(y, 2))
    assert np.allclose(metric(first), 2 * metric(second), atol=1e-8)


@pytest.mark.parametrize("given", [{}, GIVEN | {"rounds": 2}])
def test_every_kind_of_rows_gives_the_same_map(either, text, tmp_path, given):
    X = (text[0] > 0).astype(np.float64)
    binary = BinaryRows(X.indptr, X.indices, X.shape[1], np.float64)
    X = sp.csr_matrix(Normalizer().transform(X))
    np.save(tmp_path / "X.npy", X.toarray())
    kinds = [X, X.toarray(), binary, np.load(tmp_path / "X.npy", mmap_mode="r")]
    first, *others = (RidgeFLRML(5, **given, random_state=0).fit(rows, text[1]) for rows in kinds)
    for other in others:
        assert np.allclose(first.transform(X), other.transform(X), atol=1e-7)
        assert other.ridge_ == first.ridge_


def test_column_numbers_can_stay_on_disk(either, text, tmp_path):
    X = (text[0] > 0).astype(np.float32)
    np.save(tmp_path / "indices.npy", X.indices)
    on_disk = BinaryRows(X.indptr, np.load(tmp_path / "indices.npy", mmap_mode="r"), X.shape[1])
    in_memory = sp.csr_matrix(Normalizer().transform(X))
    first, second = (RidgeFLRML(5, random_state=0).fit(rows, text[1]) for rows in (on_disk, in_memory))
    assert np.allclose(first.transform(on_disk), second.transform(in_memory), atol=1e-3)


def test_single_and_double_precision_agree(either, text):
    X, y = text
    first, second = (RidgeFLRML(5, **GIVEN, random_state=0).fit(X.astype(kind), y) for kind in ("f4", "f8"))
    assert first.components_.dtype == np.float32
    assert np.allclose(metric(first), metric(second), atol=1e-4 * abs(metric(second)).max())


def test_the_seed_decides(either, digits):
    X, y = digits[:2]
    maps = [RidgeFLRML(30, random_state=seed).fit(X, y).components_ for seed in (1, 1, 2)]
    assert np.array_equal(maps[0], maps[1])
    assert not np.array_equal(maps[0], maps[2])


def test_rounds_lower_the_hinge(digits):
    X, y = digits[:2]
    model = RidgeFLRML(10, ridge=1.0, within=0.0, local=0.5, rounds=4, random_state=0).fit(X, y)
    assert model.n_iter_ - 1 == len(model.history_) == 4
    assert model.history_[-1] < model.history_[0]


def test_a_callback_follows_the_rounds(digits):
    X, y = digits[:2]
    seen = []

    def follow(model):
        seen.append((model.n_iter_, len(model.history_), model.transform(X[:5])))

    given = {"ridge": 1.0, "within": 0.0, "local": 0.5, "scale": 0.5, "random_state": 0}
    final = RidgeFLRML(10, **given, rounds=3).fit(X, y, callback=follow)
    assert [entry[:2] for entry in seen] == [(1, 0), (2, 1), (3, 2), (4, 3)]
    for rounds, (_, _, embedded) in enumerate(seen):
        expected = RidgeFLRML(10, **given, rounds=rounds).fit(X, y)
        np.testing.assert_array_equal(embedded, expected.transform(X[:5]))
        np.testing.assert_array_equal(final.history_[:rounds], expected.history_)


def test_triplets_teach_as_labels_do(either, digits):
    X, y, X_test, y_test = digits
    model = RidgeFLRML(20, random_state=0).fit(X, triplets=draw_triplets(y, 20, 0))
    assert knn_accuracy(model.transform(X), y, model.transform(X_test), y_test) > 0.9
    assert 0.8 < model.best_score_ <= 1


def test_a_share_of_the_rows_is_learned_from(digits):
    X, y = digits[:2]
    model = RidgeFLRML(10, **GIVEN, max_samples=300, random_state=0).fit(X, y)
    drawn = np.sort(np.random.RandomState(0).choice(1200, 300, replace=False))
    assert np.allclose(metric(model), metric(RidgeFLRML(10, **GIVEN).fit(X[drawn], y[drawn])))


def test_more_directions_than_the_data_have_are_not_learned_which_needs_no_warning(problem):
    X, y, _ = problem
    with warnings.catch_warnings():
        warnings.simplefilter("error", FlrmlWarning)
        assert RidgeFLRML(50, **GIVEN).fit(X, y).components_.shape == (12, 12)


@pytest.mark.parametrize("bad", [{"ridge": 0}, {"ridge": "best"}, {"within": -0.1}, {"local": 1.5}, {"rounds": -1}])
def test_parameters_out_of_range_are_named(problem, bad):
    X, y, _ = problem
    with pytest.raises(ValueError, match=next(iter(bad))):
        RidgeFLRML(**bad).fit(X, y)
