import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import normalize

from flrml import rows
from flrml.rows import BinaryRows


def make(kind, dtype=np.float64, n=23, n_features=11, seed=0):
    """The same unit rows of zeros and ones as a dense array and in the given form."""
    random = np.random.RandomState(seed)
    ones = (random.random_sample((n, n_features)) < 0.4).astype(float)
    ones[n // 2] = 0
    dense = normalize(ones).astype(dtype)
    sparse = sp.csr_matrix(dense)
    binary = BinaryRows(sparse.indptr.astype(np.int64), sparse.indices, n_features, dtype)
    return dense, {"dense": dense, "csr": sparse, "binary": binary}[kind]


kinds = pytest.mark.parametrize("kind", ["dense", "csr", "binary"])


@pytest.fixture(params=[rows.BLOCK_BYTES, 300], ids=["one block", "many blocks"])
def block_bytes(request, monkeypatch):
    monkeypatch.setattr(rows, "BLOCK_BYTES", request.param)
    monkeypatch.setattr(rows.row_blocks, "__defaults__", (request.param,))


@given(st.lists(st.integers(0, 22), max_size=30), st.integers(0, 23), st.integers(0, 23), st.integers(1, 3))
def test_binary_rows_index_like_a_matrix(chosen, start, stop, step):
    dense, binary = make("binary")
    assert np.allclose(binary[chosen].toarray(), dense[chosen])
    assert np.allclose(binary[start:stop:step].toarray(), dense[start:stop:step])
    assert np.allclose(binary[dense[:, 0] > 0].toarray(), dense[dense[:, 0] > 0])


@kinds
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.usefixtures("block_bytes")
def test_products_equal_dense_ones(kind, dtype, threads, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    dense, X = make(kind, dtype)
    random = np.random.RandomState(1)
    B, R = random.standard_normal((11, 4)).astype(dtype), random.standard_normal((23, 4)).astype(dtype)
    tolerance = {"rtol": 1e-5 if dtype == np.float32 else 1e-12, "atol": 1e-6}
    assert np.allclose(rows.product(X, B), dense @ B, **tolerance)
    assert rows.product(X, B).dtype == dtype
    assert np.allclose(rows.product_transposed(X, R), dense.T @ R, **tolerance)
    assert rows.product_transposed(X, R).dtype == dtype
    assert np.allclose(rows.gram(X), dense @ dense.T, **tolerance)
    assert np.allclose(rows.gram_of_columns(X), dense.T @ dense, **tolerance)
    assert np.allclose(rows.row_means(X), dense.mean(axis=1), **tolerance)
    out = np.ones((11, 4), dtype=dtype)
    rows.add_product_transposed(out, X[:], R)
    assert np.allclose(out, 1 + dense.T @ R, **tolerance)


@kinds
def test_a_fingerprint_tells_data_apart(kind):
    _, X = make(kind)
    assert rows.fingerprint(X) == rows.fingerprint(make(kind)[1])
    assert rows.fingerprint(X) != rows.fingerprint(make(kind, seed=1)[1])
    assert rows.fingerprint(X) != rows.fingerprint(make(kind, dtype=np.float32)[1])


def test_blocks_cover_all_rows_once():
    X = np.zeros((100, 10))
    covered = np.concatenate([np.arange(100)[block] for block in rows.row_blocks(X, 777)])
    assert np.array_equal(covered, np.arange(100))


def test_memory_maps_are_recognised(tmp_path):
    np.save(tmp_path / "X.npy", np.arange(6.0).reshape(2, 3))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert rows.on_disk(X)
    assert rows.on_disk(np.asarray(X)[:1])
    assert not rows.on_disk(np.array(X))
