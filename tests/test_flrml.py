import pickle
import warnings

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.random import sample_without_replacement

from flrml import FLRML, MFLRML, BinaryRows, RidgeFLRML, decompose, draw_triplets, knn_accuracy, stiefel
from flrml.batches import SampleBasis, SingularBasis
from flrml.exceptions import FlrmlWarning, OverfittingWarning, SpectrumError
from flrml.loss import softplus
from flrml.reference import ReferenceFLRML, ReferenceMFLRML, decompose_centered
from flrml.rows import wide
from flrml.triplets import contrast_matrix

ALL = (FLRML, MFLRML, ReferenceFLRML, ReferenceMFLRML, RidgeFLRML)
both = pytest.mark.parametrize("Estimator", [FLRML, MFLRML])
every = pytest.mark.parametrize("Estimator", ALL)


@parametrize_with_checks([Estimator(2) for Estimator in ALL])
@pytest.mark.filterwarnings("ignore::flrml.exceptions.FlrmlWarning")
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@every
def test_digits_are_told_apart(Estimator, digits):
    X, y, X_test, y_test = digits
    model = Estimator(20, random_state=0).fit(X, y)
    assert knn_accuracy(model.transform(X), y, model.transform(X_test), y_test) > 0.9
    assert model.components_.shape == (20, 64)
    assert model.weights_.shape == (20,)
    assert np.all(model.weights_ >= 0)


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_type_of_the_input_is_kept(Estimator, dtype, digits):
    X, y = digits[0].astype(dtype), digits[1]
    model = Estimator(8, random_state=0).fit(X, y)
    assert model.components_.dtype == dtype
    assert model.transform(X).dtype == dtype
    assert model.weights_.dtype == dtype


@every
def test_sparse_rows_give_the_same_map(Estimator, text):
    X, y = text
    dense, sparse = (Estimator(5, random_state=0).fit(rows, y) for rows in (X.toarray(), X))
    assert np.allclose(dense.transform(X.toarray()), sparse.transform(X), atol=1e-6)


@both
def test_binary_rows_give_the_same_map(Estimator, text):
    X = (text[0] > 0).astype(np.float64)
    binary = BinaryRows(X.indptr, X.indices, X.shape[1], np.float64)
    first = Estimator(5, random_state=0).fit(binary, text[1])
    second = Estimator(5, random_state=0).fit(Normalizer().transform(X), text[1])
    assert np.allclose(first.transform(binary), second.transform(binary), atol=1e-8)
    with pytest.raises(ValueError, match="features"):
        first.transform(BinaryRows(X.indptr, X.indices, X.shape[1] + 1))


@both
def test_the_seed_decides(Estimator, digits):
    X, y = digits[:2]
    maps = [Estimator(8, random_state=seed).fit(X, y).components_ for seed in (1, 1, 2)]
    assert np.array_equal(maps[0], maps[1])
    assert not np.allclose(maps[0], maps[2])


def test_the_order_of_rows_does_not_matter(digits):
    X, y = digits[:2]
    T = draw_triplets(y, 5, 0)
    order = np.random.RandomState(1).permutation(len(y))
    place = np.argsort(order)
    first = FLRML(8, random_state=0).fit(X, triplets=T)
    second = FLRML(8, random_state=0).fit(X[order], triplets=place[T])
    assert np.allclose(first.history_, second.history_, rtol=1e-6)


@both
def test_triplets_stand_in_for_labels(Estimator, digits):
    X, y = digits[:2]
    T = draw_triplets(y, 5, np.random.RandomState(0))
    assert Estimator(8, random_state=0).fit(X, triplets=T).transform(X).shape == (len(X), 8)
    with pytest.raises(ValueError, match=r"triplet 0 is \(0, 1, 99999\)"):
        Estimator(8).fit(X, triplets=[[0, 1, 99999]])


def test_the_training_embedding_is_that_of_the_descent(digits):
    X, y = digits[:2]
    for Estimator, V in ((FLRML, decompose(X)), (ReferenceFLRML, decompose_centered(X))):
        model = Estimator(8, random_state=0).fit(X, y)
        Y = model.transform(X)
        projection = V.transposed_matmul(Y)
        assert np.allclose(projection.T @ projection, np.diag(model.weights_), atol=1e-6)
        assert np.allclose(V @ projection, Y, atol=1e-6)


