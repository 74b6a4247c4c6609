"""Input that is commonly got wrong: one line names the file, the row or column, and what to do."""

import json

import numpy as np
import pandas as pd
import pytest

from flrml.datasets import load_encoder, open_groups, open_names, open_split, prepare
from flrml.exceptions import DatasetError, FlrmlWarning

N = 24
TABLE = pd.DataFrame(
    {
        "width": np.linspace(0, 1, N).round(3),
        "height": np.arange(N) % 5,
        "colour": np.array(["red", "green", "blue"])[np.arange(N) % 3],
        "patient": [f"p{number // 4}" for number in range(N)],
        "kind": np.array(["cat", "dog"])[np.arange(N) // 2 % 2],
    }
)


def csv(**columns):
    return TABLE.assign(**columns).to_csv(index=False)


def cell(row, column, value):
    table = TABLE.astype({column: object})
    table.loc[row, column] = value
    return table.to_csv(index=False)


def lines(*records):
    return "\n".join(map(json.dumps, records))


TEXTS = [{"text": f"word{number} and so on", "label": number % 2} for number in range(N)]
SEPARATED = TABLE.to_csv(index=False, sep=";").replace(".", ",")
DISTINCT = [f"record {number}" for number in range(N)]
TAKE_OUT = "leave it out with `drop`"
COLUMNS = "the columns are width, height, colour, patient, kind"

# File, its content, further options, and the message after the name of the file.
CASES = {
    "a typing error": (
        "a.csv",
        cell(3, "width", "0,1x"),
        {},
        "row 5, column 'width': '0,1x' is not a finite number; correct it, or name the column in `categorical` or "
        "`drop`",
    ),
    "a missing number": (
        "a.csv",
        cell(3, "width", None),
        {},
        "row 5, column 'width': missing value; fill it in, remove the row, or set `impute`",
    ),
    "a missing label": ("a.csv", cell(3, "kind", None), {}, "row 5, column 'kind': missing value; "),
    "a missing group": (
        "a.csv",
        cell(3, "patient", None),
        {"groups": "patient"},
        "row 5, column 'patient': missing value; ",
    ),
    "a column of dates": (
        "a.csv",
        csv(day="2024-05-01"),
        {},
        f"column 'day' holds dates such as '2024-05-01'; convert them to numbers, or {TAKE_OUT}",
    ),
    "decimal commas": (
        "a.csv",
        SEPARATED,
        {},
        f"column 'width' holds numbers with a comma such as '0,0'; write a point, or {TAKE_OUT}",
    ),
    "texts as a column of a table": (
        "a.csv",
        csv(note=DISTINCT),
        {},
        "column 'note' has a different value in every row, such as 'record 0'; if it is text, name it with `text`, "
        f"if it names the rows, with `names`, or {TAKE_OUT}",
    ),
    "a misspelt label column": (
        "a.csv",
        csv(),
        {"target": "kinde"},
        f"no column 'kinde' (did you mean 'kind'?); correct `target`, {COLUMNS}",
    ),
    "no label column": (
        "a.csv",
        csv(),
        {"target": None},
        "no label column is given; name the label column with `target`: width, height, ",
    ),
    "a misspelt column to drop": (
        "a.csv",
        csv(),
        {"drop": ["colours"]},
        f"no column 'colours' (did you mean 'colour'?); correct `drop`, {COLUMNS}",
    ),
    "a misspelt group column": (
        "a.csv",
        csv(),
        {"groups": "person"},
        f"no column 'person'; correct `groups`, {COLUMNS}",
    ),
    "a regression target": (
        "a.csv",
        csv(kind=np.linspace(0, 1, N)),
        {},
        "example 2: label must be an integer or a name, got 0.043478260869565216; regression is not supported, so "
        "group the numbers into classes",
    ),
    "a regression target of integers": (
        "a.csv",
        csv(kind=np.arange(N) * 1000),
        {},
        "every example has a label of its own, such as 0; regression is not supported, so group the labels into "
        "classes",
    ),
    "several labels of an example": (
        "a.jsonl",
        lines(*({"a": 1, "kind": ["x", "y"]} for _ in range(N))),
        {},
        "column 'kind' holds list; ",
    ),
    "several labels in svmlight": (
        "a.svm",
        "1,2 1:1\n",
        {"target": None},
        "line 1: multi-label targets are not supported, got '1,2'",
    ),
    "another encoding": (
        "a.csv",
        csv(colour="grün").encode("latin-1"),
        {},
        "not readable as a CSV file ('utf-8' codec can't decode byte 0xfc",
    ),
    "more fields than columns": (
        "a.csv",
        "a,kind\n" + "1,2,0\n3,4,1\n" * 3,
        {},
        "rows have more fields than the header; name every column",
    ),
    "an empty file": ("a.csv", "", {}, "not readable as a CSV file (No columns to parse from file)"),
    "a header alone": ("a.csv", "a,kind\n", {}, "no rows; write a header line and one line per example"),
    "broken JSON": ("a.jsonl", '{"a": 1, "kind": 1}\n{"a": 2,\n', {}, "not readable as a file of JSON lines ("),
    "a missing text": (
        "a.jsonl",
        lines(*TEXTS[:3], {"text": None, "label": 1}, *TEXTS[4:]),
        {"target": "label", "text": "text"},
        "row 4, column 'text': missing value; ",
    ),
    "a wrong setting of the vectorizer": (
        "a.jsonl",
        lines(*TEXTS),
        {"target": "label", "text": "text", "vectorizer": {"min_df": -1}},
        "option vectorizer: The 'min_df' parameter of TfidfVectorizer must be ",
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_bad_files_are_refused_in_one_line(tmp_path, what):
    name, content, options, message = CASES[what]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    options = {"train": tmp_path / name, "target": "kind", "holdout": 0.5, **options}
    if options["target"] is None:
        del options["target"]
    with pytest.raises(DatasetError) as caught:
        prepare("mine", tmp_path / "out", options=options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / name}: {message}")
    assert not (tmp_path / "out").exists()


X, Y = np.random.default_rng(0).random((N, 4)).astype(np.float16), np.arange(N) % 2


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        (
            {"y": np.eye(3)[np.arange(N) % 3]},
            "X.npy: 3 labels for every row; multi-label targets are not",
        ),
        ({"y": Y[:-1]}, "X.npy: 23 labels for 24 rows; give exactly one label per row"),
        ({"X": np.where(np.arange(N)[:, None] == 7, np.nan, X)}, "X.npy: example 8: a value is NaN or infinite"),
        ({"X": X.reshape(N, 2, 2)}, "X.npy: the features have 3 dimensions; give a matrix"),
        ({"g": Y[:-1]}, "X.npy: 23 groups for 24 rows; give one per row"),
        ({"n": np.array(["a"])}, "X.npy: 1 names for 24 rows; give one per row"),
    ],
)
def test_bad_arrays_are_refused_in_one_line(tmp_path, arrays, problem):
    arrays = {"X": X, "y": Y, "g": np.arange(N), "n": np.arange(N).astype(str), **arrays}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    paths = {option: tmp_path / f"{name}.npy" for option, name in [("train", "X"), ("labels", "y")]}
    options = {**paths, "groups": str(tmp_path / "g.npy"), "names": str(tmp_path / "n.npy"), "holdout": 0.5}
    with pytest.raises(DatasetError, match=problem):
        prepare("mine", tmp_path / "out", options=options)


def test_a_column_that_numbers_the_rows_is_noticed(tmp_path):
    (tmp_path / "a.csv").write_text(csv(id=np.arange(N)[::-1] + 100))
    options = {"train": tmp_path / "a.csv", "target": "kind", "holdout": 0.1, "drop": ["patient"]}
    with pytest.warns(FlrmlWarning, match=r"a\.csv: column 'id' has a different integer .*`drop: \[id\]`"):
        prepare("mine", tmp_path / "out", options=options)


def test_tabs_and_semicolons_are_recognised(tmp_path):
    rows = []
    for separator, name in [(",", "a.csv"), (";", "b.csv"), ("\t", "c.tsv"), ("\t", "d.csv")]:
        TABLE.to_csv(tmp_path / name, index=False, sep=separator)
        prepare("mine", tmp_path / "out", options={"train": tmp_path / name, "target": "kind", "holdout": 0.5})
        rows.append(np.array(open_split(tmp_path / "out/train")[0]))
    for other in rows[1:]:
        np.testing.assert_array_equal(other, rows[0])


def test_rows_of_a_group_stay_together_and_keep_their_names(tmp_path):
    table = TABLE.assign(name=[f"row {number}" for number in range(N)])
    table.to_csv(tmp_path / "a.csv", index=False)
    np.savez(tmp_path / "a.npz", X=X, y=Y, who=table["patient"].to_numpy(str), name=table["name"].to_numpy(str))
    np.save(tmp_path / "who.npy", table["patient"].to_numpy(str))
    for options in (
        {"train": tmp_path / "a.csv", "target": "kind", "groups": "patient", "names": "name"},
        {"train": tmp_path / "a.npz", "groups": "who", "names": "name"},
        {"train": tmp_path / "a.npz", "groups": str(tmp_path / "who.npy"), "names": "name"},
    ):
        prepare("mine", tmp_path / "out", options={**options, "holdout": 0.5})
        names = [open_names(tmp_path / "out" / split) for split in ("train", "test")]
        numbers = [[int(name.removeprefix("row ")) // 4 for name in part] for part in names]
        assert not set(numbers[0]) & set(numbers[1])
        groups = open_groups(tmp_path / "out/train")
        assert len(set(zip(groups.tolist(), numbers[0], strict=True))) == len(set(numbers[0]))
        assert sorted([*names[0], *names[1]]) == sorted(table["name"])


def test_a_class_whose_groups_are_all_held_out_is_named(tmp_path):
    groups, kinds = np.arange(N).astype(str), np.array(["cat", "dog"] * (N // 2), dtype=object)
    groups[1], kinds[1] = groups[0], "rare"  # its group counts as one of cats
    (tmp_path / "a.csv").write_text(csv(patient=groups, kind=kinds))
    options = {"train": tmp_path / "a.csv", "target": "kind", "groups": "patient", "holdout": 0.5}
    message = r"a\.csv: all groups with class rare are held out; change `holdout`, or give a test part"
    with pytest.raises(DatasetError, match=message):
        prepare("mine", tmp_path / "out", options=options, seed=1)


@pytest.mark.parametrize("impute", ["mean", "median"])
def test_missing_values_are_filled(tmp_path, impute):
    from sklearn.impute import SimpleImputer

    rng = np.random.default_rng(0)
    numbers = np.where(rng.random((N, 2)) < 0.2, np.nan, rng.random((N, 2)).round(2))
    table = pd.DataFrame(numbers, columns=["a", "b"]).assign(c=["x", None, "y", "x"] * 6, kind=Y)
    table.to_csv(tmp_path / "a.csv", index=False)
    options = {"train": tmp_path / "a.csv", "test": tmp_path / "a.csv", "target": "kind", "impute": impute}
    prepare("mine", tmp_path / "out", options={**options, "scale": "none"})
    found, _ = open_split(tmp_path / "out/train")
    np.testing.assert_allclose(found[:, :2], SimpleImputer(strategy=impute).fit_transform(numbers), rtol=1e-6)
    np.testing.assert_array_equal(found[:, 2], table["c"].fillna("x") == "x")
    served = load_encoder(tmp_path / "out").transform({"a": None, "b": 1.0, "c": None})
    np.testing.assert_allclose(served, [[SimpleImputer(strategy=impute).fit(numbers).statistics_[0], 1, 1, 0]])


def test_columns_of_a_served_table_are_checked(tmp_path):
    TABLE.to_csv(tmp_path / "a.csv", index=False)
    options = {"train": tmp_path / "a.csv", "target": "kind", "drop": ["patient"], "holdout": 0.5}
    prepare("mine", tmp_path / "out", options=options)
    encoder = load_encoder(tmp_path / "out")
    features = TABLE[["colour", "width", "height"]]
    assert encoder.transform(features.assign(colour="violet"))[0, 2:].tolist() == [0, 0, 0]
    for raw, problem in [
        (features.drop(columns="width"), "input: no column 'width'; give the columns width, height, colour"),
        (
            features.rename(columns={"width": "Width"}),
            r"no column 'width' \(did you mean 'Width'\?\), unknown",
        ),
        (features.assign(depth=1), "input: unknown column 'depth'; give the columns"),
        (features.assign(width="wide"), "input: row 0, column 'width': 'wide' is not a finite number"),
        (features.assign(width=None), "input: row 0, column 'width': missing value"),
        (np.ones((2, 7)), r"input: shape \(2, 7\) is not that of a table with the columns width, height, colour"),
    ]:
        with pytest.raises(DatasetError, match=problem):
            encoder.transform(raw)
