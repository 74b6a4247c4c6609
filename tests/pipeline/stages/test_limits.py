"""Outcomes of work in real child processes."""

import ctypes
import faulthandler
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest

from flrml.exceptions import DatasetError, NoSolutionError, SpectrumError
from flrml.pipeline.stages.limits import DamagedInputError, within_limits


def measured(work, minutes=1.0, memory_mb=4000):
    return within_limits(work, minutes=minutes, memory_mb=memory_mb)


def test_finished_work_is_ok_with_its_own_entries_and_its_peak():
    small = measured(lambda: {"value": 1})
    large = measured(lambda: {"value": float(np.ones(25_000_000).sum())})
    assert small["outcome"] == "ok"
    assert small["value"] == 1
    assert 150 < large["peak_mb"] - small["peak_mb"] < 300


@pytest.mark.parametrize("memory_mb", [1, 600])
def test_too_large_an_allocation_is_m(memory_mb):
    result = measured(lambda: {"value": np.ones(10**9)[0]}, memory_mb=memory_mb)
    assert result["outcome"] == "M"
    assert f"limit of {memory_mb} MB" in result["reason"]


def test_many_small_allocations_over_the_limit_are_m():
    def work():
        kept = []
        while True:
            kept.append(np.ones(100_000))

    result = measured(work, memory_mb=700)
    assert result["outcome"] == "M"
    assert 0 < result["peak_mb"] <= 800


def test_linear_algebra_without_memory_is_m():
    def work():
        kept = [np.eye(200)]
        while True:
            kept.append(np.linalg.svd(kept[0])[0] @ kept[0])

    assert measured(work, memory_mb=700)["outcome"] == "M"


def test_too_long_is_t_and_the_process_is_gone(tmp_path):
    def work():
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(60)
        return {}

    result = measured(work, minutes=0.5 / 60)
    assert result["outcome"] == "T"
    assert "time limit" in result["reason"]
    assert not still_runs(int((tmp_path / "pid").read_text()))


def test_no_solution_is_e():
    def work():
        raise NoSolutionError("the matrix is zero")

    result = measured(work)
    assert (result["outcome"], result["reason"]) == ("E", "the matrix is zero")


def test_any_other_error_is_f_with_its_traceback_in_the_log(capfd):
    def work():
        raise KeyError("lost")

    result = measured(work)
    assert (result["outcome"], result["reason"]) == ("F", "KeyError: 'lost'")
    assert "Traceback" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("end", "outcome", "words"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "M", "SIGKILL"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), "F", "SIGTERM"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "F", "SIGSEGV"),
        (lambda: os.kill(os.getpid(), signal.SIGABRT), "F", "SIGABRT"),
        (lambda: os._exit(3), "F", "exit code 3"),
    ],
)
def test_a_process_that_dies_says_how(end, outcome, words):
    def work():
        faulthandler.disable()  # else pytest's prints all threads of a crash on purpose
        return end()

    result = measured(work)
    assert result["outcome"] == outcome
    assert words in result["reason"]


def still_runs(pid):
    """Whether a process exists and is not a zombie."""
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_the_caller_stops_to_adopt_orphans_when_the_work_has_ended():
    """Else zombies of other work collect in it."""
    measured(lambda: {})
    adopts = ctypes.c_int(-1)
    ctypes.CDLL(None).prctl(37, ctypes.byref(adopts))
    assert adopts.value == 0


@pytest.mark.parametrize("ending", ["ok", "T", "M", "F"])
def test_every_end_takes_all_descendants_along(tmp_path, ending):
    """A grandchild in a session of its own, and a thread that would keep the process alive."""
    pid = tmp_path / "pid"

    def work():
        code = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
        subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        threading.Thread(target=time.sleep, args=(60,)).start()
        while not pid.exists() or not pid.read_text():
            time.sleep(0.01)
        if ending == "T":
            time.sleep(60)
        if ending == "M":
            np.ones(10**9)
        if ending == "F":
            raise KeyError("lost")
        return {}

    result = measured(work, minutes=0.05)
    assert result["outcome"] == ending
    assert not still_runs(int(pid.read_text()))


def test_children_that_the_caller_started_before_live_on():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as other:
        assert measured(lambda: {})["outcome"] == "ok"
        assert other.poll() is None
        other.kill()


@pytest.mark.parametrize("error", [DatasetError, SpectrumError])
def test_a_damaged_input_is_not_an_outcome_of_the_work(error):
    def work():
        raise error("values.npy is damaged: prepare it again")

    with pytest.raises(DamagedInputError, match=r"values.npy is damaged: prepare it again"):
        measured(work)


def test_the_work_ends_with_a_killed_job(tmp_path):
    code = (
        "import os, sys, time\n"
        "from flrml.pipeline.stages.limits import within_limits\n"
        "def work():\n"
        "    print(os.getpid(), flush=True)\n"
        "    time.sleep(60)\n"
        "within_limits(work, minutes=1, memory_mb=4000)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as job:
        child = int(job.stdout.readline())
        assert still_runs(child)
        job.kill()
    deadline = time.monotonic() + 10
    while still_runs(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not still_runs(child)
