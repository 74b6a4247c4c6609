"""The user's own data in every format, through `prepare`."""

import gzip

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from flrml.datasets import load_meta, open_split, paper_table, prepare, raw_files
from flrml.exceptions import DatasetError

N, D = 24, 5
X = np.random.default_rng(0).integers(0, 4, (N, D)).astype(float)
X[:, 0] += 1
Y = np.arange(N) % 3
UNIT = X / np.linalg.norm(X, axis=1, keepdims=True)


def svmlight(path, X, y):
    with gzip.open(path / "data.svm.gz", "wb") as file:
        dump_svmlight_file(X, y, file, zero_based=False)
    return {"train": path / "data.svm.gz"}


def npz(path, X, y):
    np.savez_compressed(path / "data.npz", X=X, y=y)
    return {"train": path / "data.npz"}


def npy(path, X, y):
    np.save(path / "X.npy", X)
    np.save(path / "y.npy", y)
    return {"train": path / "X.npy", "labels": path / "y.npy"}


def sparse_npz(path, X, y):
    sp.save_npz(path / "data.npz", sp.csr_matrix(X))
    np.save(path / "y.npy", y)
    return {"train": path / "data.npz", "labels": path / "y.npy"}


def mat(path, X, y):
    scipy.io.savemat(path / "data.mat", {"A": X, "b": y})
    return {"train": path / "data.mat", "features": "A", "target": "b"}


def csv(path, X, y):
    pd.DataFrame(X).assign(kind=y).to_csv(path / "data.csv", index=False)
    return {"train": path / "data.csv", "target": "kind", "scale": "unit"}


def parquet(path, X, y):
    table = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])]).assign(kind=y)
    table.to_parquet(path / "data.parquet", row_group_size=5)
    return {"train": path / "data.parquet", "target": "kind", "scale": "unit"}


WRITERS = [svmlight, npz, npy, sparse_npz, mat, csv, parquet]


@pytest.mark.parametrize("write", WRITERS)
def test_every_format_gives_the_same_rows(tmp_path, write):
    options = write(tmp_path, X, Y)
    meta = prepare("mine", tmp_path / "out", options={**options, "holdout": 0.25})
    back, y = open_split(tmp_path / "out/train")
    test, y_test = open_split(tmp_path / "out/test")
    back, test = (part.toarray() if sp.issparse(part) else part for part in (back, test))
    rows = np.concatenate((back, test))
    np.testing.assert_allclose(rows[np.lexsort(rows.T)], UNIT[np.lexsort(UNIT.T)], atol=1e-6)
    assert np.bincount(y).tolist() == [6, 6, 6]
    assert np.bincount(y_test).tolist() == [2, 2, 2]
    assert meta["classes"] == ["0", "1", "2"]
    assert load_meta(tmp_path / "out") == meta
    assert meta["raw_sha256"]
    assert meta["paper"] is None
    assert not (tmp_path / "out" / "scratch").exists()


@pytest.mark.parametrize("write", WRITERS)
def test_a_test_file_is_used_as_it_is(tmp_path, write):
    (tmp_path / "second").mkdir()
    options, second = write(tmp_path, X, Y), write(tmp_path / "second", X[:7], Y[:7])
    options |= {"test": second["train"]} | ({"test_labels": second["labels"]} if "labels" in second else {})
    prepare("mine", tmp_path / "out", options=options)
    test, y = open_split(tmp_path / "out/test")
    np.testing.assert_allclose(test.toarray() if sp.issparse(test) else test, UNIT[:7], atol=1e-6)
    np.testing.assert_array_equal(y, Y[:7])


@pytest.mark.parametrize("write", WRITERS)
def test_the_same_seed_gives_the_same_bytes(tmp_path, write):
    options = {**write(tmp_path, X, Y), "holdout": 0.5, "weighting": "tfidf", "scale": "standard"}
    for out in ("a", "b"):
        prepare("mine", tmp_path / out, options=options, seed=3)
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert files
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


@pytest.mark.parametrize("kind", ["csc", "coo"])
def test_other_sparse_formats(tmp_path, kind):
    square = sp.random(6, 6, 0.5, format=kind, rng=0)
    sp.save_npz(tmp_path / "data.npz", square)
    np.save(tmp_path / "y.npy", np.arange(6) % 2)
    options = {"train": tmp_path / "data.npz", "labels": tmp_path / "y.npy"}
    options |= {"test": tmp_path / "data.npz", "test_labels": tmp_path / "y.npy"}
    prepare("mine", tmp_path / "out", options=options)
    expected = square.toarray()
    lengths = np.linalg.norm(expected, axis=1, keepdims=True)
    back, _ = open_split(tmp_path / "out/train")
    np.testing.assert_allclose(back.toarray(), expected / np.where(lengths > 0, lengths, 1), atol=1e-6)


