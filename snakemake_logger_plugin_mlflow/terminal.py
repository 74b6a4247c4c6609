"""Show the progress of a run: a status line on a terminal, a line now and then in a file."""

import contextlib
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

RED, GREEN, BOLD, PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[1m", "\x1b[0m"
CLEAR = "\r\x1b[2K"
# Seconds between lines if the output is not a terminal.
PAUSE = 15.0
# Rules whose jobs are named when they start and when they end.
NAMED = ("train",)
# Characters of a log's end in which its last line is looked for.
TAIL = 4000


@dataclass
class Job:
    """A job that runs."""

    rule: str
    name: str
    started: float


class Terminal:
    """The lines of one run.

    Parameters
    ----------
    stream : file
        Where they go.
    color : bool
        Whether failures are red, if the stream is a terminal.
    """

    def __init__(self, stream: TextIO, *, color: bool = True):
        self.stream = stream
        self.interactive = stream.isatty()
        self.color = color and self.interactive
        self.waiting: dict[str, int] = {}
        self.running: dict[int, Job] = {}
        self.seconds: dict[str, list[float]] = {}
        self.failures: dict[int, str] = {}
        self.done = self.total = 0
        self.began = self.shown = time.monotonic()

    def start(self, jobs: dict[str, int]) -> None:
        """Note how many jobs of every rule are to be done."""
        if self.total:
            return  # told again at the end
        self.waiting, self.total, self.began = dict(jobs), sum(jobs.values()), time.monotonic()
        counts = ", ".join(f"{count} {rule}" for rule, count in jobs.items() if rule != "all")
        self._line(f"{self.total} jobs: {counts}")

    def job_started(self, number: int, rule: str, values: str) -> None:
        """Note a job that starts."""
        job = self.running[number] = Job(rule, f"{rule} {values}".strip(), time.monotonic())
        if rule in NAMED:
            self._line(f"started: {job.name}")
        self._status()

    def job_finished(self, number: int) -> None:
        """Note a job that has ended, perhaps after an attempt that failed."""
        self.failures.pop(number, None)
        job = self.running.pop(number, None)
        if job is not None:
            self.seconds.setdefault(job.rule, []).append(time.monotonic() - job.started)
            self.waiting[job.rule] = max(0, self.waiting.get(job.rule, 0) - 1)
            if job.rule in NAMED:
                self._line(f"ended: {job.name}, {_clock(self.seconds[job.rule][-1])}")

    def job_failed(self, number: int, rule: str, logs: list[str], message: str | None = None) -> None:
        """Show a failure with what Snakemake says about it and the last line of its log."""
        job = self.running.pop(number, None)
        name = job.name if job else rule
        last = next(filter(None, map(_last_line, logs)), None)
        reason = "; ".join(" ".join(part.split()) for part in (message, last) if part) or "no log"
        self.failures[number] = name
        self._line(self._colored(RED, f"failed: {name}: {reason}" + "".join(f" ({log})" for log in logs)))

    def progress(self, done: int, total: int) -> None:
        """Show the number of jobs done."""
        self.done, self.total = done, total
        if self.interactive:
            self._status()
        elif time.monotonic() - self.shown > PAUSE:
            self.shown = time.monotonic()
            self._line(self._summary_of_progress())

    def end(self) -> None:
        """Show what has become of the jobs."""
        self._clear()
        total, self.total = self.total, 0  # no status line from here on
        if not total:
            return
        took = _clock(time.monotonic() - self.began)
        if self.failures:
            outcome = f"{len(self.failures)} failed, {self.done} of {total} jobs done in {took}"
            self._line(self._colored(RED, f"{outcome}: {', '.join(self.failures.values())}"))
        elif self.done == total:
            self._line(self._colored(GREEN, f"all {total} jobs done in {took}"))
        else:
            self._line(f"stopped after {self.done} of {total} jobs, {took}")

    @contextlib.contextmanager
    def without_status(self) -> Iterator[None]:
        """Take the status line away while something else is written."""
        self._clear()
        yield
        self._status()

    def seconds_left(self) -> float | None:
        """Estimate the time left from the mean time of finished jobs of each rule; None if none has finished."""
        finished = [each for times in self.seconds.values() for each in times]
        if not finished:
            return None
        overall = sum(finished) / len(finished)
        ahead = 0.0
        for rule, count in self.waiting.items():
            times = self.seconds.get(rule)
            ahead += count * (sum(times) / len(times) if times else overall)
        now = time.monotonic()
        ahead -= min(sum(now - job.started for job in self.running.values()), ahead / 2)
        at_once = max(1.0, sum(finished) / max(now - self.began, 1e-3))
        return ahead / at_once

    def _summary_of_progress(self) -> str:
        left = self.seconds_left()
        parts = [f"{self.done} of {self.total} jobs", _clock(time.monotonic() - self.began)]
        parts += [] if left is None else [f"about {_clock(left)} left"]
        names = [job.name for job in self.running.values()]
        parts += [names[-1] + (f" and {len(names) - 1} more" if len(names) > 1 else "")] if names else []
        return " · ".join(parts)

    def _status(self) -> None:
        if self.interactive and self.total:
            text = self._summary_of_progress()[: shutil.get_terminal_size().columns - 1]
            # The cursor goes back, so that a line of a job overwrites the status.
            self.stream.write(f"{CLEAR}{self._colored(BOLD, text)}\r")
            self.stream.flush()

    def _clear(self) -> None:
        if self.interactive:
            self.stream.write(CLEAR)
            self.stream.flush()

    def _line(self, text: str) -> None:
        with self.without_status():
            self.stream.write(f"{text}\n")
            self.stream.flush()

    def _colored(self, color: str, text: str) -> str:
        return f"{color}{text}{PLAIN}" if self.color else text


def _last_line(log: str) -> str:
    """Return the last line of a log that says something."""
    try:
        text = Path(log).read_text(errors="replace")[-TAIL:]
    except OSError:
        return ""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
