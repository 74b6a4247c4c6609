import bz2
import gzip

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from flrml.datasets.svmlight import load_pair, read_svmlight
from flrml.exceptions import DatasetError

MATRIX = st.tuples(st.integers(1, 8), st.integers(1, 9), st.integers(0, 10**6))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shape=MATRIX,
    zero_based=st.booleans(),
    opener=st.sampled_from([("", open), (".gz", gzip.open), (".bz2", bz2.open)]),
)
def test_agrees_with_scikit_learn(tmp_path_factory, shape, zero_based, opener):
    n, n_columns, seed = shape
    rng = np.random.default_rng(seed)
    X = sp.random(n, n_columns, 0.4, format="csr", rng=rng)
    y = rng.integers(-3, 4, n)
    folder = tmp_path_factory.mktemp("svm")
    path = folder / f"data{opener[0]}"
    with opener[1](path, "wb") as file:
        dump_svmlight_file(X, y, file, zero_based=zero_based, comment="a comment")
    expected, labels = load_svmlight_file(str(path), zero_based=zero_based, n_features=n_columns)
    back, back_labels = read_svmlight(path, folder / "scratch", zero_based)
    back.resize(n, n_columns)
    np.testing.assert_array_equal(back.toarray(), expected.toarray())
    np.testing.assert_array_equal(back_labels, labels)


def test_unordered_columns_are_ordered(tmp_path):
    (tmp_path / "data").write_text("1 3:2 1:5\n+2 qid:7 2:1 # note\n\n")
    X, y = read_svmlight(tmp_path / "data", tmp_path / "scratch")
    np.testing.assert_array_equal(X.toarray(), [[5, 0, 2], [0, 1, 0]])
    np.testing.assert_array_equal(y, [1, 2])


def test_both_parts_are_as_wide_as_the_wider_one(tmp_path):
    (tmp_path / "train").write_text("1 3:2\n2 1:1\n")
    (tmp_path / "test").write_text("1 5:2\n")
    loaded = load_pair(tmp_path / "train", tmp_path / "test", tmp_path / "scratch")
    assert loaded.train.n_columns == loaded.test.n_columns == 5


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1 0:2", "below 1"),
        ("1 -4:2", "below 1"),
        ("1 3:nan", "not finite"),
        ("1 3:1e999", "not finite"),
        ("1 3:1 3:2", "twice"),
        ("1 99999999999:1", "2³¹"),
        ("1 " + "9" * 400 + ":1", "2³¹"),
        ("1 3", "expected"),
        ("1 a:1", "expected"),
        ("1 1:2:3", "expected"),
        ("1 1_0:2", "underscore"),
        ("0.5 1:2", "must be an integer"),
        ("nan 1:2", "must be an integer"),
        ("1,2 1:2", "expected"),
        ("1 " + "9" * 5000 + ":1", "expected"),
    ],
)
def test_bad_lines_are_named(tmp_path, line, problem):
    (tmp_path / "data").write_text(f"1 1:1\n{line}\n2 1:1\n")
    with pytest.raises(DatasetError, match=f"data: line 2: .*{problem}"):
        read_svmlight(tmp_path / "data", tmp_path / "scratch")


@pytest.mark.parametrize(("suffix", "compress"), [(".bz2", bz2.compress), (".gz", gzip.compress)])
def test_truncated_archives_are_named(tmp_path, suffix, compress):
    content = compress(b"1 1:1 2:3\n" * 2000)
    path = tmp_path / f"data{suffix}"
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DatasetError, match=f"data{suffix}"):
        read_svmlight(path, tmp_path / "scratch")


@pytest.mark.parametrize("content", ["", "\n# nothing\n"])
def test_files_without_examples_are_refused(tmp_path, content):
    (tmp_path / "data").write_text(content)
    with pytest.raises(DatasetError, match="no examples"):
        read_svmlight(tmp_path / "data", tmp_path / "scratch")