def test_a_folder_with_other_files_is_not_replaced(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(DatasetError, match=r"thesis\.tex"):
        prepare("digits", tmp_path)
    assert (tmp_path / "thesis.tex").exists()
    for _ in range(2):
        prepare("digits", tmp_path / "out")


def test_four_arrays_in_one_npz(tmp_path):
    np.savez(tmp_path / "data.npz", X_train=X, y_train=Y, X_test=X[:4], y_test=Y[:4])
    meta = prepare("mine", tmp_path / "out", options={"train": tmp_path / "data.npz"})
    assert meta["splits"]["test"]["shape"] == [4, D]


def test_class_names_may_be_words(tmp_path):
    names = np.array(["cat", "dog", "ant"])[Y]
    meta = prepare("mine", tmp_path / "out", options={**csv(tmp_path, X, names), "holdout": 0.25})
    assert meta["classes"] == ["ant", "cat", "dog"]


def test_files_are_found_by_name_in_the_raw_folder(tmp_path):
    (tmp_path / "raw" / "deep").mkdir(parents=True)
    csv(tmp_path / "raw" / "deep", X, Y)
    options = {"train": "data.csv", "target": "kind", "holdout": 0.25}
    assert prepare("mine", tmp_path / "out", options=options, raw_dir=tmp_path / "raw")["n_features"] == D


def test_limits_are_stratified(tmp_path):
    options = {**npy(tmp_path, X, Y), "holdout": 0.25, "max_train": 9, "max_test": 3}
    meta = prepare("mine", tmp_path / "out", options=options)
    assert meta["splits"]["train"]["class_counts"] == [3, 3, 3]
    assert meta["splits"]["test"]["class_counts"] == [1, 1, 1]


def test_the_table_of_data_sets(tmp_path):
    meta = prepare("digits", tmp_path / "out")
    (row,) = paper_table([meta])
    assert row["dataset"] == "digits"
    assert row["n"] == 1438
    assert row["paper n"] is None


def changed(where, value):
    array = X.copy()
    array[where] = value
    return array


@pytest.mark.parametrize("write", [npz, npy, sparse_npz, mat, csv, parquet])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(tmp_path, write, value):
    options = {**write(tmp_path, changed((7, 2), value), Y), "holdout": 0.25}
    with pytest.raises(DatasetError, match=r"data\.|X\.npy"):
        prepare("mine", tmp_path / "out", options=options)
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".out*"))


def test_a_csv_names_row_and_column(tmp_path):
    options = {**csv(tmp_path, X, Y), "holdout": 0.25}
    lines = (tmp_path / "data.csv").read_text().splitlines()
    lines[5] = "1,oops,3,4,5,1"
    (tmp_path / "data.csv").write_text("\n".join(lines))
    with pytest.raises(DatasetError, match="row 6, column '1': 'oops'"):
        prepare("mine", tmp_path / "out", options=options)


def test_bad_labels_are_refused(tmp_path):
    options = {"train": tmp_path / "X.npy", "labels": tmp_path / "y.npy", "holdout": 0.25}
    cases = [
        (Y[:-1], "23 labels for 24 rows"),
        (Y + 0.5, "label must be an integer or a name, got"),
        (np.where(Y == 0, np.nan, Y), "label must be an integer or a name, got"),
        (np.zeros(N), "all examples are of class 0"),
    ]
    for labels, problem in cases:
        npy(tmp_path, X, labels)
        with pytest.raises(DatasetError, match=problem):
            prepare("mine", tmp_path / "out", options=options)


def test_objects_are_never_loaded(tmp_path):
    npy(tmp_path, np.array([[{}]] * N), Y)
    options = {"train": tmp_path / "X.npy", "labels": tmp_path / "y.npy", "holdout": 0.25}
    with pytest.raises(DatasetError, match=r"X\.npy"):
        prepare("mine", tmp_path / "out", options=options)


def test_test_labels_must_be_known(tmp_path):
    npz(tmp_path, X, Y)
    np.savez(tmp_path / "test.npz", X=X, y=Y + 1)
    with pytest.raises(DatasetError, match=r"test\.npz: example 3: class 3 is not in the training part"):
        prepare("mine", tmp_path / "out", options={"train": tmp_path / "data.npz", "test": tmp_path / "test.npz"})


