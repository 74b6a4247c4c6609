import numpy as np

from benchmarks import ridge
from benchmarks.prepared import prepared
from flrml import RidgeFLRML, knn_accuracy
from flrml.datasets import prepare
from flrml.exceptions import DatasetError


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


def test_every_text_data_set_has_its_rows_in_the_table(tmp_path, monkeypatch):
    for name in ridge.TEXT:
        prepare("digits", tmp_path / name)
    monkeypatch.setenv("FLRML_PREPARED", str(tmp_path))
    assert [name for name, _, _ in ridge.texts()] == list(ridge.TEXT) == ["newsgroups", "ng20", "tdt2", "r52", "r8"]


def test_a_data_set_is_prepared_from_its_raw_files_if_it_is_not_at_hand(tmp_path, monkeypatch):
    monkeypatch.setenv("FLRML_PREPARED", str(tmp_path))
    with prepared("digits") as folder:
        assert folder.parent != tmp_path
        assert (folder / "train").is_dir()
    assert not folder.exists()


def test_a_data_set_without_raw_files_is_left_out_by_name(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FLRML_RAW_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flrml.pipeline.config.at_hand.has_file", lambda url: False)
    monkeypatch.setattr("flrml.datasets.download.download", _offline)
    with prepared("tdt2") as folder:
        assert folder is None
    assert "tdt2 is left out" in capsys.readouterr().err


def _offline(wanted, *_):
    raise DatasetError(f"{wanted.name} cannot be fetched")