def test_the_objective_falls(digits):
    X, y = digits[:2]
    model = FLRML(8, random_state=0, max_iter=30, tol=0).fit(X, y)
    assert len(model.history_) == model.n_iter_ + 1 == 31
    assert model.history_[-1] < model.history_[0]
    assert FLRML(8, random_state=0, max_iter=0).fit(X, y).n_iter_ == 0


def test_rounds_of_the_start_and_null_steps_are_counted(digits):
    X, y = digits[:2]
    model = FLRML(n_components=10, random_state=0).fit(X, y)
    assert 1 <= model.n_start_rounds_ <= 10
    assert model.n_null_steps_ == 0
    reference = ReferenceFLRML(n_components=10, random_state=0).fit(X, y)
    assert 0 < reference.n_null_steps_ <= reference.n_iter_


def test_a_spectrum_can_be_used_again(digits, tmp_path):
    X, y = digits[:2]
    first = FLRML(8, random_state=0).fit(X, y)
    assert first.spectrum_.X is None
    second = FLRML(8, random_state=0).fit(X, y, spectrum=first.spectrum_)
    assert np.allclose(first.components_, second.components_)
    with pytest.raises(SpectrumError, match="does not belong to the given ndarray"):
        FLRML(8).fit(X[:-1], y[:-1], spectrum=first.spectrum_)
    with pytest.raises(SpectrumError, match="does not belong to the given CenteredRows"):
        ReferenceFLRML(8).fit(X, y, spectrum=first.spectrum_)
    bound = decompose_centered(X)
    assert ReferenceFLRML(8, random_state=0).fit(X, y, spectrum=bound).n_iter_ > 0


def test_a_random_start_can_be_chosen(digits):
    X, y = digits[:2]
    assert FLRML(8, init="random", random_state=0).fit(X, y).n_iter_ > 0


@both
def test_more_directions_than_the_data_hold(Estimator):
    random = np.random.RandomState(0)
    X, y = random.standard_normal((30, 4)), np.arange(30) % 2
    with pytest.warns(FlrmlWarning, match="n_components=100 is more than the"):
        model = Estimator(random_state=0).fit(X, y)
    assert model.components_.shape == (4, 4)
    with pytest.warns(FlrmlWarning, match="n_components=100 is more than the"):
        model = Estimator(random_state=0).fit(random.standard_normal((10, 300)), y[:10])
    assert model.components_.shape == (10, 300)


@both
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_of_zeros_are_allowed(Estimator, sparse, digits):
    X, y = digits[0].copy(), digits[1]
    X[:5] = 0
    model = Estimator(8, random_state=0).fit(sp.csr_matrix(X) if sparse else X, y)
    assert np.isfinite(model.components_).all()
    assert np.all(model.transform(X)[:5] == 0)


@both
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(Estimator, bad, digits):
    X = digits[0].copy()
    X[3, 4] = bad
    for rows in (X, sp.csr_matrix(X)):
        with pytest.raises(ValueError, match="contains"):
            Estimator(8).fit(rows, digits[1])