def test_parts_must_have_the_same_columns(tmp_path):
    npz(tmp_path, X, Y)
    np.savez(tmp_path / "test.npz", X=X[:, :3], y=Y)
    with pytest.raises(DatasetError, match="3 columns, but the training part has 5"):
        prepare("mine", tmp_path / "out", options={"train": tmp_path / "data.npz", "test": tmp_path / "test.npz"})


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("mine", {}, "no such data set; choose from ng20"),
        ("mine", {"format": "xml", "train": "a"}, "must be one of svmlight"),
        (
            "mine",
            {"format": "csv", "train": "a", "colour": 1},
            "unknown option 'colour'; choose from categorical, drop, encoder, format",
        ),
        ("mine", {"train": "a.xlsx"}, r"a\.xlsx: the format is not clear from the name; save it as one of \.svm, "),
        (
            "mine",
            {"train": "photos"},
            "photos: .* or set `format: folder` for a folder of texts, `format: images` ",
        ),
        ("mine", {"format": "csv"}, "option train is missing"),
        ("mine", {"format": "csv", "train": "a.csv"}, r"a\.csv: no such file"),
        ("mine", {"train": "a.csv", "test": "b.csv", "holdout": 0.5}, "choose one"),
        ("digits", {"holdout": 1.5}, "fraction"),
        ("digits", {"holdout": None}, "no test part"),
        ("digits", {"weighting": "tfidf"}, "unknown option 'weighting'"),
        ("digits", {"max_train": 3}, "too small"),
        ("digits", {"max_train": True}, "a positive integer"),
        ("shapes10-16", {"fill": "half"}, "surface, solid"),
        ("shapes10-16", {"models": [1]}, "two positive integers"),
    ],
)
def test_bad_options_are_named(tmp_path, name, options, problem):
    with pytest.raises(DatasetError, match=problem):
        prepare(name, tmp_path / "out", options=options)
    assert not (tmp_path / "out").exists()


def test_npy_needs_labels(tmp_path):
    npy(tmp_path, X, Y)
    with pytest.raises(DatasetError, match="give them with `labels`"):
        prepare("mine", tmp_path / "out", options={"train": tmp_path / "X.npy", "holdout": 0.5})


def test_a_csv_needs_a_target(tmp_path):
    csv(tmp_path, X, Y)
    with pytest.raises(DatasetError, match="no label column is given; name the label column with `target`: 0, 1"):
        prepare("mine", tmp_path / "out", options={"train": tmp_path / "data.csv", "holdout": 0.5})


def test_raw_files_are_found_where_prepare_finds_them(tmp_path, monkeypatch):
    (tmp_path / "raw" / "deep").mkdir(parents=True)
    csv(tmp_path / "raw" / "deep", X, Y)
    assert raw_files("mine", tmp_path / "raw", {"train": "data.csv"}) == [str(tmp_path / "raw/deep/data.csv")]
    csv(tmp_path, X, Y)
    monkeypatch.chdir(tmp_path)
    assert raw_files("mine", tmp_path / "raw", {"train": "data.csv"}) == ["data.csv"]
    assert raw_files("mine", tmp_path / "raw", {"train": "missing.csv"}) == []


def test_raw_files_of_a_folder_are_the_files_in_it(tmp_path):
    for label in ("a", "b"):
        (tmp_path / "texts" / label).mkdir(parents=True)
        (tmp_path / "texts" / label / "1.txt").write_text("some words")
    found = raw_files("mine", None, {"train": str(tmp_path / "texts"), "format": "folder"})
    assert found == [str(tmp_path / "texts/a/1.txt"), str(tmp_path / "texts/b/1.txt")]


def test_a_split_of_the_classes_needs_no_test_part(tmp_path):
    y = np.repeat([3, 5, 7, 9, 11], 5)[:N]
    given = npy(tmp_path, X, y)
    seen = set()
    for split in ("classes", "classes-0", "classes-1", "classes-2"):
        meta = prepare("own", tmp_path / split, options={**given, "split": split})
        (_, y_train), (_, y_test) = (open_split(tmp_path / split / part) for part in ("train", "test"))
        assert len(y_train) + len(y_test) == N
        assert not set(y_train) & set(y_test)
        assert meta["classes"] == ["3", "5", "7", "9", "11"]
        seen.add(tuple(sorted(set(y_test))))
    assert len(seen) == 2, "classes is classes-0"
    kept = prepare("own", tmp_path / "few", options={**given, "split": "classes", "max_test": 5})
    assert sorted(kept["splits"]["test"]["class_counts"])[-2:] == [2, 3], "two of each, to find one another"
    with pytest.raises(DatasetError, match="an integer from 0 on, or classes, classes-1, and so on"):
        prepare("own", tmp_path / "no", options={**given, "split": "class"})
    with pytest.raises(DatasetError, match="no test part"):
        prepare("own", tmp_path / "no", options=given)
