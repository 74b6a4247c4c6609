"""Raw input that is encoded later becomes the rows of the prepared data set, for every kind of raw input."""

import io
import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from flrml.datasets import load_encoder, open_split, prepare
from flrml.exceptions import DatasetError


def prepared(folder, split="train"):
    X, _ = open_split(folder / split)
    X = X[:]
    return X.toarray() if sp.issparse(X) else np.asarray(X)


def encoded(folder, raw):
    X = load_encoder(folder).transform(raw)
    assert X.dtype == np.float32
    return X.toarray() if sp.issparse(X) else X


WORDS = st.sampled_from(["red", "green", "Grün", "1", "2.0", "a, b"])
ROW = st.fixed_dictionaries(
    {
        "width": st.integers(-3, 3) | st.floats(-1e6, 1e6),
        "colour": WORDS.filter(str.isalpha),
        "code": WORDS,
        "note": WORDS,
        "kind": st.sampled_from(["x", "y"]),
    }
)


@settings(deadline=None, max_examples=10, phases=[Phase.generate])
@given(
    rows=st.lists(ROW, min_size=4, max_size=20).filter(lambda rows: len({row["kind"] for row in rows}) == 2),
    scale=st.sampled_from(["standard", "unit", "none"]),
    shuffled=st.permutations(["width", "colour", "code"]),
)
def test_tables(tmp_path_factory, rows, scale, shuffled):
    folder = tmp_path_factory.mktemp("table")
    frame = pd.DataFrame([*rows, {**rows[0], "colour": "blue"}, {**rows[0], "colour": "blue"}])
    frame.to_csv(folder / "a.csv", index=False, sep=";")
    options = {"train": folder / "a.csv", "test": folder / "a.csv", "target": "kind", "scale": scale}
    prepare("mine", folder / "out", options={**options, "drop": ["note"], "categorical": ["code"]})
    expected = prepared(folder / "out")
    features = frame[shuffled]
    for raw in (features, frame, features.to_dict("list"), features.to_dict("records")):
        np.testing.assert_array_equal(encoded(folder / "out", raw), expected)
    again = pd.read_csv(io.StringIO(features.to_csv(index=False)))  # with types as pandas guesses them
    np.testing.assert_array_equal(encoded(folder / "out", again), expected)
    for row in range(len(frame)):
        np.testing.assert_array_equal(encoded(folder / "out", features[row : row + 1]), expected[row : row + 1])


@settings(deadline=None, max_examples=10, phases=[Phase.generate])
@given(
    texts=st.lists(st.text("ab é1\n", max_size=12), min_size=2, max_size=8),
    weighting=st.sampled_from(["counts", "tfidf", "log-tfidf"]),
    vectorizer=st.sampled_from(
        [{}, {"ngram_range": [1, 2], "sublinear_tf": True}, {"analyzer": "char", "max_features": 3}]
    ),
)
def test_texts(tmp_path_factory, texts, weighting, vectorizer):
    folder = tmp_path_factory.mktemp("text")
    texts = ["aa ab", *texts, "ba bb aa aa"]
    lines = [json.dumps({"body": text, "kind": f"k{number % 2}", "n": 1}) for number, text in enumerate(texts)]
    (folder / "a.jsonl").write_text("\n".join(lines))
    options = {"train": folder / "a.jsonl", "test": folder / "a.jsonl", "target": "kind", "text": "body"}
    prepare("mine", folder / "out", options={**options, "weighting": weighting, "vectorizer": vectorizer})
    expected = prepared(folder / "out")
    for raw in (texts, np.array(texts), pd.Series(texts), pd.DataFrame({"kind": 0, "body": texts})):
        np.testing.assert_array_equal(encoded(folder / "out", raw), expected)
    assert load_encoder(folder / "out").example == texts[0]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64, bool])
@pytest.mark.parametrize("scale", ["unit", "standard", "none"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_arrays(tmp_path, dtype, scale, make):
    rng = np.random.default_rng(0)
    X, y = (rng.integers(0, 5, (30, 7)) * (rng.random((30, 7)) < 0.5)).astype(dtype), np.arange(30) % 3
    np.save(tmp_path / "y.npy", y)
    if make is np.asarray:
        np.save(tmp_path / "X.npy", X)
    else:
        sp.save_npz(tmp_path / "X.npz", make(X.astype(np.float32)))
    file = tmp_path / ("X.npy" if make is np.asarray else "X.npz")
    options = {"train": file, "labels": tmp_path / "y.npy", "holdout": 0.3, "scale": scale}
    prepare("mine", tmp_path / "out", options=options)
    rows = np.concatenate([prepared(tmp_path / "out", split) for split in ("train", "test")])
    for raw in (X, pd.DataFrame(X), sp.csr_matrix(X.astype(np.float32)), X.astype(float).tolist()):
        found = encoded(tmp_path / "out", raw)
        np.testing.assert_allclose(found[np.lexsort(found.T)], rows[np.lexsort(rows.T)], rtol=1e-6, atol=1e-7)
    assert {"unit": 1.0, "standard": None, "none": None}[scale] in (None, pytest.approx((rows**2).sum() / 30, 0.1))


def test_bundled_data(tmp_path):
    from sklearn.datasets import load_digits

    prepare("digits", tmp_path / "out")
    found = encoded(tmp_path / "out", load_digits().data)
    expected = {row.tobytes() for split in ("train", "test") for row in prepared(tmp_path / "out", split)}
    assert {row.tobytes() for row in found} == expected


@pytest.mark.parametrize("fill", ["surface", "solid"])
def test_voxels(tmp_path, fill):
    prepare("shapes10-16", tmp_path / "out", options={"models": [1, 1], "poses": 2, "fill": fill})
    expected = prepared(tmp_path / "out")
    for raw in (expected > 0, (expected > 0).astype(np.uint8), sp.csr_matrix(expected > 0)):
        np.testing.assert_allclose(encoded(tmp_path / "out", raw), expected, rtol=1e-6)


def test_an_encoder_that_is_missing_or_damaged_is_named(tmp_path):
    with pytest.raises(DatasetError, match=r"encoder\.npz: no such file; prepare the data set again"):
        load_encoder(tmp_path / "encoder.npz")
    prepare("digits", tmp_path / "out")
    (tmp_path / "out/encoder.npz").write_bytes(b"PK")
    with pytest.raises(DatasetError, match=r"encoder\.npz: damaged or not an encoder"):
        load_encoder(tmp_path / "out")
