"""Logged models take raw input of every kind, predict what was evaluated, and answer with names."""

import json
from io import StringIO
from pathlib import Path
from urllib.parse import urlparse

import mlflow
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from mlflow.exceptions import MlflowException
from mlflow.pyfunc import scoring_server

from flrml.datasets import load_meta
from tests.pipeline.kinds import KINDS, as_json, run_of


@pytest.fixture(params=list(KINDS))
def served(trained_kinds, request):
    """A kind, its results, its logged model as loaded back, and the predictions of the evaluation."""
    results, kinds = trained_kinds
    model = logged_model(trained_kinds, request.param)
    predictions = pd.read_csv(results.results / run_of(request.param) / "predictions.csv", dtype=str)
    return kinds[request.param], results.results / "data" / request.param, model, predictions


def logged_model(trained_kinds, name):
    """The logged model of a kind as loaded back."""
    results, _ = trained_kinds
    (run,) = results.runs(f"{name}/*")
    mlflow.set_tracking_uri(results.config["tracking_uri"])
    return mlflow.pyfunc.load_model(f"models:/{run.outputs.model_outputs[0].model_id}")


def ask(model, payload, mime="application/json"):
    """Answer of the model as MLflow's server gives it."""
    answer = scoring_server.invocations(payload, mime, model, model.metadata.get_input_schema())
    return json.loads(answer.response)["predictions"]


def test_a_logged_model_predicts_exactly_what_was_evaluated_and_answers_with_names(served):
    kind, data, model, predictions = served
    predicted = model.predict(kind.raw)
    assert predicted.tolist() == predictions["predicted"].tolist()
    assert set(predicted) <= set(load_meta(data)["classes"])


def test_every_type_of_input_gives_the_same(served):
    kind, _, model, predictions = served
    if isinstance(kind.raw, pd.DataFrame):
        frame = kind.raw
        versions = [frame[frame.columns[::-1]], frame.to_dict("list"), frame.assign(species="?", plant="?")]
        versions.append(pd.read_csv(StringIO(frame.to_csv(index=False))))
    elif kind.options.get("format") == "images":
        arrays = np.array(as_json(kind.raw))
        versions = [[Path(file) for file in kind.raw], arrays, list(arrays.astype(np.uint8)), pd.Series(kind.raw)]
    elif isinstance(kind.raw, list):
        table = pd.DataFrame({"n": 1, "body": kind.raw})
        versions = [np.array(kind.raw), pd.Series(kind.raw), table, table.to_dict("records")]
    else:
        dense = kind.raw.toarray() if sp.issparse(kind.raw) else kind.raw
        versions = [dense.astype(np.float64), dense.astype(np.float32), pd.DataFrame(dense), sp.csr_matrix(dense)]
    for raw in versions:
        assert model.predict(raw).tolist() == predictions["predicted"].tolist()


def test_a_server_answers_the_same(served):
    kind, _, model, predictions = served
    rows = as_json(kind.raw)[:5]
    assert ask(model, json.dumps({"inputs": rows})) == predictions["predicted"].tolist()[:5]
    shares = ask(model, json.dumps({"inputs": rows, "params": {"output": "probabilities"}}))
    assert [max(share, key=share.get) for share in shares] == predictions["predicted"].tolist()[:5]


def test_a_server_takes_every_form_of_request(served):
    kind, _, model, predictions = served
    rows, expected = as_json(kind.raw)[:5], predictions["predicted"].tolist()[:5]
    if isinstance(kind.raw, pd.DataFrame):
        frame = kind.raw[kind.raw.columns[::-1]][:5]
    else:  # texts and images are one column, numbers a column each
        frame = pd.DataFrame(rows) if np.ndim(rows) == 2 else pd.DataFrame({"body": rows})
    split = frame.to_dict("split")
    forms = {"instances": rows, "dataframe_split": split, "dataframe_records": frame.to_dict("records")}
    for form, content in forms.items():
        assert ask(model, json.dumps({form: content})) == expected
        shares = ask(model, json.dumps({form: content, "params": {"output": "probabilities"}}))
        assert [max(share, key=share.get) for share in shares] == expected
    if kind.options.get("format") == "images":
        frame = pd.DataFrame({"file": kind.raw[:5]})
    frame.columns = frame.columns.astype(str)  # Parquet's are
    assert ask(model, frame.to_csv(index=False), "text/csv") == expected
    assert ask(model, frame.to_parquet(), "application/vnd.apache.parquet") == expected


