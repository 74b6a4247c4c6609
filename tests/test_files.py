import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from flrml.files import atomic_write, read_arrays, read_json, write_arrays, write_json
from flrml.pipeline.stages.provenance import provenance


def test_json_comes_back_with_numpy_values_as_plain_ones(tmp_path):
    write_json(tmp_path / "deep" / "a.json", {"b": np.float64(0.5), "a": np.arange(3), "c": np.int64(2)})
    assert read_json(tmp_path / "deep" / "a.json") == {"a": [0, 1, 2], "b": 0.5, "c": 2}


def test_json_refuses_what_it_cannot_write_and_leaves_the_old_file(tmp_path):
    write_json(tmp_path / "a.json", 1)
    with pytest.raises(TypeError, match="set does not go into a JSON file"):
        write_json(tmp_path / "a.json", {1, 2})
    assert read_json(tmp_path / "a.json") == 1
    assert os.listdir(tmp_path) == ["a.json"]


def test_arrays_come_back_with_their_description(tmp_path):
    write_arrays(tmp_path / "a.npz", {"rule": "cosine", "seed": np.int64(1)}, X=np.eye(2))
    meta, arrays = read_arrays(tmp_path / "a.npz")
    assert meta == {"rule": "cosine", "seed": 1}
    np.testing.assert_array_equal(arrays["X"], np.eye(2))
    assert list(arrays) == ["X"]


def test_a_failing_writer_leaves_nothing(tmp_path):
    def write():
        with atomic_write(tmp_path / "a.txt") as beside:
            beside.write_text("half")
            raise RuntimeError("half")

    with pytest.raises(RuntimeError, match="half"):
        write()
    assert os.listdir(tmp_path) == []


def test_a_killed_writer_leaves_no_file_in_place_and_the_next_one_cleans_up(tmp_path):
    code = (
        "import sys, time\n"
        "from flrml.files import atomic_write\n"
        "with atomic_write(sys.argv[1]) as beside:\n"
        "    beside.write_text('half')\n"
        "    print('written', flush=True)\n"
        "    time.sleep(60)\n"
    )
    path = tmp_path / "a.txt"
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "written\n"
        process.send_signal(signal.SIGKILL)
    assert not path.exists()
    with atomic_write(path) as beside:
        beside.write_text("whole")
    assert os.listdir(tmp_path) == ["a.txt"]
    assert path.read_text() == "whole"


def test_provenance_names_versions_and_commit():
    found = provenance()
    assert found["numpy"] == np.__version__
    assert set(found) == {"python", "flrml", "numpy", "scipy", "scikit-learn", "git_commit"}
    assert len(found["git_commit"]) >= 7
