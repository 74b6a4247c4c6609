"""Tables that a person got wrong: one line names the column, the row and the remedy."""

import datetime
import re

import numpy as np
import pandas as pd
import pytest

from flrml.datasets import prepare
from flrml.exceptions import DatasetError

GOOD = pd.DataFrame({"width": np.arange(12.0), "height": np.ones(12), "kind": np.arange(12) % 2})


def refusal(tmp_path, table, suffix, target="kind"):
    """Message with which a table is refused; a text is taken as the content of a CSV file."""
    path = tmp_path / f"a.{suffix}"
    if isinstance(table, str):
        path.write_text(table)
    elif suffix == "csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path)
    options = {"train": path, "holdout": 0.5, **({"target": target} if target else {})}
    with pytest.raises(DatasetError) as caught:
        prepare("mine", tmp_path / "out", options=options)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


def cell(row, column, value):
    table = GOOD.copy()
    table[column] = table[column].astype(object)
    table.loc[row, column] = value
    return table


def test_a_missing_value_is_named(tmp_path):
    message = refusal(tmp_path, cell(3, "height", None), "csv")
    assert message == "row 5, column 'height': missing value; fill it in, remove the row, or set `impute`"
    message = refusal(tmp_path, cell(3, "height", np.nan).astype({"height": float}), "parquet")
    assert message == "row 4, column 'height': missing value; fill it in, remove the row, or set `impute`"
    message = refusal(tmp_path, cell(0, "kind", None), "csv")
    assert message == "row 2, column 'kind': missing value; fill it in, remove the row, or set `impute`"


REMEDY = "correct it, or name the column in `categorical` or `drop`"


def test_a_word_among_numbers_is_named(tmp_path):
    message = refusal(tmp_path, cell(11, "width", "wide"), "csv")
    assert message == f"row 13, column 'width': 'wide' is not a finite number; {REMEDY}"
    message = refusal(tmp_path, GOOD.assign(width=np.inf), "csv")
    assert re.fullmatch(f"row \\d+, column 'width': 'inf' is not a finite number; {REMEDY}", message)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (pd.date_range("2020", periods=12), "datetime64"),
        (pd.date_range("2020", periods=12, tz="UTC"), "datetime64"),
        (pd.to_timedelta(np.arange(12), unit="s"), "timedelta64"),
        ([b"12"] * 12, "bytes"),
        ([[1, 2]] * 12, "ndarray"),
    ],
)
@pytest.mark.parametrize("column", ["width", "kind"])
def test_dates_bytes_and_lists_are_not_taken_for_numbers(tmp_path, values, found, column):
    message = refusal(tmp_path, GOOD.assign(**{column: values}), "parquet")
    assert message.startswith(f"column '{column}' holds {found}")
    assert message.endswith("convert it to numbers, or leave it out with `drop`")


def test_dates_in_other_forms_are_refused(tmp_path):
    dates = GOOD.assign(width=[datetime.date(2020, 1, 1)] * 12)
    for suffix in ("parquet", "csv"):
        message = refusal(tmp_path, dates, suffix)
        assert message.startswith("column 'width' holds dates such as '2020-01-01'; convert them to numbers")


def test_two_columns_of_one_name_are_refused(tmp_path):
    remedy = "rename or remove one of them"
    assert refusal(tmp_path, "a,b,a,kind\n1,2,3,0\n4,5,6,1\n", "csv") == f"two columns are called 'a'; {remedy}"
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table([pa.array([1.0, 2.0])] * 3, names=["a", "b", "b"])
    pq.write_table(table, tmp_path / "b.parquet")
    with pytest.raises(DatasetError, match="two columns are called 'b'"):
        prepare("mine", tmp_path / "out", options={"train": tmp_path / "b.parquet", "target": "a"})


def test_a_name_that_pandas_would_make_up_is_no_duplicate(tmp_path):
    (tmp_path / "a.csv").write_text("a,a.1,kind\n" + "1,2,0\n3,4,1\n" * 3)
    options = {"train": tmp_path / "a.csv", "target": "kind", "holdout": 0.5}
    assert prepare("mine", tmp_path / "out", options=options)["n_features"] == 2


def test_a_misspelt_target_names_the_close_match(tmp_path):
    for suffix in ("csv", "parquet"):
        message = refusal(tmp_path, GOOD, suffix, target="kinde")
        assert message.startswith("no column 'kinde' (did you mean 'kind'?)")
        assert message.endswith("correct `target`, the columns are width, height, kind")
    assert refusal(tmp_path, GOOD, "csv", target="zzz").startswith("no column 'zzz'; correct")


def test_rows_with_more_fields_than_the_header_are_refused(tmp_path):
    message = refusal(tmp_path, "a,kind\n" + "1,2,0\n3,4,1\n" * 3, "csv")
    assert message == "rows have more fields than the header; name every column"


def test_an_index_of_pandas_is_not_a_feature(tmp_path):
    GOOD[GOOD.width != 3].to_parquet(tmp_path / "a.parquet")
    options = {"train": tmp_path / "a.parquet", "target": "kind", "holdout": 0.5}
    assert prepare("mine", tmp_path / "out", options=options)["n_features"] == 2


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz"])
def test_compressed_tables_are_read(tmp_path, suffix):
    GOOD.to_csv(tmp_path / f"a.csv.{suffix}", index=False)
    options = {"train": tmp_path / f"a.csv.{suffix}", "target": "kind", "holdout": 0.5}
    assert prepare("mine", tmp_path / "out", options=options)["n_features"] == 2


def test_misspelt_names_in_npz_and_mat_files_get_a_hint(tmp_path):
    import scipy.io

    X, y = np.eye(6), np.arange(6) % 2
    np.savez(tmp_path / "a.npz", features=X, y=y)
    scipy.io.savemat(tmp_path / "a.mat", {"features": X, "gnd": y})
    for file in ("a.npz", "a.mat"):
        options = {"train": tmp_path / file, "features": "feature", "holdout": 0.5}
        with pytest.raises(DatasetError, match=r"'feature' \(did you mean 'features'\?\)"):
            prepare("mine", tmp_path / "out", options=options)
    with pytest.raises(DatasetError, match=r"digitz: no such data set \(did you mean 'digits'\?\)"):
        prepare("digitz", tmp_path / "out")


def test_a_header_of_very_many_columns_is_refused_at_once(tmp_path):
    (tmp_path / "wide.csv").write_text(",".join(f"c{n}" for n in range(200_000)) + "\n")
    with pytest.raises(DatasetError, match=r"wide\.csv: the header has more than 100,000 columns; save wide data"):
        prepare(
            "mine", tmp_path / "out", options={"train": str(tmp_path / "wide.csv"), "target": "c0", "holdout": 0.5}
        )
