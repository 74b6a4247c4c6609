"""Name processes so that another one can tell whether they still run."""

import contextlib
import os
import socket
from pathlib import Path


def this_process() -> str:
    """Return a name of this process that no other one has had."""
    return f"{socket.gethostname()}:{os.getpid()}:{_start_ticks(os.getpid())}"


def is_alive(owner: str | None, *, elsewhere: bool = True) -> bool:
    """Tell whether a process named by :func:`this_process` still runs.

    Parameters
    ----------
    owner : str or None
        Its name; without one, it does not.
    elsewhere : bool, default True
        The answer for processes of other hosts, which cannot be asked.
    """
    host, _, process = (owner or "").rpartition(":")[0].rpartition(":")
    if not process.isdigit():
        return False
    if host != socket.gethostname():
        return elsewhere
    return owner == f"{host}:{process}:{_start_ticks(int(process))}"


def _start_ticks(pid: int) -> str:
    """Return the start time of a process, which tells it from a later one of the same number; "" if it is gone."""
    with contextlib.suppress(OSError):
        # The name of a process, in brackets, may hold anything.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    with contextlib.suppress(OSError):
        os.kill(pid, 0)
        return "0"  # no /proc, as on macOS
    return ""