@pytest.mark.parametrize(
    ("payload", "mime", "words"),
    [
        (
            '{"dataframe_split": {"columns": ["sepal_length"], "data": [[1]]}}',
            "application/json",
            "no column 'sepal_width'",
        ),
        ('{"dataframe_records": [{"sepal_lenght": 1}]}', "application/json", "(did you mean 'sepal_length'?)"),
        ('{"dataframe_records": [{}], "inputs": [{}]}', "application/json", "exactly one of the input fields"),
        ('{"rows": [{}]}', "application/json", "exactly one of the input fields"),
        ("sepal_length,wide\n1,2\n", "text/csv", "unknown column 'wide'"),
    ],
)
def test_a_bad_request_is_named(trained_kinds, payload, mime, words):
    model = logged_model(trained_kinds, "table")
    with pytest.raises(MlflowException) as caught:
        ask(model, payload, mime)
    assert words in caught.value.message


def test_outputs_agree_with_each_other(served):
    kind, data, model, predictions = served
    shares, embedded, found = (
        model.predict(kind.raw, params={"output": output}) for output in ("probabilities", "embedding", "neighbors")
    )
    assert shares.columns.tolist() == load_meta(data)["classes"]
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    best = shares.to_numpy() == shares.to_numpy().max(axis=1, keepdims=True)
    predicted = predictions["predicted"].map(shares.columns.get_loc)
    assert best[np.arange(len(best)), predicted].all()
    assert embedded.shape == (len(predictions), min(4, embedded.shape[1]))
    votes = found[[f"class_{k}" for k in (1, 2, 3)]].to_numpy()
    for name in shares.columns:
        np.testing.assert_allclose((votes == name).mean(axis=1), shares[name])
    if "names" in kind.options:
        assert found["neighbor_1"].str.startswith("plant ").all()
    similarities = found[[f"similarity_{k}" for k in (1, 2, 3)]].to_numpy()
    assert (np.diff(similarities, axis=1) <= 0).all()


def test_signature_example_and_requirements_say_what_the_model_takes(served):
    kind, data, model, _ = served
    signature, meta = model.metadata.signature, load_meta(data)
    assert [param.to_dict()["default"] for param in signature.params.params] == ["class"]
    (first, *_) = signature.inputs.inputs
    if isinstance(kind.raw, pd.DataFrame):
        assert {spec.name: spec.type.name for spec in signature.inputs.inputs}["garden"] == "string"
        assert set(signature.inputs.input_names()) == set(kind.raw.columns)
    elif kind.options.get("format") == "images":
        assert (first.type, first.shape) == (np.uint8, (-1, 8, 8))
    elif isinstance(kind.raw, list):
        assert (first.name, first.type.name) == ("body", "string")
    else:
        assert first.shape == (-1, meta["n_features"])
    assert model.predict(model.input_example)[0] in meta["classes"]
    place = Path(urlparse(mlflow.get_logged_model(model.model_id).artifact_location).path)
    assert {"flrml", "numpy", "pandas"} <= {
        line.split("==")[0] for line in (place / "requirements.txt").read_text().split()
    }
    assert ask(model, (place / "serving_input_example.json").read_text())[0] in meta["classes"]
    assert {path.suffix for path in place.rglob("*")} <= {"", ".npz", ".json", ".yaml", ".txt"}


@pytest.mark.parametrize(
    ("name", "raw", "params", "words"),
    [
        (
            "table",
            pd.DataFrame({"sepal_length": [1.0], "wide": [2]}),
            {},
            ["no column 'sepal_width'", "column 'wide'"],
        ),
        ("text", "one text", {}, ["a single string; give a list"]),
        ("text", [1.5], {}, ["example 1: '1.5' is not a text"]),
        ("text", [{"title": "x"}], {}, ["example 1: 'None' is not a text"]),
        ("text", [], {}, ["input: no examples; give at least one"]),
        ("table", [], {}, ["input: no examples"]),
        ("table", pd.DataFrame({"sepal_length": []}), {}, ["input: no examples"]),
        ("embeddings", np.zeros((0, 64)), {}, ["input: no examples"]),
        ("image", [], {}, ["input: no examples"]),
        ("image", np.zeros((8, 8, 3), np.uint8), {}, ["example 1: a row of pixels; give a list of images"]),
        ("embeddings", np.zeros((2, 63)), {}, ["63 columns", "have 64"]),
        ("embeddings", [["a"] * 64], {}, ["not a matrix of numbers"]),
        ("embeddings", [[1.0] * 64, [1.0]], {}, ["not a matrix of numbers"]),
        ("image", ["nowhere.png"], {}, ["nowhere.png: cannot be read"]),
        ("image", [[[0.5, 1.0]]], {}, ["example 1: pixels must be integers from 0 to 255"]),
        ("digits", np.full((1, 64), np.nan), {}, ["example 1: a value is NaN"]),
        ("digits", np.ones((1, 64)), {"output": "classes"}, ["output must be one of class, probabilities"]),
    ],
)
def test_bad_input_is_named_in_one_line(trained_kinds, name, raw, params, words):
    with pytest.raises(MlflowException) as caught:
        logged_model(trained_kinds, name).predict(raw, params=params)
    assert all(word in caught.value.message for word in words)
    assert "\n" not in caught.value.message
