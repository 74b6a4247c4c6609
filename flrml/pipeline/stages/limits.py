"""Run work in a child process, within limits, and measure it.

Outcomes are letters as the paper's tables use them: ``ok``; ``M``, out of memory; ``T``, out of time; ``E``, no
finite, non-zero solution; and ``F`` for any other failure, a crash included. A damaged input file is not an outcome
of the work: it raises :class:`DamagedInputError`.
"""

import contextlib
import ctypes
import multiprocessing
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil
from scipy.linalg.blas import dgemm

from flrml.exceptions import DamagedFileError, DatasetError, NoSolutionError, SpectrumError

MEGABYTE = 2**20
POLL_SECONDS = 0.1
# Calls of Linux's prctl.
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 1, 36, 37


class DamagedInputError(RuntimeError):
    """The work could not start from its input files; the message names the file and the remedy."""


def within_limits(work: Callable[[], dict], *, minutes: float, memory_mb: float) -> dict[str, Any]:
    """Do the work in a forked process and return its plain values, with ``outcome`` and ``peak_mb`` added.

    With another outcome than ``ok``, there is a ``reason`` instead of values. Pages of mapped files do not count as
    memory that the process holds.
    """
    with _adopting_orphans():
        result = _supervise(work, minutes, memory_mb)
    if result["outcome"] == "damaged input":
        raise DamagedInputError(result["reason"])
    return result


def _supervise(work: Callable[[], dict], minutes: float, memory_mb: float) -> dict[str, Any]:
    """Do the work in a child process; end the child, and all that it started, when it has a result or is over."""
    others = set(psutil.Process().children())
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(work, sender, int(memory_mb * MEGABYTE)))
    process.start()
    sender.close()
    deadline, result, peak = time.monotonic() + 60 * minutes, None, 0.0
    while result is None:
        if receiver.poll(POLL_SECONDS):
            try:
                result = receiver.recv()
            except EOFError:
                process.join()
                result = _died(process.exitcode or 0, memory_mb)
        elif time.monotonic() > deadline:
            result = {"outcome": "T", "reason": f"ended after the time limit of {minutes:g} minutes"}
        held = _held_mb(process.pid)
        peak = max(peak, held)
        if result is None and held > memory_mb:
            result = {"outcome": "M", "reason": f"held {held:.0f} MB, over the limit of {memory_mb:g} MB"}
    _end(process, others)
    return {"peak_mb": round(peak, 1)} | result


def _child(work: Callable[[], dict], sender: Any, memory: int) -> None:
    _die_with_parent()
    _start_blas()
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    # The data segment leaves out files mapped from disk, so that data larger than memory can be read.
    resource.setrlimit(resource.RLIMIT_DATA, (memory if most < 0 else min(memory, most), most))
    try:
        result = {"outcome": "ok"} | work()
    except Exception as error:
        # Telling what happened takes memory too.
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        result = _failure(error, memory)
    result["peak_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    sender.send(result)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads that the work left behind end too


def _failure(error: Exception, memory: int) -> dict[str, Any]:
    """Return outcome and reason of work that raised."""
    if isinstance(error, MemoryError):
        return {"outcome": "M", "reason": f"over the limit of {memory / MEGABYTE:g} MB: {error}".rstrip(": ")}
    if isinstance(error, DamagedFileError | DatasetError | SpectrumError):
        return {"outcome": "damaged input", "reason": str(error)}
    if isinstance(error, NoSolutionError):
        return {"outcome": "E", "reason": str(error)}
    traceback.print_exception(error)
    return {"outcome": "F", "reason": f"{type(error).__name__}: {error}"}


def _start_blas() -> None:
    """Let the linear algebra take its buffers before there is a limit: without them it hangs instead of failing."""
    square = np.ones((256, 256))
    square @ square
    dgemm(1.0, square, square)


def _die_with_parent() -> None:
    """End with the process that started this one, so that a killed job leaves nothing running (Linux)."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@contextlib.contextmanager
def _adopting_orphans() -> Iterator[None]:
    """Be the parent of processes whose own parent ends, so that none escapes (Linux)."""
    try:
        prctl = ctypes.CDLL(None).prctl
    except AttributeError:
        yield
        return
    before = ctypes.c_int()
    prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before))
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, before.value)


def _end(process: Any, others: set[psutil.Process]) -> None:
    """Kill a process with everything that it started; ``others`` are children of this process that stay."""
    process.kill()
    process.join()
    while started := set(psutil.Process().children()) - others:
        for child in started:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
                child.wait()


def _died(code: int, memory_mb: float) -> dict[str, Any]:
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    if code == -signal.SIGKILL:
        return {"outcome": "M", "reason": f"the process died ({name}), as it does out of memory ({memory_mb:g} MB)"}
    return {"outcome": "F", "reason": f"the process died ({name})"}


def _held_mb(pid: int | None) -> float:
    """Return the memory that a process holds, without pages of mapped files; 0 if that is unknown."""
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.Error:
        return 0.0
    return float(memory.rss - getattr(memory, "shared", 0)) / MEGABYTE
