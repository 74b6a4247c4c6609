"""Data sets without raw files are left out before any job starts."""

import functools
import http.server
import threading
from pathlib import Path

import pytest

from flrml.pipeline.config import at_hand
from flrml.pipeline.config.at_hand import Addresses, has_file, leave_out_missing, missing_files
from flrml.pipeline.config.resolve import ConfigError, resolve, without_datasets

SCHEMA = Path(__file__).parents[3] / "workflow" / "schemas" / "config.schema.yaml"


@pytest.fixture
def server(tmp_path):
    """A web server that has one file."""
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "there.txt").write_text("here")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "web"))
    handler.log_message = lambda *args: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def nothing(address):
    return False


@pytest.fixture
def raw(tmp_path, monkeypatch):
    """An empty raw-file folder, the only one searched."""
    monkeypatch.delenv("FLRML_RAW_DIR", raising=False)
    folder = tmp_path / "raw"
    folder.mkdir()
    return folder


def test_an_address_answers_only_for_files_that_it_has(server):
    assert has_file(f"{server}/there.txt")
    assert not has_file(f"{server}/gone.txt")
    assert not has_file("http://127.0.0.1:9/there.txt")


def test_a_file_that_can_neither_be_found_nor_fetched_is_named(raw):
    assert list(missing_files("rcv1", raw, None, nothing)) == ["RCV1_4Class.mat"]
    assert list(missing_files("ng20", raw, None, nothing)) == ["news20.bz2", "news20.t.bz2"]
    (raw / "news20.bz2").touch()
    assert list(missing_files("ng20", raw, None, nothing)) == ["news20.t.bz2"]
    assert missing_files("ng20", raw, {"holdout": 0.2}, nothing) == {}


def test_one_complete_alternative_is_enough(raw):
    assert list(missing_files("m10-16", raw, None, nothing)) == ["ModelNet10.zip"]
    (raw / "modelnet10_32.npz").touch()
    assert list(missing_files("m10-16", raw, None, nothing)) == []
    assert list(missing_files("m40-16", raw, None, nothing)) == ["ModelNet40.zip"]
    (raw / "ModelNet40").mkdir()
    assert list(missing_files("m40-16", raw, None, nothing)) == []
    (raw / "mnist.bz2").touch()
    assert list(missing_files("mnist", raw, None, nothing)) == ["mnist.t.bz2"]


def test_what_can_be_fetched_is_not_missing(raw):
    assert missing_files("tdt2", raw, None, bool) == missing_files("mnist", raw, None, bool) == {}
    assert list(missing_files("rcv1", raw, None, bool)) == ["RCV1_4Class.mat"]  # has no address


@pytest.mark.parametrize("name", ["digits", "r8", "shapes10-16"])
def test_bundled_data_are_not_asked_for(name, raw):
    assert missing_files(name, raw, None, nothing) == {}


def test_addresses_are_asked_once_at_the_start_and_their_answers_kept(server, tmp_path, monkeypatch):
    there, gone = f"{server}/there.txt", f"{server}/gone.txt"
    starts = Addresses(tmp_path / "results", ask=True)
    assert (starts(there), starts(gone)) == (True, False)
    monkeypatch.setattr(at_hand, "has_file", None)  # nothing is asked from here on
    assert not starts(gone)
    job = Addresses(tmp_path / "results", ask=False)
    assert (job(there), job(gone), job(f"{server}/other.txt")) == (True, False, True)


def test_a_dry_run_writes_nothing_and_expects_that_addresses_answer(tmp_path):
    assert Addresses(tmp_path / "results", ask=False)("http://127.0.0.1:9/there.txt")
    assert list(tmp_path.iterdir()) == []


def configuration(tmp_path, **more):
    figures = {
        "margin": {"datasets": ["rcv1", "digits"]},
        "convergence": {"datasets": ["rcv1"]},
        "growth": {"n": {"dataset": "rcv1", "sizes": [10, 20], "methods": ["flrml"]}},
    }
    datasets = {"rcv1": {}, "ng20": {"fallback": {"holdout": 0.2}}, "digits": {}}
    given = {
        "datasets": datasets,
        "methods": {"flrml": {}},
        "figures": figures,
        "results": str(tmp_path / "results"),
    }
    return resolve(given | more, SCHEMA)


def test_the_configuration_goes_on_without_data_sets_that_lack_files(tmp_path, raw):
    (raw / "news20.bz2").touch()
    config, missing, lines = leave_out_missing(configuration(tmp_path), str(raw), nothing)
    assert list(config["datasets"]) == ["ng20", "digits"]
    assert config["datasets"]["ng20"]["options"] == {"holdout": 0.2}
    assert config["figures"]["margin"]["datasets"] == ["digits"]
    assert list(config["figures"]) == ["margin"]
    assert missing == {"rcv1": "RCV1_4Class.mat is not available"}
    assert lines == [
        f"rcv1 is left out: RCV1_4Class.mat is not in {raw}",
        "ng20 is prepared with holdout: 0.2, because news20.t.bz2 is not available",
    ]


def test_strict_stops_at_the_start(tmp_path, raw):
    with pytest.raises(ConfigError, match=r"^datasets\.rcv1: RCV1_4Class\.mat is not in .*; put the files"):
        leave_out_missing(configuration(tmp_path, strict=True), str(raw), nothing)


def test_nothing_left_is_an_error(tmp_path, raw):
    alone = {"datasets": {"rcv1": {}, "tdt2": {}}, "methods": {"flrml": {}}, "results": str(tmp_path)}
    with pytest.raises(ConfigError, match=r"^datasets\.rcv1: .*; datasets\.tdt2: .* put the files into"):
        leave_out_missing(resolve(alone, SCHEMA), str(raw), nothing)


def test_prepared_data_need_no_raw_files(tmp_path, raw):
    config = configuration(tmp_path)
    prepared = Path(config["results"], "data", "rcv1")
    prepared.mkdir(parents=True)
    (prepared / "meta.json").touch()
    assert "rcv1" in leave_out_missing(config, str(raw), nothing)[0]["datasets"]


def test_data_sets_that_stay_keep_their_figures(tmp_path):
    config = configuration(tmp_path)
    assert without_datasets(config, []) == config
