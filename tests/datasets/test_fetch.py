"""Raw-file folders: finding files, recording them, and telling downloads from the user's files."""

import hashlib

import pytest

from flrml.datasets import raw_files
from flrml.datasets.fetch import RawFiles, RemoteFile
from flrml.datasets.registry import REGISTRY
from flrml.exceptions import DatasetError, FlrmlWarning


def test_files_are_found_at_any_depth(tmp_path, monkeypatch):
    (tmp_path / "deep/er").mkdir(parents=True)
    (tmp_path / "deep/er/a.bin").write_bytes(b"1")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/b.bin").write_bytes(b"2")
    monkeypatch.setenv("FLRML_RAW_DIR", str(tmp_path / "other"))
    raw = RawFiles(tmp_path / "deep")
    assert raw.get(RemoteFile("a.bin", "http://127.0.0.1:9/")) == tmp_path / "deep/er/a.bin"
    assert raw.get(RemoteFile("b.bin", "http://127.0.0.1:9/")) == tmp_path / "other/b.bin"
    assert raw.used == {"a.bin": hashlib.sha256(b"1").hexdigest(), "b.bin": hashlib.sha256(b"2").hexdigest()}


def test_the_least_deep_file_wins(tmp_path):
    for folder in ("a/b", "c"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "x").write_text(folder)
    assert RawFiles(tmp_path).find("x") == tmp_path / "c" / "x"


def test_folders_are_searched_through_links_that_may_form_a_circle(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/x").touch()
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/back").symlink_to(tmp_path / "raw")
    assert RawFiles(tmp_path / "raw").find("x") == tmp_path / "raw/linked/x"


def test_downloads_keep_out_of_folders_that_nobody_may_write(tmp_path):
    (tmp_path / "fixed").mkdir()
    (tmp_path / "fixed").chmod(0o555)
    assert RawFiles(tmp_path / "fixed").download_folder == tmp_path / "raw" / "downloads"
    assert RawFiles(tmp_path / "new").download_folder == tmp_path / "new" / "downloads"


def test_files_of_the_user_are_told_from_downloads(tmp_path, monkeypatch):
    monkeypatch.delenv("FLRML_RAW_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    assert raw_files("tdt2", tmp_path) == []
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / "TDT2.mat").touch()
    assert raw_files("tdt2", tmp_path) == []
    (tmp_path / "downloads" / "TDT2.mat").rename(tmp_path / "TDT2.mat")
    assert raw_files("tdt2", tmp_path) == [str(tmp_path / "TDT2.mat")]
    (tmp_path / "mine.csv").touch()
    options = {"format": "csv", "train": str(tmp_path / "mine.csv"), "test": str(tmp_path / "absent.csv")}
    assert raw_files("mine", tmp_path, options) == [str(tmp_path / "mine.csv")]


def test_a_file_that_is_not_the_published_one_is_noted(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"1")
    raw = RawFiles(tmp_path)
    raw.get(RemoteFile("a.bin", "http://127.0.0.1:9/", hashlib.sha256(b"1").hexdigest()))
    assert raw.notes() == []
    raw.get(RemoteFile("a.bin", "http://127.0.0.1:9/", "0" * 64))
    assert raw.notes() == ["repacked or altered, as the sha256 is not the published one: a.bin"]


@pytest.mark.parametrize("name", ["a.bin", "texts/a.bin"])
def test_a_download_without_a_published_sha256_is_pinned_by_the_first_one(tmp_path, name):
    file, wanted = tmp_path / "downloads" / name, RemoteFile(name, "http://127.0.0.1:9/")
    file.parent.mkdir(parents=True)
    file.write_bytes(b"1")
    with pytest.warns(FlrmlWarning, match="unverified"):
        RawFiles(tmp_path).get(wanted)
    RawFiles(tmp_path).get(wanted)
    assert file.with_name("a.bin.sha256").read_text() == hashlib.sha256(b"1").hexdigest() + "\n"
    file.write_bytes(b"2")
    with pytest.raises(
        DatasetError, match=r"another one than when it was first downloaded.* delete a\.bin\.sha256"
    ):
        RawFiles(tmp_path).get(wanted)


def test_two_files_of_one_name_are_both_recorded(tmp_path):
    for folder, content in (("a", b"1"), ("b", b"2")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.csv").write_bytes(content)
    raw = RawFiles(tmp_path)
    for folder in ("a", "b", "a"):
        raw.record(tmp_path / folder / "x.csv")
    assert raw.used == {
        "x.csv": hashlib.sha256(b"1").hexdigest(),
        str(tmp_path / "b" / "x.csv"): hashlib.sha256(b"2").hexdigest(),
    }


def test_a_file_without_an_address_is_the_user_s_to_supply(tmp_path):
    with pytest.raises(DatasetError, match=r"^a\.bin is in no raw-file folder and .* put it into .*/mine$"):
        RawFiles(tmp_path / "mine").get(RemoteFile("a.bin", None))


def test_files_come_over_https_or_are_checked_by_their_sha256():
    files = []
    for dataset in REGISTRY.values():
        for value in dataset.arguments.values():
            files += [
                item for item in (value if isinstance(value, tuple) else [value]) if isinstance(item, RemoteFile)
            ]
    assert {file.name for file in files if file.url is None} == {"RCV1_4Class.mat"}
    fetched = [file for file in files if file.url is not None]
    plain = {file.name for file in fetched if not file.url.startswith("https://")}
    without_sha256 = {file.name for file in fetched if file.sha256 is None}
    assert not plain & without_sha256
    assert without_sha256 == {
        "news20.t.bz2",
        "mnist.bz2",
        "mnist.t.bz2",
        "ModelNet10.zip",
        "ModelNet40.zip",
    }
