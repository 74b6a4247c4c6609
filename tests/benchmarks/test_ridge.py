import numpy as np

from benchmarks import ridge
from flrml import RidgeFLRML, knn_accuracy


def test_made_up_documents_have_unit_rows_and_classes_to_learn():
    X, y = ridge.documents(600, 2000, 5)
    assert X.shape == (600, 2000)
    assert np.allclose(X.multiply(X).sum(axis=1), 1, atol=1e-6)
    model = RidgeFLRML(20, random_state=0).fit(X[:400], y[:400])
    assert knn_accuracy(model.transform(X[:400]), y[:400], model.transform(X[400:]), y[400:]) > 0.5


def test_growth_reports_the_exponent_of_the_time(monkeypatch):
    times = iter([1.0, 3.0, 2.0, 2.5, 9.0, 4.0, 8.0, 8.0])
    monkeypatch.setattr(ridge, "seconds", lambda work: next(times))
    assert ridge.growth("rows", lambda factor: (None, None))[-1] == "time grows with the power 1.00"


def test_peak_memory_counts_arrays():
    time, peak = ridge.seconds_and_peak(lambda: np.ones(2**20))
    assert 0 < time < 10
    assert 7.5 < peak < 9
