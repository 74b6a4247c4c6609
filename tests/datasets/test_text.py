import json

import numpy as np
import pytest

from flrml.datasets import load_encoder, open_split, prepare
from flrml.datasets.encoders.pretrained import embed_wordllama
from flrml.exceptions import DatasetError

QUESTIONS = {
    "train": [
        ["where is my card", "card"],
        ["my card, please", "card"],
        ["new pin", "pin"],
        ["which pin", "pin"],
    ],
    "val": [["card lost", "card"]],
    "test": [["pin lost", "pin"], ["card?", "card"], ["my pin", "pin"]],
    "oos_train": [["play a song", "oos"]],
    "oos_val": [["a joke", "oos"]],
    "oos_test": [["who won", "oos"]],
}


@pytest.fixture
def raw(tmp_path):
    """Folder with small files of both data sets, and a file of the user with the name of one of them."""
    folder = tmp_path / "raw"
    (folder / "clinc150").mkdir(parents=True)
    (folder / "clinc150/data_full.json").write_text(json.dumps(QUESTIONS))
    (folder / "banking77").mkdir()
    (folder / "train.csv").write_text("x,y\n1,2\n")
    for part in ("train", "test"):
        lines = [f'"{text}",{label}' for text, label in QUESTIONS[part]]
        (folder / f"banking77/{part}.csv").write_text("\n".join(["text,category", *lines, ""]))
    return folder


@pytest.mark.parametrize(
    ("name", "options", "n", "n_test", "classes"),
    [
        ("banking77", {}, 4, 3, ["card", "pin"]),
        ("clinc150", {}, 5, 3, ["card", "pin"]),
        ("clinc150", {"out_of_scope": True}, 7, 4, ["card", "oos", "pin"]),
    ],
)
def test_questions_are_read_with_their_intents(raw, tmp_path, name, options, n, n_test, classes):
    meta = prepare(name, tmp_path / "out", options=options, raw_dir=raw)
    assert [meta["splits"][part]["shape"][0] for part in ("train", "test")] == [n, n_test]
    assert meta["classes"] == classes
    assert len(meta["notes"]) == 1  # the files are not the published ones


def test_pretrained_rows_are_those_that_a_served_model_gets(raw, tmp_path):
    prepare("banking77", tmp_path / "out", options={"encoder": "wordllama"}, raw_dir=raw)
    texts = [text for text, _ in QUESTIONS["test"]]
    X, _ = open_split(tmp_path / "out/test")
    np.testing.assert_array_equal(load_encoder(tmp_path / "out").transform(texts), X)
    expected = embed_wordllama(texts)
    np.testing.assert_allclose(X, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("kind", ["table", "folder"])
def test_texts_of_a_user_are_embedded(tmp_path, kind):
    if kind == "table":
        options = {"train": "mine.csv", "text": "question", "target": "intent"}
        lines = [f'"{text}",{label}' for text, label in QUESTIONS["train"]]
        (tmp_path / "mine.csv").write_text("\n".join(["question,intent", *lines, ""]))
    else:
        options = {"train": "mine", "format": "folder"}
        for number, (text, label) in enumerate(QUESTIONS["train"]):
            (tmp_path / "mine" / label).mkdir(parents=True, exist_ok=True)
            (tmp_path / "mine" / label / f"{number}.txt").write_text(text)
    prepare("mine", tmp_path / "out", options=options | {"encoder": "wordllama", "holdout": 0.5})
    rows = np.vstack([open_split(tmp_path / "out" / part)[0] for part in ("train", "test")])
    encoder = load_encoder(tmp_path / "out")
    served = encoder.transform([text for text, _ in QUESTIONS["train"]])
    np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(served, axis=0))
    if kind == "table":
        import pandas as pd

        np.testing.assert_array_equal(
            encoder.transform(pd.DataFrame({"question": ["where is my card"]})), served[:1]
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoder": "bert"}, "option encoder is 'bert', but must be one of wordllama"),
        ({"encoder": "wordllama", "weighting": "tfidf"}, "weighting 'tfidf' needs counts"),
    ],
)
def test_bad_options_are_named(raw, tmp_path, options, message):
    with pytest.raises(DatasetError, match=message):
        prepare("banking77", tmp_path / "out", options=options, raw_dir=raw)


def test_an_encoder_and_settings_for_words_exclude_each_other(tmp_path):
    (tmp_path / "mine.csv").write_text("question,intent\na,b\nc,d\n")
    options = {"train": "mine.csv", "text": "question", "target": "intent", "holdout": 0.5}
    with pytest.raises(DatasetError, match="encoder wordllama counts no words; leave out option vectorizer"):
        prepare("mine", tmp_path / "out", options=options | {"encoder": "wordllama", "vectorizer": {"min_df": 2}})


@pytest.mark.parametrize("content", ["", "{", '{"train": 1}', '[["a", "b"]]'])
def test_damaged_files_are_named(raw, tmp_path, content):
    (raw / "clinc150/data_full.json").write_text(content)
    with pytest.raises(DatasetError, match=r"data_full.json: not readable as a JSON file of texts and intents"):
        prepare("clinc150", tmp_path / "out", raw_dir=raw)
    (raw / "banking77/train.csv").write_text(content)
    with pytest.raises(DatasetError, match=r"banking77/train.csv: "):
        prepare("banking77", tmp_path / "out", raw_dir=raw)


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "options", "n", "n_test", "classes"),
    [
        ("banking77", {}, 10_003, 3_080, 77),
        ("clinc150", {}, 18_000, 4_500, 150),
        ("clinc150", {"out_of_scope": True}, 18_200, 5_500, 151),
    ],
)
def test_published_files(real_folder, tmp_path, name, options, n, n_test, classes):
    if not (real_folder / name).is_dir():
        pytest.skip(f"no raw files of {name}")
    meta = prepare(name, tmp_path / "out", options=options | {"encoder": "wordllama"}, raw_dir=real_folder)
    assert meta["splits"]["train"]["shape"] == [n, 256]
    assert meta["splits"]["test"]["shape"] == [n_test, 256]
    assert (meta["n_classes"], meta["empty_rows"], meta["notes"]) == (classes, 0, [])
