import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import normalize

from flrml import Spectrum, decompose
from flrml.exceptions import SpectrumError
from flrml.reference import CenteredRows, decompose_centered


def data(n, n_features, dtype=np.float64, sparse=False, seed=0):
    random = np.random.RandomState(seed)
    X = random.standard_normal((n, n_features)) * (random.random_sample((n, n_features)) < 0.5)
    X = normalize(X * 0.8 ** np.arange(n_features)).astype(dtype)
    return sp.csr_matrix(X) if sparse else X


def dense_of(X, centered=False):
    X = X.toarray() if sp.issparse(X) else np.asarray(X)
    return X - X.mean(axis=1, keepdims=True) if centered else X


shapes = pytest.mark.parametrize(("n", "n_features"), [(12, 30), (30, 12)], ids=["wide", "tall"])


@shapes
@pytest.mark.parametrize("method", ["gram", "randomized"])
@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_spectrum_equals_the_dense_svd(n, n_features, method, centered, sparse, dtype):
    X = data(n, n_features, dtype, sparse)
    S = decompose(CenteredRows(X) if centered else X, method=method, random_state=0)
    dense = dense_of(X, centered).astype(np.float64)
    values = np.linalg.svd(dense, compute_uv=False)
    values = values[values > 1e-5 * values[0]]
    tolerance = 2e-3 if dtype == np.float32 else 1e-7
    assert np.allclose(S.singular_values[: len(values)], values, rtol=tolerance, atol=tolerance * 0.01)

    r = S.rank
    V = S @ np.eye(r, dtype=dtype)
    assert V.dtype == dtype
    strong = slice(0, int(np.sum(S.singular_values > 1e-2 * S.singular_values[0])))
    assert np.allclose(V.T[strong] @ V[:, strong], np.eye(r)[strong, strong], atol=50 * tolerance * 0.01)
    R = np.random.RandomState(1).standard_normal((n, 3)).astype(dtype)
    assert np.allclose(S.transposed_matmul(R), V.T @ R, atol=tolerance * 10)
    assert np.allclose(S.top(np.eye(2, dtype=dtype)), V[:, :2], atol=1e-5)

    B = np.random.RandomState(2).standard_normal((r, 2)).astype(dtype)
    B[strong.stop :] = 0
    assert np.allclose(dense @ S.lift(B), V @ B, atol=tolerance)
    assert S.lift(B).dtype == dtype


@shapes
@pytest.mark.parametrize("sparse", [False, True])
def test_all_methods_give_the_same_embedding_up_to_sign(n, n_features, sparse):
    X = data(n, n_features, sparse=sparse)
    exact, rough = decompose(X, 5), decompose(X, 5, method="randomized", random_state=0)
    U, W = exact @ np.eye(5), rough @ np.eye(5)
    signs = np.sign(np.sum(U * W, axis=0))
    assert np.allclose(U, W * signs, atol=1e-6)
    assert np.allclose(exact.lift(np.eye(5)), rough.lift(np.eye(5)) * signs, atol=1e-6)


@given(st.integers(3, 40), st.integers(3, 40), st.integers(1, 10), st.integers(0, 99))
def test_a_rough_randomized_svd_still_embeds_consistently(n, n_features, max_rank, seed):
    X = np.random.RandomState(seed).standard_normal((n, n_features))
    S = decompose(X, max_rank, method="randomized", random_state=seed)
    V = S @ np.eye(S.rank)
    assert np.allclose(V.T @ V, np.eye(S.rank), atol=1e-8)
    assert np.allclose(X @ S.lift(np.eye(S.rank)), V, atol=1e-6)


def test_cost_decides_the_method():
    assert decompose(data(12, 30)).settings["method"] == "gram"
    assert decompose(np.random.RandomState(0).standard_normal((900, 900)), 5).settings["method"] == "randomized"


def test_numerically_zero_directions_are_dropped():
    X = np.outer(np.arange(1.0, 9), np.ones(5))
    assert decompose(X).rank == 1
    assert decompose(X + np.eye(8, 5)).rank == 5


def test_a_memory_map_is_decomposed_in_place(tmp_path):
    X = data(30, 12)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    S = decompose(mapped)
    assert S.X is mapped
    assert np.allclose(S @ np.eye(S.rank), decompose(X) @ np.eye(S.rank))


def test_lists_and_data_frames_are_decomposed_like_arrays():
    X = data(12, 30)
    expected = decompose(X).singular_values
    for rows in (X.tolist(), pd.DataFrame(X)):
        assert np.array_equal(decompose(rows).singular_values, expected)
    with pytest.raises(ValueError, match="contains NaN"):
        decompose(np.where(X > 0, X, np.nan))


def test_the_authors_cut_drops_small_singular_values():
    X = np.eye(3, 6) * np.array([1.0, 1e-4, 5e-6])[:, None]
    assert decompose_centered(X).rank < decompose(CenteredRows(X)).rank


def test_zero_rank_is_refused():
    with pytest.raises(ValueError, match="rank 0"):
        decompose(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="max_rank"):
        decompose(np.eye(3), 0)


@pytest.mark.parametrize("method", ["gram", "randomized"])
def test_saving_and_loading_keeps_everything(tmp_path, method):
    X = data(12, 30, sparse=True)
    S = decompose(CenteredRows(X), 8, method=method, random_state=0)
    S.save(tmp_path / "deep" / "spectrum.npz")
    again = Spectrum.load(tmp_path / "deep" / "spectrum.npz", CenteredRows(X))
    B = np.eye(S.rank)
    assert np.array_equal(S @ B, again @ B)
    assert np.array_equal(S.lift(B), again.lift(B))
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["spectrum.npz"]


def test_a_spectrum_of_other_data_is_refused_by_name(tmp_path):
    path = tmp_path / "spectrum.npz"
    X = data(12, 30)
    decompose(X, 8).save(path)
    with pytest.raises(SpectrumError, match=r"spectrum.npz: this spectrum does not belong to the given ndarray"):
        Spectrum.load(path, X * 1.000001)
    with pytest.raises(SpectrumError, match="not bound"):
        Spectrum.load(path).lift(np.eye(8))


@given(st.floats(0, 1), st.integers(1, 255))
def test_a_damaged_file_is_refused_by_name(tmp_path_factory, where, flip):
    path = tmp_path_factory.mktemp("damaged") / "spectrum.npz"
    decompose(data(12, 30)).save(path)
    content = bytearray(path.read_bytes())
    place = min(int(where * len(content)), len(content) - 1)
    content[place] ^= flip
    path.write_bytes(content)
    refused = None
    try:
        again = Spectrum.load(path)
    except SpectrumError as error:
        refused = str(error)
    # A byte may carry nothing, such as a date in the archive's directory.
    assert "spectrum.npz" in refused if refused else np.array_equal(again.basis, decompose(data(12, 30)).basis)


@pytest.mark.parametrize("length", [0, 10, 2000])
def test_a_truncated_file_is_refused_by_name(tmp_path, length):
    path = tmp_path / "spectrum.npz"
    decompose(data(12, 30)).save(path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(SpectrumError, match=r"spectrum.npz is damaged"):
        Spectrum.load(path)
