"""Hostile input: bombs, pipes, devices and links out of a folder are refused at once."""

import bz2
import gzip
import io
import os
import socket
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

from flrml.datasets import prepare, raw_files, reading
from flrml.datasets.reading import (
    check_unpacked,
    files_below,
    numbered_lines,
    open_compressed,
    open_zip,
    unpack_limit,
)
from flrml.exceptions import DatasetError

MB = 10**6
BOMB = 110  # megabytes, from a few hundred kilobytes


def zip_bomb(path, name, head=b""):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(name, "w") as file:
        file.write(head)
        for _ in range(BOMB):
            file.write(bytes(MB))


def stream_bomb(path, opener, head=b"", filler=b"0"):
    with opener(path, "wb") as file:
        file.write(head)
        for _ in range(BOMB):
            file.write(filler * MB)


def npz_bomb(folder):
    header = io.BytesIO()
    description = {"descr": "<f8", "fortran_order": False, "shape": (BOMB * MB // 800, 100)}
    np.lib.format.write_array_header_1_0(header, description)
    zip_bomb(folder / "a.npz", "X.npy", header.getvalue())
    return "mine", {"train": "a.npz"}, "a.npz: X.npy"


def mesh_bomb(folder):
    zip_bomb(folder / "ModelNet10.zip", "ModelNet10/bed/train/a.off")
    return "m10-16", {"holdout": None}, "bed/train/a.off"


def mat_element(kind, content, length=None):
    return struct.pack("<II", kind, len(content) if length is None else length) + content + bytes(-len(content) % 8)


def mat_bomb(folder):
    """A matrix of zeros, as MATLAB compresses it."""
    n = BOMB * MB // 800
    flags, name = mat_element(6, struct.pack("<II", 6, 0)), mat_element(1, b"fea")
    head = flags + mat_element(5, struct.pack("<ii", n, 100)) + name + struct.pack("<II", 9, 800 * n)
    packer = zlib.compressobj()
    packed = packer.compress(struct.pack("<II", 14, len(head) + 800 * n) + head)
    packed += b"".join(packer.compress(bytes(MB)) for _ in range(BOMB)) + packer.flush()
    start = b"MATLAB 5.0".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    (folder / "a.mat").write_bytes(start + struct.pack("<II", 15, len(packed)) + packed)
    return "mine", {"train": "a.mat"}, "a.mat: variable 'fea'"


def idx_bomb(folder):
    head = bytes((0, 0, 8, 3)) + struct.pack(">III", BOMB * MB // 784, 28, 28)
    stream_bomb(folder / "train-images-idx3-ubyte.gz", gzip.open, head, b"\0")
    (folder / "train-labels-idx1-ubyte.gz").touch()
    return "mnist", {}, "train-images-idx3-ubyte.gz"


def svmlight_bomb(folder):
    stream_bomb(folder / "a.svm.gz", gzip.open)
    return "mine", {"train": "a.svm.gz"}, "a.svm.gz"


def csv_bomb(folder):
    stream_bomb(folder / "a.csv.bz2", bz2.open, b"a,kind\n")
    return "mine", {"train": "a.csv.bz2", "target": "kind"}, "a.csv.bz2"


@pytest.mark.parametrize(
    ("make", "peak_mb"),
    [(npz_bomb, 5), (mesh_bomb, 5), (mat_bomb, 5), (idx_bomb, 5), (svmlight_bomb, 40), (csv_bomb, 40)],
)
def test_a_bomb_is_refused_without_filling_the_memory(tmp_path, monkeypatch, make, peak_mb):
    for limit in ("UNLIMITED_BYTES", "MAX_LINE_BYTES"):
        monkeypatch.setattr(reading, limit, 8 * MB)
    name, options, named = make(tmp_path)
    prepare("digits", tmp_path / "imports-everything")
    tracemalloc.start()
    with pytest.raises(DatasetError, match=r"unpack to more than|does not fit|longer than") as caught:
        prepare(name, tmp_path / "out", options={"holdout": 0.5, **options}, raw_dir=tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert named in str(caught.value)
    assert peak < peak_mb * MB
    assert not (tmp_path / "out").exists()


def test_a_parquet_file_of_repeated_values_is_refused(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    n = 5 * MB
    columns = {name: pa.array(np.zeros(n)) for name in "ab"} | {"kind": pa.array(np.zeros(n, np.int64))}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", compression="zstd")
    with pytest.raises(DatasetError, match=r"a\.parquet: [\d,]+ packed bytes unpack to more"):
        prepare("mine", tmp_path / "out", options={"train": tmp_path / "a.parquet", "target": "kind"})


def test_many_small_bombs_count_together(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(3):
            archive.writestr(f"{number}", bytes(40 * MB))
    with pytest.raises(DatasetError, match=r"a\.zip: [\d,]+ packed bytes"), open_zip(tmp_path / "a.zip"):
        pass


def test_overlapping_entries_are_refused(tmp_path):
    """Many directory entries that share one stored entry, as in the bombs of D. Fifield."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("0", np.random.default_rng(0).bytes(20_000))
        for number in range(1, 10):
            copy = zipfile.ZipInfo(f"{number}")
            first = archive.getinfo("0")
            copy.file_size = copy.compress_size = first.file_size
            copy.CRC, copy.header_offset = first.CRC, first.header_offset
            archive.filelist.append(copy)
            archive.NameToInfo[copy.filename] = copy
    with pytest.raises(DatasetError, match="overlap"), open_zip(path):
        pass


def test_the_limit_can_be_raised(tmp_path, monkeypatch):
    path = tmp_path / "a.gz"
    stream_bomb(path, gzip.open)

    def read():
        with open_compressed(path) as file:
            return sum(len(block) for block in iter(lambda: file.read(MB), b""))

    with pytest.raises(DatasetError, match="FLRML_MAX_UNPACK_RATIO"):
        read()
    monkeypatch.setenv("FLRML_MAX_UNPACK_RATIO", "2000")
    assert read() == BOMB * MB
    monkeypatch.setenv("FLRML_MAX_UNPACK_RATIO", "much")
    with pytest.raises(DatasetError, match="must be a number, got 'much'"):
        unpack_limit(1)


def test_real_data_stays_below_the_limit():
    """The grids of ModelNet10 are the most compressible raw file of the registry: 523 MB from 2.2 MB."""
    check_unpacked("X_train.npy", 523_108_480, 2_218_733)
    with pytest.raises(DatasetError):
        check_unpacked("bomb", 523_108_480, 523_108_480 // 1029)


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 100)
    (tmp_path / "a").write_bytes(b"1\n" + b"2" * 100 + b"\n")
    with pytest.raises(DatasetError, match="line 2 is longer"):
        list(numbered_lines(tmp_path / "a", "text"))
    (tmp_path / "a").write_bytes(b"1\n" + b"2" * 99 + b"\n3")
    assert [number for number, _ in numbered_lines(tmp_path / "a", "text")] == [1, 2, 3]


SUFFIXES = ["svm", "svm.gz", "svm.bz2", "npz", "npy", "mat", "csv", "csv.gz", "parquet"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_pipe_is_refused_at_once(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    os.mkfifo(path)
    named = {"npy": {"labels": str(path)}, "csv": {"target": "kind"}, "parquet": {"target": "kind"}}
    options = {"train": str(path), "holdout": 0.5, **named.get(suffix.partition(".")[0], {})}
    with pytest.raises(DatasetError, match=rf"a\.{suffix}: is a named pipe, not a regular file; save the data"):
        prepare("mine", tmp_path / "out", options=options)


def test_a_socket_and_a_device_are_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("a.npy")
        with pytest.raises(DatasetError, match=r"a\.npy: is a socket"):
            prepare("mine", "out", options={"train": "a.npy", "labels": "a.npy", "holdout": 0.5})
    with pytest.raises(DatasetError, match="/dev/zero: is a device"):
        prepare("mine", "out", options={"train": "/dev/zero", "format": "svmlight", "holdout": 0.5})


@pytest.mark.parametrize("name", ["TDT2.mat", "ModelNet10.zip", "modelnet10_32.npz", "news20.bz2"])
def test_a_pipe_with_the_name_of_a_raw_file_is_refused_at_once(tmp_path, name):
    os.mkfifo(tmp_path / name)
    dataset = {"TDT2.mat": "tdt2", "news20.bz2": "ng20"}.get(name, "m10-16")
    with pytest.raises(DatasetError, match=f"{name}: is a named pipe"):
        prepare(dataset, tmp_path / "out", raw_dir=tmp_path)


@pytest.fixture
def documents(tmp_path):
    """Two classes of one document each, and a secret beside them."""
    for label in ("a", "b"):
        (tmp_path / "set" / label).mkdir(parents=True)
        (tmp_path / "set" / label / "1.txt").write_text(f"some words {label * 3}")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key.txt").write_text("secret words")
    return tmp_path / "set"


def prepare_documents(folder):
    return prepare("mine", folder.parent / "out", options={"format": "folder", "train": folder, "test": folder})


@pytest.mark.parametrize("link", ["c", "a/2.txt", "a/deeper"])
def test_a_link_out_of_a_folder_of_documents_is_refused(documents, link):
    assert prepare_documents(documents)["n_classes"] == 2
    target = documents.parent / "secret"
    (documents / link).symlink_to(target / "key.txt" if link.endswith("txt") else target)
    with pytest.raises(DatasetError, match=f"set/{link}: symbolic link out of .*copy its target"):
        prepare_documents(documents)
    with pytest.raises(DatasetError, match="symbolic link"):
        raw_files("mine", None, {"format": "folder", "train": str(documents)})


def test_links_inside_a_folder_and_to_it_are_followed(documents):
    (documents / "b/2.txt").symlink_to(documents / "b/1.txt")
    (documents / "a/loop").symlink_to(documents)
    link = documents.parent / "link"
    link.symlink_to(documents)
    assert prepare_documents(link)["splits"]["train"]["shape"][0] == 3


def test_a_pipe_among_documents_is_refused(documents):
    os.mkfifo(documents / "a/2.txt")
    with pytest.raises(DatasetError, match=r"2\.txt: is a named pipe"):
        prepare_documents(documents)


def test_hidden_files_and_folders_are_left_out(documents):
    (documents / ".git").mkdir()
    (documents / ".git/1.txt").write_text("not a class")
    (documents / "a/.2.txt").write_text("not a document")
    assert len(files_below(documents)) == 2
    assert prepare_documents(documents)["classes"] == ["a", "b"]
