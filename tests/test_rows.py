from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_info

from flrml import FLRML, knn_accuracy, rows
from flrml.rows import binary, csr, products, take_rows
from flrml.rows.binary import (
    SEGMENT,
    BinaryRows,
    RunRows,
    are_runs,
    find_runs,
    n_sums,
    running_sums,
    running_sums_transposed,
)
from flrml.rows.threads import has_one_blas_thread, one_ahead, one_blas_thread


def make(kind, dtype=np.float64, n=23, n_features=11, seed=0):
    """The same unit rows of zeros and ones as a dense array and in the given form."""
    random = np.random.RandomState(seed)
    ones = (random.random_sample((n, n_features)) < 0.4).astype(float)
    ones[n // 2] = 0
    dense = normalize(ones).astype(dtype)
    sparse = sp.csr_matrix(dense)
    binary = BinaryRows(sparse.indptr.astype(np.int64), sparse.indices, n_features, dtype)
    return dense, {"dense": dense, "csr": sparse, "binary": binary, "runs": in_runs(sparse)}[kind]


def in_runs(sparse):
    runs, indptr = find_runs(sparse.indices, sparse.indptr)
    return RunRows(indptr, runs, sparse.shape[1], sparse.dtype)


kinds = pytest.mark.parametrize("kind", ["dense", "csr", "binary", "runs"])
binary_kinds = pytest.mark.parametrize("kind", ["binary", "runs"])


@pytest.fixture(params=[products.ROW_BLOCK_BYTES, 300], ids=["one block", "many blocks"])
def block_bytes(request, monkeypatch):
    monkeypatch.setattr(products, "ROW_BLOCK_BYTES", request.param)
    monkeypatch.setattr(rows.row_blocks, "__defaults__", (request.param,))


@binary_kinds
@given(st.lists(st.integers(-23, 22), max_size=30), st.integers(0, 23), st.integers(0, 23), st.integers(1, 3))
def test_binary_rows_index_like_a_matrix(kind, chosen, start, stop, step):
    dense, binary = make(kind)
    assert np.allclose(binary[chosen].toarray(), dense[chosen])
    assert np.allclose(binary[start:stop:step].toarray(), dense[start:stop:step])
    assert np.allclose(binary[dense[:, 0] > 0].toarray(), dense[dense[:, 0] > 0])


@kinds
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.usefixtures("block_bytes")
def test_products_equal_dense_ones(kind, dtype, threads, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    monkeypatch.setattr(products, "ONES_FOR_RUNS", -1)
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


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_rows_are_scaled_to_unit_length_as_by_scikit_learn(dtype, kind):
    X = np.random.RandomState(0).randint(-2, 3, (50, 7)).astype(dtype)
    X[3] = 0
    found, expected = rows.normalize(kind(X)), normalize(kind(X))
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(*(M.toarray() if sp.issparse(M) else M for M in (found, expected)), rtol=1e-6)


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("n", [1, 2, 23])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_with_few_wide_rows_equal_dense_ones(threads, n, dtype, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    monkeypatch.setattr(csr, "CACHE_BYTES", 20_000)
    monkeypatch.setattr(csr, "WORTH_BLOCKS", 0)
    random = np.random.RandomState(n)
    X = sp.random(n, 400, 0.1, "csr", dtype, random)
    B, R = random.standard_normal((400, 60)).astype(dtype), random.standard_normal((n, 60)).astype(dtype)
    assert csr._by_column(X, 60, X.dtype.itemsize)
    for found, expected in (
        (rows.product(X, B), X.toarray() @ B),
        (rows.product_transposed(X, R), X.toarray().T @ R),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert found.dtype == dtype
    np.testing.assert_allclose(rows.gram(X), X.toarray() @ X.toarray().T, atol=1e-6)


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("kind", ["dense", "csr", "binary", "runs"])
@pytest.mark.parametrize("long", [False, True])
def test_products_are_written_and_added_where_they_are_wanted(kind, threads, long, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    monkeypatch.setattr(csr, "SPARSE_THREADS_FROM", 0)
    if long:
        monkeypatch.setattr(csr, "PART_BYTES", 1)
    dense, X = make(kind, np.float32)
    random = np.random.RandomState(1)
    n, n_columns = dense.shape
    B = random.standard_normal((n_columns, 7)).astype(np.float32)
    R = random.standard_normal((n, 7)).astype(np.float32)
    out, sums = np.ones((n, 7), np.float32), np.ones((n_columns, 7), np.float32)
    assert rows.product(X, B, out) is out
    assert rows.product_transposed(X, R, sums) is sums
    np.testing.assert_allclose(out, dense @ B, atol=1e-5)
    np.testing.assert_allclose(sums, 1 + dense.T @ R, atol=1e-5)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("threads", ["1", "3"])
def test_products_in_pieces_are_those_of_the_whole(kind, threads, monkeypatch):
    """To rounding for dense rows, as BLAS multiplies a single row in another order."""
    X = make(kind, np.float32)[1]
    random = np.random.RandomState(1)
    B, R = random.standard_normal((11, 7)).astype(np.float32), random.standard_normal((23, 7)).astype(np.float32)
    whole, whole_transposed = rows.product(X, B), rows.product_transposed(X, R)
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    monkeypatch.setattr(products, "DENSE_THREADS_FROM", 0)
    monkeypatch.setattr(csr, "SPARSE_THREADS_FROM", 0)
    with one_blas_thread():
        np.testing.assert_allclose(rows.product(X, B), whole, rtol=0 if kind == "csr" else 1e-6)
        np.testing.assert_allclose(rows.product_transposed(X, R), whole_transposed, atol=1e-6)


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_work_goes_one_item_ahead_and_keeps_the_order(threads, count, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    drawn = []
    items = (drawn.append(number) or number for number in range(count))
    for number, found in enumerate(one_ahead(lambda item: 10 * item, items)):
        assert found == 10 * number
        assert len(drawn) == min(number + int(threads), count)
    assert len(drawn) == count
    with pytest.raises(ZeroDivisionError):
        list(one_ahead(lambda item: 1 / item, [1, 0, 2]))


def test_blas_has_one_thread_inside_its_context_only():
    before = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
    assert not has_one_blas_thread()
    with one_blas_thread():
        with one_blas_thread():
            assert {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"} == {1}
        assert has_one_blas_thread()
        with ThreadPoolExecutor(1) as pool:
            assert not pool.submit(has_one_blas_thread).result()
    assert not has_one_blas_thread()
    assert [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"] == before


@st.composite
def long_rows(draw):
    """Random runs of ones, up to and across several segments, in a few rows; among them empty and full ones."""
    n_columns = draw(st.integers(1, 3 * SEGMENT + 5))
    ones = np.zeros((draw(st.integers(1, 6)), n_columns), dtype=bool)
    for row in ones:
        edges = st.integers(0, n_columns) | st.sampled_from([0, SEGMENT, 2 * SEGMENT, n_columns])
        for start, stop in draw(st.lists(st.tuples(edges, edges), max_size=6)):
            row[start:stop] = True
    return ones


@pytest.mark.parametrize("by_runs", [True, False])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(long_rows(), st.sampled_from([np.float32, np.float64]), st.randoms(use_true_random=False))
def test_runs_multiply_like_the_matrix_they_stand_for(monkeypatch, by_runs, ones, dtype, random):
    monkeypatch.setattr(products, "ONES_FOR_RUNS", -1 if by_runs else np.inf)
    dense = normalize(ones.astype(dtype))
    X = in_runs(sp.csr_matrix(dense))
    numbers = np.random.RandomState(random.randrange(2**31))
    B = numbers.standard_normal((ones.shape[1], 3)).astype(dtype)
    R = numbers.standard_normal((len(ones), 3)).astype(dtype)
    tolerance = {"rtol": 0, "atol": 2e-4 if dtype == np.float32 else 1e-12}
    before = B.copy()
    np.testing.assert_allclose(rows.product(X, B), dense @ B, **tolerance)
    np.testing.assert_array_equal(B, before)
    np.testing.assert_allclose(rows.product(X, np.asfortranarray(B)), dense @ B, **tolerance)
    np.testing.assert_allclose(rows.product_transposed(X, R), dense.T @ R, **tolerance)
    assert rows.product(X, B).dtype == rows.product_transposed(X, R).dtype == dtype
    np.testing.assert_allclose(X[:].toarray(), dense, rtol=1e-6)
    assert X[:].has_canonical_format
    np.testing.assert_array_equal(X.counts(), ones.sum(axis=1))
    assert X.nnz == ones.sum()
    assert are_runs(X.stored, ones.shape[1])


@given(long_rows(), st.integers(0, 6), st.integers(0, 6))
def test_a_view_of_runs_holds_the_rows_between_its_bounds(ones, start, stop):
    start, stop = sorted((min(start, len(ones)), min(stop, len(ones))))
    X = in_runs(sp.csr_matrix(ones.astype(np.float32)))
    view = X.view(start, stop)
    assert isinstance(view, RunRows)
    np.testing.assert_array_equal(view[:].toarray() > 0, ones[start:stop])
    assert view.nnz == ones[start:stop].sum()


@given(long_rows())
def test_runs_are_as_long_as_segments_allow(ones):
    """Each run begins after a zero, at a segment or at the row's start: no run is cut without need."""
    X = in_runs(sp.csr_matrix(ones.astype(np.float32)))
    begins = ones & ~np.pad(ones, ((0, 0), (1, 0)))[:, :-1]
    begins[:, ::SEGMENT] = ones[:, ::SEGMENT]
    np.testing.assert_array_equal(np.diff(X.indptr), begins.sum(axis=1))


def test_long_sums_keep_the_precision_of_float32(monkeypatch):
    """A running sum over all columns would lose the small sums after a million ones."""
    monkeypatch.setattr(products, "ONES_FOR_RUNS", -1)
    n_columns = 1_000_000
    B = np.ones((n_columns, 1), dtype=np.float32)
    B[-10:] = 1e-2
    X = in_runs(sp.csr_matrix((np.ones(10, dtype=np.float32), (np.zeros(10, int), n_columns - 1 - np.arange(10)))))
    assert rows.product(X, B)[0, 0] == pytest.approx(0.1 / np.sqrt(10), rel=1e-3)


@pytest.mark.parametrize("n_columns", [3, SEGMENT, 2 * SEGMENT + 3])
def test_sums_run_within_segments_and_back(n_columns):
    n_segments = -(-n_columns // SEGMENT)
    U = sp.block_diag([np.tri(SEGMENT + 1, SEGMENT, -1)] * n_segments).toarray()[:, :n_columns]
    assert len(U) == n_sums(n_columns)
    random = np.random.RandomState(0)
    B, S = random.standard_normal((n_columns, 2)), random.standard_normal((len(U), 2))
    np.testing.assert_allclose(running_sums(B), U @ B, atol=1e-12)
    np.testing.assert_allclose(running_sums_transposed(S.copy(), n_columns), U.T @ S, atol=1e-12)


@given(long_rows(), st.sampled_from([SEGMENT, 3 * SEGMENT]))
def test_steps_by_tile_add_up(ones, tile):
    X = in_runs(sp.csr_matrix(ones.astype(np.float32)))
    with mock.patch.object(binary, "TILE", tile):
        values, parts = X.steps(slice(None))
        parts = list(parts)
    assert len(parts) == -(-ones.shape[1] // tile)
    U = running_sums(np.eye(ones.shape[1]))
    np.testing.assert_array_equal(sum(parts) @ U, ones)
    np.testing.assert_allclose(values, 1 / np.sqrt(np.maximum(ones.sum(axis=1), 1)), rtol=1e-6)
    for number, part in enumerate(parts):
        columns = np.arange(ones.shape[1]) // tile == number
        np.testing.assert_array_equal(part @ U, ones * columns)


@pytest.mark.parametrize("run", [(5, 0), (195, 6), (990, 11), (1005, 1)])
def test_a_run_outside_its_segment_or_the_columns_is_recognised(run):
    start, length = run
    sound = np.array([256 * 3 + 4, 256 * 999 + 1], dtype=np.uint32)
    assert are_runs(sound, 1000)
    assert not are_runs(np.append(sound, np.uint32(256 * start + length)), 1000)


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


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.2, 0.9]))
def test_column_squares_are_exact_and_zero_where_no_row_has_a_one(seed, density):
    random = np.random.RandomState(seed)
    dense = (random.random_sample((30, 500)) < density) * (random.random_sample(500) < 0.5)
    X = sp.csr_matrix(dense.astype(np.float64))
    runs, indptr = find_runs(X.indices, X.indptr)
    lengths = np.maximum(dense.sum(axis=1, keepdims=True), 1)
    expected = (dense / lengths).sum(axis=0)
    for X_binary in (BinaryRows(X.indptr, X.indices, 500), RunRows(indptr, runs, 500)):
        found = X_binary.column_squares()
        np.testing.assert_allclose(found, expected, atol=1e-12)
        assert np.array_equal(found == 0, expected == 0)


def test_some_rows_are_taken_in_the_form_in_which_they_are_kept():
    X = sp.csr_matrix(np.eye(6)[[0, 0, 3, 5]] + np.eye(6)[[1, 2, 4, 0]])
    runs, indptr = find_runs(X.indices, X.indptr)
    for X_binary in (BinaryRows(X.indptr, X.indices, 6), RunRows(indptr, runs, 6)):
        taken = take_rows(X_binary, np.array([2, 0]))
        assert type(taken) is type(X_binary)
        np.testing.assert_array_equal(taken[:].toarray(), X_binary[np.array([2, 0])].toarray())


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("empty", [[], [0, 3, 10], list(range(11))])
def test_columns_without_entries_change_no_product(kind, empty):
    dense = make(kind)[0].copy()
    dense[:, empty] = 0
    X = dense if kind == "dense" else sp.csr_matrix(dense)
    C = np.random.RandomState(1).standard_normal((len(dense), 4))
    out = np.ones((11, 4))
    rows.add_product_transposed(out, X, C)
    assert np.allclose(out, 1 + dense.T @ C)
    assert np.allclose(rows.gram(X), dense @ dense.T)


UNSOUND = {
    "a column too large": ([0, 2], [0, 3]),
    "a negative column": ([0, 2], [-1, 2]),
    "columns that do not ascend": ([0, 2], [1, 0]),
    "a column twice": ([0, 2], [1, 1]),
    "bounds that fall": ([0, 2, 1, 2], [0, 1]),
    "bounds that do not start at 0": ([1, 2], [0, 1]),
    "bounds beyond the end": ([0, 5], [0, 1]),
    "no bounds": ([], [0, 1]),
    "fractions": ([0.0, 2.0], [0, 1]),
}


@pytest.mark.parametrize("case", UNSOUND)
def test_unsound_rows_of_zeros_and_ones_are_refused(case):
    indptr, indices = UNSOUND[case]
    with pytest.raises(ValueError, match=r"columns|indptr|integers"):
        BinaryRows(np.array(indptr), np.array(indices), 3)


@pytest.mark.parametrize(("runs", "indptr"), [([256 * 2 + 2], [0, 1]), ([0], [0, 1]), ([256 * 199 + 2], [0, 1])])
def test_unsound_runs_are_refused(runs, indptr):
    with pytest.raises(ValueError, match=r"columns|runs"):
        RunRows(np.array(indptr), np.array(runs, dtype=np.uint32), 3 if runs[0] < 10_000 else 400)


@pytest.mark.parametrize("change", [("indices", 0, 99), ("indices", 0, -1), ("indptr", 1, 99), ("indptr", 2, 0)])
@pytest.mark.parametrize(
    "use",
    [
        lambda X: FLRML(2).fit(X, np.arange(8) % 2),
        lambda X: knn_accuracy(X, np.arange(8) % 2, X, np.arange(8) % 2, n_neighbors=1),
    ],
)
def test_an_unsound_csr_matrix_is_refused_before_compiled_code_reads_it(change, use):
    X = sp.random(8, 5, 0.5, "csr", random_state=0)
    name, place, value = change
    getattr(X, name)[place] = value
    with pytest.raises(ValueError, match=r"not a sound sparse matrix|not sound|indices|index"):
        use(X)
