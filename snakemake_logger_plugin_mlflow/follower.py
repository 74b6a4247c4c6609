"""Follow the progress files of jobs and show each as a run of MLflow while it goes on.

This process is started by the logger and reads commands from its input, a JSON object per line:
``{"follow": folder}`` for a folder in which a job may write ``progress.jsonl``, ``{"failed": folder}`` if that job
has failed. It ends when its input ends, also if Snakemake is killed.

The first line of a progress file is ``{"run": {...}}`` with ``tracking_uri``, ``experiment``, ``key``, ``name``,
``started`` and ``tags``. Each further line holds ``metrics`` (and a ``step``), or a ``state``: ``trained``,
``evaluated`` or ``failed`` (with a ``reason``). A run without a result is ended when this process ends.
"""

import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flrml.pipeline.tracking.tracker import Tracker

FILE = "progress.jsonl"
SECONDS = 0.5
# A training that began earlier than this process by more than this belongs to an earlier Snakemake run.
TOLERANCE = 60.0


class ProgressFile:
    """A progress file, read line by line as it grows; a new training replaces it."""

    def __init__(self, folder: str):
        self.path = Path(folder) / FILE
        self.head = b""
        self.offset = 0
        self.seen: tuple[int, int] | None = None

    def new_lines(self) -> tuple[bool, list[dict[str, Any]]]:
        """Return whether the file is another one than before, and its new complete lines."""
        try:
            found = self.path.stat()
            if (found.st_mtime_ns, found.st_size) == self.seen:
                return False, []
            text = self.path.read_bytes()
        except OSError:
            return False, []
        self.seen = found.st_mtime_ns, found.st_size
        # A new file may have the number of the old one, but its first line differs.
        head = text[: text.find(b"\n") + 1]
        fresh = head != self.head
        if fresh:
            self.head, self.offset = head, 0
        whole = text[self.offset : text.rfind(b"\n") + 1]
        self.offset += len(whole)
        return fresh, [json.loads(line) for line in whole.splitlines()]


class LiveRun:
    """The run of MLflow that shows one training."""

    def __init__(self, tracker: "Tracker", run: dict[str, Any]):
        self.tracker, self.state, self.reason = tracker, "running", ""
        self.run_id = tracker.start(run["key"], run["name"], run["started"], run.get("tags", {}))

    def add(self, lines: list[dict[str, Any]]) -> None:
        """Log what new lines report."""
        metrics = []
        for line in lines:
            for name, value in line.get("metrics", {}).items():
                metrics.append((name, value, line.get("step", 0), line["time"]))
            if "state" in line:
                self.state, self.reason = line["state"], line.get("reason") or ""
        if metrics:
            self.tracker.log_live(self.run_id, metrics)

    def end(self) -> None:
        """End the run unless its result has been logged."""
        self.tracker.end_live(self.run_id, self.state, self.reason)


class Follower:
    """Follows any number of progress files."""

    def __init__(self) -> None:
        self.began = time.time()
        self.files: dict[str, ProgressFile] = {}
        self.runs: dict[str, LiveRun] = {}
        self.trackers: dict[tuple[str, str], Tracker] = {}

    def command(self, command: dict[str, str]) -> None:
        """Obey a line of the input."""
        if "follow" in command:
            self.files.setdefault(command["follow"], ProgressFile(command["follow"]))
        elif command.get("failed") in self.runs:
            self.look()
            run = self.runs.pop(command["failed"])
            run.state = "failed"
            run.end()

    def look(self) -> None:
        """Log everything new."""
        for folder, file in self.files.items():
            fresh, lines = file.new_lines()
            if fresh:
                self._replace(folder, lines)
            if lines and folder in self.runs:
                self.runs[folder].add(lines)

    def _replace(self, folder: str, lines: list[dict[str, Any]]) -> None:
        """Start the run of a new progress file."""
        before = self.runs.pop(folder, None)
        if before is not None:
            before.end()
        run = lines[0].get("run") if lines else None
        if run is not None and run["started"] > self.began - TOLERANCE:
            self.runs[folder] = LiveRun(self._tracker(run["tracking_uri"], run["experiment"]), run)

    def _tracker(self, uri: str, experiment: str) -> "Tracker":
        # Importing mlflow takes seconds: only if there is something to follow.
        from flrml.pipeline.tracking.tracker import Tracker

        if (uri, experiment) not in self.trackers:
            self.trackers[uri, experiment] = Tracker(uri, experiment)
            self.trackers[uri, experiment].settle(folder=os.getcwd())
        return self.trackers[uri, experiment]

    def end(self) -> None:
        """Log what is left and end all runs."""
        self.look()
        for run in self.runs.values():
            run.end()


def main() -> None:
    """Follow until the input ends."""
    # Snakemake ends its jobs at Ctrl-C by itself; this process ends after them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(5)  # trainings are timed
    follower = Follower()
    waiting = b""
    while True:
        if select.select([0], [], [], SECONDS)[0]:
            received = os.read(0, 65536)
            if not received:
                break
            *lines, waiting = (waiting + received).split(b"\n")
            for line in lines:
                follower.command(json.loads(line))
        follower.look()
    follower.end()


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        print(f"live runs in MLflow are off: {type(error).__name__}: {error}", file=sys.stderr)