@both
def test_one_class_or_no_labels_are_refused(Estimator, digits):
    with pytest.raises(ValueError, match="at least two classes"):
        Estimator(8).fit(digits[0], np.ones(len(digits[0])))
    with pytest.raises(ValueError, match="requires y to be passed"):
        Estimator(8).fit(digits[0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        Estimator(8).fit(digits[0], digits[1][:-1])


@both
def test_all_rows_zero_is_refused(Estimator):
    with pytest.raises(ValueError, match="zero"):
        Estimator(2).fit(np.zeros((20, 5)), np.arange(20) % 2)


@both
@pytest.mark.parametrize("parameters", [{"n_components": 0}, {"margin_ratio": 0.0}])
def test_parameters_out_of_range_are_named(Estimator, parameters, digits):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        Estimator(**parameters).fit(*digits[:2])


@both
def test_pipelines_searches_and_copies(Estimator, digits, tmp_path):
    X, y, X_test, y_test = digits
    pipeline = make_pipeline(Normalizer(), Estimator(10, random_state=0), KNeighborsClassifier(5, metric="cosine"))
    name = Estimator.__name__.lower()
    search = GridSearchCV(pipeline, {f"{name}__margin_ratio": [0.5, 1.0]}, cv=2).fit(X, y)
    assert search.score(X_test, y_test) > 0.85
    model = search.best_estimator_[1]
    assert clone(model).get_params() == model.get_params()
    joblib.dump(model, tmp_path / "model.joblib")
    for copy in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")):
        assert np.array_equal(copy.transform(X), model.transform(X))
    frame = clone(model).set_output(transform="pandas").fit(X, y).transform(X)
    assert list(frame.columns) == [f"{name}{a}" for a in range(10)]


@both
def test_progress_is_printed_when_asked(Estimator, digits, capsys):
    Estimator(8, random_state=0, verbose=1).fit(*digits[:2])
    assert f"[{Estimator.__name__}]" in capsys.readouterr().out
    Estimator(8, random_state=0).fit(*digits[:2])
    assert capsys.readouterr().out == ""


@both
def test_a_rank_close_to_the_number_of_rows_warns_once_and_names_the_remedy(Estimator, text, digits):
    X, y = text
    with pytest.warns(OverfittingWarning, match=r"close to its 160 rows.*use RidgeFLRML$") as found:
        Estimator(5, random_state=0).fit(X, y)
    assert len(found) == 1
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Estimator(5, random_state=0).fit(*digits[:2])
        RidgeFLRML(5, random_state=0).fit(X, y)


def dense_step(X, T, L, margin_ratio):
    """One M-FLRML step from the map L on all samples, with explicit K and U."""
    V, sigma, Ut = np.linalg.svd(X, full_matrices=False)
    kept = sigma > 1e-6 * sigma[0]
    V, sigma, Ut = V[:, kept], sigma[kept], Ut[kept]
    contrasts = contrast_matrix(T, len(X)).toarray()
    Q, root_s, Pt = np.linalg.svd((X @ L.T).T @ V, full_matrices=False)
    P, s = Pt.T, root_s**2
    Y = X @ L.T
    z = -np.sum(Y * (contrasts @ Y), axis=1)
    active = z + margin_ratio * np.mean(np.sum(Y**2, axis=1)) > 0
    K = -V.T @ contrasts.T @ np.diag(active) @ V
    G = (K + K.T) @ P @ np.diag(s)
    P_next = stiefel.polar(P - G + P @ G.T @ P)
    s_next = softplus(-np.diag(P.T @ K @ P))
    return Q @ np.diag(np.sqrt(s_next)) @ P_next.T @ np.diag(1 / sigma) @ Ut


@pytest.mark.parametrize("margin_ratio", [0.1, 1.0])
@pytest.mark.parametrize("dependent", [False, True])
def test_batches_of_all_samples_equal_dense_steps(margin_ratio, dependent):
    random = np.random.RandomState(3)
    X, y = random.standard_normal((24, 40)), np.arange(24) % 3
    if dependent:
        X[5] = X[4] + X[6]
    T = draw_triplets(y, 5, 0)
    model = MFLRML(4, margin_ratio=margin_ratio, batch_triplets=len(T), n_batches=3, random_state=0)
    maps = []
    model.fit(X, triplets=T, callback=lambda model: maps.append(model.components_.copy()))

    random = np.random.RandomState(0)
    sample_without_replacement(len(T), len(T), random_state=random)  # the estimator's choice of triplets
    V, _, Ut = np.linalg.svd(X, full_matrices=False)
    L = dense_step(X, T, random.standard_normal((4, len(X))) @ V @ Ut, margin_ratio)
    assert np.allclose(maps[0], L, atol=1e-8)
    for number in (2, 3):
        rho = 1 / np.sqrt(number)
        L = (1 - rho) * L + rho * dense_step(X, T, L, margin_ratio)
        assert np.allclose(maps[number - 1], L, atol=1e-8)


def test_samples_are_coordinates_of_independent_rows_only():
    X = np.random.RandomState(0).standard_normal((20, 30))
    P = X[:, :3]
    samples, singular = SampleBasis.find(X @ X.T), SingularBasis(X @ X.T, "zero")
    assert np.allclose(X @ (X.T @ samples.dual(P)), P)
    assert np.allclose(samples.dual(P), singular.dual(singular.coordinates(P)))
    X[3] = X[4] + 1e-5 * X[5]
    assert SampleBasis.find(X @ X.T) is None
    X[3] = 0
    assert SampleBasis.find(X @ X.T) is None


def test_partial_fit_goes_on_where_fit_stopped(digits):
    X, y = digits[:2]
    whole = MFLRML(8, n_batches=3, random_state=0)
    steps = []
    whole.fit(X, y, callback=lambda model: steps.append((model.n_iter_, model.transform(X[:2]).copy())))
    assert [number for number, _ in steps] == [1, 2, 3]
    assert np.allclose(steps[-1][1], whole.transform(X[:2]))
    assert len(whole.history_) == 3
    whole.partial_fit(X[:300], y[:300])
    assert whole.n_iter_ == len(whole.history_) == 4
    with pytest.raises(ValueError, match="features"):
        whole.partial_fit(X[:, 1:], y)


def test_asking_for_the_map_between_steps_changes_nothing(digits):
    X, y = digits[:2]
    quiet = MFLRML(8, n_batches=6, random_state=0).fit(X, y)
    curious = MFLRML(8, n_batches=6, random_state=0).fit(X, y, callback=lambda model: model.components_)
    assert np.allclose(quiet.components_, curious.components_, atol=1e-10)


def test_many_steps_do_not_lose_the_scale(digits):
    X, y = digits[:2]
    model = MFLRML(8, n_batches=150, batch_triplets=10, random_state=0).fit(X.astype(np.float32), y)
    assert np.isfinite(model.components_).all()
    assert np.linalg.norm(model.components_) > 0


def test_mini_batches_leave_other_rows_of_a_memory_map_unread(tmp_path, digits):
    X, y = digits[:2]
    X = np.vstack((X, np.full((1, X.shape[1]), np.nan)))
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    T = draw_triplets(y, 5, 0)  # none of them names the last row
    MFLRML(8, random_state=0, n_batches=2).fit(mapped, triplets=T)
    with pytest.raises(ValueError, match="in the rows of a mini-batch"):
        MFLRML(8, random_state=0).fit(mapped, triplets=[[0, 1, len(X) - 1]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["dense", "csr", "dependent"])
@pytest.mark.filterwarnings("ignore::flrml.exceptions.OverfittingWarning")
def test_few_wide_rows_are_learned_from_by_their_inner_products(kind, dtype, monkeypatch):
    random = np.random.RandomState(0)
    X = random.standard_normal((60, 4000)) * (random.random_sample((60, 4000)) < 0.2)
    if kind == "dependent":
        X[30:45] = X[:15]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X = sp.csr_matrix(X.astype(dtype)) if kind == "csr" else X.astype(dtype)
    model, y = MFLRML(8, n_batches=6, batch_triplets=10, random_state=0), np.arange(60) % 4
    assert wide.is_wide(X.shape)
    few = clone(model).fit(X, y)
    assert few.components_.shape == (8, 4000)
    assert few.components_.dtype == few.weights_.dtype == dtype
    monkeypatch.setattr(wide, "GRAM_ROWS", 0)
    each = model.fit(X, y)
    error = np.abs(few.components_ - each.components_).max() / np.abs(each.components_).max()
    assert error < (1e-3 if dtype == np.float32 else 1e-8)
    assert np.allclose(few.history_, each.history_, rtol=1e-4)
    monkeypatch.undo()
    damaged = np.where(np.arange(60)[:, None] == 3, np.nan, np.ones((60, 4000)))
    with pytest.raises(ValueError, match="NaN"):
        MFLRML(8).fit(damaged, y)
