"""Report the progress of a training to a small file, which another process reads.

A line is a JSON object. The first one holds the ``"run"``. Each of the others holds ``"metrics"`` and a ``"step"``,
or the ``"state"`` in which the training ended: ``"trained"`` or ``"failed"``. A training lives as long as it holds
a lock on its file; the kernel releases the lock when the process ends, in whatever way.
"""

import contextlib
import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = "progress.jsonl"


class Progress:
    """The progress file of one training, open and locked within a ``with`` block.

    ``run`` holds ``dataset``, ``method``, the time at which it ``started`` and the id of this ``training``, which
    its result files carry too.
    """

    def __init__(self, folder: str | os.PathLike, run: dict[str, Any]):
        self.path, self.run = Path(folder) / FILE, run

    def __enter__(self) -> "Progress":
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # A reader never sees a file without its lock and its first line.
        temporary = self.path.with_name(f".{FILE}.part")
        temporary.unlink(missing_ok=True)
        self.file = os.open(temporary, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o666)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self.file, fcntl.LOCK_EX)
        self._append(run=self.run)
        temporary.replace(self.path)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception):  # an interruption leaves no state
            self.end("failed", f"{type(error).__name__}: {error}")
        with contextlib.suppress(OSError):
            fcntl.flock(self.file, fcntl.LOCK_UN)  # closing would not do if a child process has the file open
        os.close(self.file)

    def metrics(self, step: int, **values: float) -> None:
        """Report metrics at a step of the training; child processes may do so too."""
        self._append(metrics=values, step=step, time=time.time())

    def end(self, state: str, reason: str | None = None) -> None:
        """Report how the training ended."""
        self._append(state=state, reason=reason)

    def _append(self, **content: Any) -> None:
        """Write a line in one piece, so that a reader or a kill never cuts it."""
        os.write(self.file, (json.dumps(content) + "\n").encode())


@dataclass(frozen=True)
class Seen:
    """A progress file as a reader finds it; ``alive`` is None on a file system without locks."""

    alive: bool | None
    run: dict[str, Any]
    metrics: list[tuple[str, float, int, float]]
    state: str | None = None
    reason: str | None = None


def read_progress(folder: str | os.PathLike) -> Seen | None:
    """Return what the progress file in a folder says; None without one."""
    alive = is_alive(folder)  # first: what a process that has ended wrote is then read completely
    try:
        text = (Path(folder) / FILE).read_bytes()
    except FileNotFoundError:
        return None
    first, *lines = map(json.loads, text[: text.rfind(b"\n") + 1].splitlines())
    end: dict[str, Any] = next((line for line in reversed(lines) if "state" in line), {})
    metrics = [
        (name, value, line["step"], line["time"])
        for line in lines
        for name, value in line.get("metrics", {}).items()
    ]
    return Seen(False if end else alive, first["run"], metrics, end.get("state"), end.get("reason"))


def is_alive(folder: str | os.PathLike) -> bool | None:
    """Return whether a training holds the lock of the progress file in a folder; None without locks."""
    try:
        with open(Path(folder) / FILE, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, FileNotFoundError) as error:
        return isinstance(error, BlockingIOError)
    except OSError:
        return None
    return False
