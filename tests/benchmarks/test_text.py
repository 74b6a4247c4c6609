import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from benchmarks import text
from benchmarks.ridge import documents


def test_every_classifier_is_scored_on_the_same_features(monkeypatch):
    X, y = documents(500, 2000, 5)
    scores = text.compare(X[:400], y[:400], X[400:], y[400:])
    assert set(scores) == {"RidgeFLRML", *text.CLASSIFIERS}
    assert all(50 < accuracy <= 100 and time > 0 for accuracy, time in scores.values())
    monkeypatch.setattr(text, "texts", lambda: iter([("documents", X[:400], y[:400], X[400:], y[400:])]))
    assert [other for _, other, _ in text.rows()] == list(text.CLASSIFIERS)


def test_counts_come_back_from_rows_of_unit_length():
    counts = sp.csr_matrix(np.array([[1, 0, 3], [0, 0, 0], [2, 1, 5]], dtype=np.float32))
    assert (text.term_counts(normalize(counts)) != counts).nnz == 0
