"""A fit does not depend on how the same rows and labels are written down."""

import os

import numpy as np
import pytest
import scipy.sparse as sp

from flrml import knn_accuracy
from flrml.methods import METHODS, build

CASES = max(1, int(os.environ.get("FLRML_INVARIANCE_CASES", "0")) // (7 * len(METHODS)))


def rows(seed):
    """Sparse rows of unit length in three classes."""
    random = np.random.RandomState(seed)
    y = np.arange(36) % 3
    dense = random.rand(36, 20) * (random.rand(36, 20) < 0.5)
    dense[np.arange(36), 5 * y] += 1
    return sp.csr_matrix(dense / np.linalg.norm(dense, axis=1, keepdims=True)), y


def duplicated(X, y):
    """Every entry is written as two halves."""
    halves = np.repeat(X.data / 2, 2)
    return sp.csr_matrix((halves, np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape), y


def unordered(X, y):
    """Column numbers descend within each row."""
    order = np.concatenate([np.arange(b, a, -1) - 1 for a, b in zip(X.indptr, X.indptr[1:], strict=False)])
    return sp.csr_matrix((X.data[order], X.indices[order], X.indptr), shape=X.shape), y


def with_zeros(X, y):
    """Some entries that are zero are stored."""
    entries, empty = X.tocoo(), np.flatnonzero(X[:, [7]].toarray() == 0)
    row, column = np.append(entries.row, empty), np.append(entries.col, np.full(len(empty), 7))
    stored = sp.csr_matrix((np.append(entries.data, np.zeros(len(empty))), (row, column)), X.shape)
    assert stored.nnz == X.nnz + len(empty) > X.nnz
    return stored, y


VARIATIONS = {
    "duplicates": duplicated,
    "order of columns": unordered,
    "explicit zeros": with_zeros,
    "index type": lambda X, y: (sp.csr_matrix((X.data, X.indices.astype(np.int64), X.indptr), shape=X.shape), y),
    "sparse array": lambda X, y: (sp.csr_array(X), y),
    "names of classes": lambda X, y: (X, np.array(["a", "b", "c"])[y]),
    "type of labels": lambda X, y: (X, y.astype(np.int8)),
}


def cosines(method, X, y):
    """Cosines of all embedded rows, which the signs of directions do not change."""
    known = METHODS[method].accepts
    parameters = {name: value for name, value in {"n_components": 4, "random_state": 0}.items() if name in known}
    model = build(method, **parameters).fit(X, y)
    if hasattr(model, "similarity_"):
        return model.similarity_
    E = model.transform(X)
    E = E.toarray() if sp.issparse(E) else E
    E = E / np.maximum(np.linalg.norm(E, axis=1, keepdims=True), 1e-12)
    return E @ E.T


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("variation", VARIATIONS)
@pytest.mark.parametrize("method", METHODS)
def test_a_fit_does_not_depend_on_how_its_input_is_written_down(method, variation):
    for seed in range(CASES):
        X, y = rows(seed)
        given = VARIATIONS[variation](X.copy(), y)
        before = given[0].copy()
        np.testing.assert_allclose(
            cosines(method, *given), cosines(method, X, y), atol=1e-4, err_msg=f"seed {seed}"
        )
        np.testing.assert_array_equal(given[0].data, before.data)  # the caller's matrix stays as it is


@pytest.mark.parametrize("variation", list(VARIATIONS)[:5])
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_neighbours_do_not_depend_on_how_rows_are_written_down(variation, metric):
    (X, y), (X_test, y_test) = rows(0), rows(1)
    expected = knn_accuracy(X, y, X_test, y_test, metric=metric)
    changed, changed_test = VARIATIONS[variation](X, y)[0], VARIATIONS[variation](X_test, y_test)[0]
    assert knn_accuracy(changed, y, changed_test, y_test, metric=metric) == expected
