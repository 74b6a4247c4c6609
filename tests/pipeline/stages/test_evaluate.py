"""Accuracy and predictions of a trained model."""

import csv

import numpy as np
import pytest
from sklearn.decomposition import PCA

from flrml import knn_accuracy
from flrml.datasets import load_meta, open_split
from flrml.files import read_json, write_json
from flrml.neighbors import knn_predict
from flrml.pipeline.stages import evaluate as stage
from flrml.pipeline.stages.evaluate import evaluate, principal_components
from flrml.pipeline.stages.learned_map import LearnedMap


def rows_of(folder):
    with open(folder / "predictions.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_predictions_are_those_that_the_accuracy_counts(trained_once, data):
    rows, result = rows_of(trained_once), read_json(trained_once / "metrics.json")
    classes = np.array(load_meta(data)["classes"])
    (X, y), (X_test, y_test) = (open_split(data / part) for part in ("train", "test"))
    learned = LearnedMap.load(trained_once / "model.npz")
    expected = knn_predict(learned.embed(X), y, learned.embed(X_test), n_neighbors=3)
    assert [row["row"] for row in rows] == [str(number) for number in range(len(y_test))]
    np.testing.assert_array_equal([row["class"] for row in rows], classes[y_test])
    np.testing.assert_array_equal([row["predicted"] for row in rows], classes[expected])
    assert np.mean([row["class"] == row["predicted"] for row in rows]) == result["accuracy"]
    assert result["accuracy"] == knn_accuracy(learned.embed(X), y, learned.embed(X_test), y_test, n_neighbors=3)


def test_a_sample_of_the_rows_has_a_place_by_pca(tmp_path, trained_once, data, monkeypatch):
    monkeypatch.setattr(stage, "SHOWN_ROWS", 30)
    for name in ("model.npz", "training.json"):
        (tmp_path / name).write_bytes((trained_once / name).read_bytes())
    evaluate(tmp_path, data=data)
    shown = [row for row in rows_of(tmp_path) if row["x"]]
    assert len(shown) == 30
    X, _ = open_split(data / "test")
    embedded = LearnedMap.load(tmp_path / "model.npz").embed(X[[int(row["row"]) for row in shown]])
    embedded /= np.linalg.norm(embedded, axis=1, keepdims=True)
    expected = PCA(2).fit_transform(embedded.astype(np.float64))
    places = np.array([(row["x"], row["y"]) for row in shown], dtype=float)
    np.testing.assert_allclose(np.abs(places), np.abs(expected), atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 4), (2, 4), (5, 1)])
def test_few_rows_or_columns_have_places_too(shape):
    places = principal_components(np.random.RandomState(0).standard_normal(shape))
    assert places.shape == (shape[0], 2)
    assert np.isfinite(places).all()


def test_rows_without_a_learned_map_have_no_place(tmp_path, data):
    LearnedMap(None, "cosine").save(tmp_path / "model.npz", {})
    write_json(tmp_path / "training.json", {"outcome": "ok"})
    evaluate(tmp_path, data=data)
    assert {row["x"] for row in rows_of(tmp_path)} == {""}


def test_rows_without_a_learned_map_can_be_evaluated_on_a_sample_of_the_test_rows(tmp_path, data):
    LearnedMap(None, "cosine").save(tmp_path / "model.npz", {})
    write_json(tmp_path / "training.json", {"outcome": "ok"})
    result = evaluate(tmp_path, data=data, cosine_rows=30)
    rows, whole = rows_of(tmp_path), evaluate(tmp_path, data=data)
    assert result["n_test"] == len(rows) == 30 < whole["n_test"] == len(rows_of(tmp_path))
    assert result["accuracy"] == np.mean([row["class"] == row["predicted"] for row in rows])
    by_number = {row["row"]: row for row in rows_of(tmp_path)}
    assert all(by_number[row["row"]] == row for row in rows)


def test_a_learned_map_is_evaluated_on_all_test_rows(tmp_path, trained_once, data):
    for name in ("model.npz", "training.json"):
        (tmp_path / name).write_bytes((trained_once / name).read_bytes())
    assert evaluate(tmp_path, data=data, cosine_rows=30)["n_test"] == len(open_split(data / "test")[1])


def test_a_training_without_a_model_has_no_predictions(tmp_path, data):
    write_json(tmp_path / "training.json", {"outcome": "T", "reason": "too slow"})
    evaluate(tmp_path, data=data)
    assert rows_of(tmp_path) == []
