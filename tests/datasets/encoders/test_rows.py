import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.feature_extraction.text import TfidfTransformer

from flrml.datasets.encoders.rows import RowsEncoder, checked, unit_rows
from flrml.exceptions import DatasetError

COUNTS = hnp.arrays(np.float64, st.tuples(st.integers(1, 8), st.integers(1, 6)), elements=st.integers(0, 4))
VALUES = hnp.arrays(np.float64, (4, 5), elements=st.floats(-1e300, 1e300))


@settings(deadline=None)
@given(X=COUNTS, logarithm=st.booleans())
def test_weights_agree_with_scikit_learn(X, logarithm):
    expected = TfidfTransformer().fit_transform(np.log1p(X) if logarithm else X).toarray()
    encoder = RowsEncoder(X.shape[1], "csr", "log-tfidf" if logarithm else "tfidf")
    encoder.fit(lambda: iter([X[:2], sp.csr_matrix(X[2:])]))
    np.testing.assert_allclose(encoder.transform(X).toarray(), expected, atol=1e-6)


@given(X=VALUES)
def test_rows_get_unit_length_and_empty_ones_stay_empty(X):
    for block in (X, sp.csr_matrix(X)):
        rows = unit_rows(checked(block, "here", np.arange(len(X))))
        rows = rows.toarray() if sp.issparse(rows) else rows
        lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
        np.testing.assert_allclose(lengths, X.any(axis=1), atol=1e-6)
        assert rows.dtype == np.float32


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_values_that_are_not_finite_are_named(bad, make):
    X = np.ones((4, 3))
    X[2, 1] = bad
    with pytest.raises(DatasetError, match=r"file\.npy: example 13"):
        checked(make(X), "file.npy", np.arange(10, 14))


def test_term_weights_need_counts():
    with pytest.raises(DatasetError, match="negative"):
        RowsEncoder(2, "csr", "tfidf").fit(lambda: iter([np.eye(2)])).transform(-np.eye(2))
