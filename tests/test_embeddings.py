import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize

from flrml import RidgeFLRML, knn_accuracy
from flrml.embeddings import save_embeddings
from flrml.neighbors import nearest


@pytest.fixture(scope="module")
def fitted(digits):
    X, y, *_ = digits
    return RidgeFLRML(16, ridge=1.0, within=0.5, local=0.5, rounds=0, random_state=0).fit(X, y)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float16", 1e-3)])
def test_files_hold_the_rows_at_unit_length_and_their_names(tmp_path, fitted, digits, dtype, tolerance):
    embedded = fitted.transform(digits[2])
    names = [f"digits/{number}.png" for number in range(len(embedded))]
    save_embeddings(tmp_path / "test", embedded, names, dtype=dtype)
    rows = np.load(tmp_path / "test/embeddings.npy", mmap_mode="r", allow_pickle=False)
    assert rows.dtype == dtype
    np.testing.assert_allclose(rows, normalize(embedded), atol=tolerance)
    assert (tmp_path / "test/names.txt").read_text().splitlines() == names


def test_rows_may_keep_their_lengths_and_are_numbered_without_names(tmp_path):
    save_embeddings(tmp_path / "rows", [[3, 4], [0, 2]], unit=False)
    assert np.load(tmp_path / "rows/embeddings.npy").tolist() == [[3, 4], [0, 2]]
    assert (tmp_path / "rows/names.txt").read_text() == "0\n1\n"


def test_dask_rows_are_gathered(tmp_path):
    dask = pytest.importorskip("dask.array")
    save_embeddings(tmp_path / "rows", dask.ones((4, 2), chunks=(2, 2)), unit=False)
    assert np.load(tmp_path / "rows/embeddings.npy").tolist() == [[1, 1]] * 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dtype": "float64"}, r"dtype must be one of \('float32', 'float16'\), got 'float64'"),
        ({"names": ["a"]}, "there are 1 names for 2 rows; give one name per row"),
        ({"names": ["a", "b\nc"]}, r"name 'b\\nc' is not one line"),
        ({"names": ["a", ""]}, "name '' is not one line"),
        ({"unit": False, "dtype": "float16"}, r"values up to 1e\+06 do not fit into float16; use unit=True"),
        ({"embedded": sp.csr_matrix(np.eye(2))}, "embedded must be dense"),
        ({"embedded": [[np.nan, 1.0]]}, "embedded contains NaN"),
    ],
)
def test_bad_input_is_named_and_an_earlier_folder_stays(tmp_path, arguments, message):
    save_embeddings(tmp_path / "rows", [[1.0]])
    with pytest.raises(ValueError, match=message):
        save_embeddings(tmp_path / "rows", **{"embedded": [[1e6, 0.0], [0.0, 1.0]]} | arguments)
    assert np.load(tmp_path / "rows/embeddings.npy").tolist() == [[1.0]]


@pytest.mark.parametrize(("dtype", "stored"), [("float32", "f32"), ("float16", "f16")])
def test_an_index_finds_the_neighbours_of_brute_force(tmp_path, fitted, digits, dtype, stored):
    from usearch.index import Index

    save_embeddings(tmp_path / "train", fitted.transform(digits[0]), dtype=dtype)
    vectors = np.load(tmp_path / "train/embeddings.npy")
    index = Index(ndim=vectors.shape[1], metric="cos", dtype=stored)
    index.add(np.arange(len(vectors)), vectors)
    queries = fitted.transform(digits[2])
    found = index.search(queries.astype(dtype), 10).keys
    exact = nearest(fitted.transform(digits[0]), queries, 10)[0]
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), exact.tolist(), strict=True)])
    assert recall >= 0.95


def test_neighbours_of_scikit_learn_are_those_of_flrml(fitted, digits):
    X, _, X_test, _ = digits
    search = NearestNeighbors(n_neighbors=5, metric="cosine").fit(fitted.transform(X))
    distances, indices = search.kneighbors(fitted.transform(X_test))
    expected, squared = nearest(fitted.transform(X), fitted.transform(X_test), 5)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_allclose(2 * distances, squared, atol=1e-9)


def test_a_pipeline_ends_in_a_graph_of_neighbours_or_a_classifier(digits):
    X, y, X_test, y_test = digits
    model = RidgeFLRML(16, ridge=1.0, within=0.5, local=0.5, rounds=0, random_state=0)
    graph = KNeighborsTransformer(mode="distance", n_neighbors=5, metric="cosine")
    pipeline = make_pipeline(model, graph, KNeighborsClassifier(5, metric="precomputed")).fit(X, y)
    neighbours = pipeline[:-1].transform(X_test)
    assert neighbours.shape == (len(X_test), len(X))
    expected = nearest(model.transform(X), model.transform(X_test), 5)[0]
    stored = neighbours.indices.reshape(len(X_test), -1)[:, :5]
    np.testing.assert_array_equal(np.sort(stored), np.sort(expected))
    # Ties between classes are the only difference.
    assert pipeline.score(X_test, y_test) == pytest.approx(
        knn_accuracy(model.transform(X), y, model.transform(X_test), y_test), abs=0.01
    )


def test_the_documentation_runs_as_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[1] / "docs/embeddings.md").read_text()
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), {})
    found = [sorted(map(int, re.findall(r"\d", line))) for line in capsys.readouterr().out.splitlines()]
    assert found == [[0, 1], [0, 1], [2, 3], [2, 3]]  # neighbours of the same class
