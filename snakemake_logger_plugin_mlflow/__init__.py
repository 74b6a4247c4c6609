"""A logger of Snakemake, ``snakemake --logger mlflow``: progress and failures in a few lines on the terminal.

The workflow itself logs its results to MLflow while jobs run; without jobs, this logger lets it do so.
"""

import logging
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter
from snakemake.settings.enums import Quietness
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from tqdm import tqdm

from flrml.pipeline.tracking.experiment import Follower

# Messages of Snakemake that this logger repeats better, or that come with every run.
NOISE = (
    "Assuming unrestricted shared filesystem",
    "Building DAG of jobs",
    "Complete log",
    "Conda environments: ignored",
    "Elapsed time:",
    "Execute ",
    "Loading script code",
    "Exiting because a job execution failed",
    "Select jobs to execute",
    "Shutting down, this might take",
    "Using shell:",
    "Workflow defines that rule",
)
FAILED_JOB = ("RuleException:\nCalledProcessError", "WorkflowError:\nAt least one job did not complete")
NO_JOBS = "Nothing to be done"
STATUS = "{n_fmt} of {total_fmt} jobs · {elapsed} · about {remaining} left{postfix}"
NAMED = ("train",)  # rules whose jobs are named when they start and when they end


class LogHandler(LogHandlerBase):
    """Writes to the terminal: lines, and below them the number of jobs done."""

    writes_to_stream = has_filter = has_formatter = True  # every event comes here, and nowhere else to the terminal
    writes_to_file = needs_rulegraph = False

    def __post_init__(self) -> None:
        settings = self.common_settings
        self.plain = ColorizingTextHandler(
            nocolor=settings.nocolor or "NO_COLOR" in os.environ,
            stream=sys.stdout if settings.stdout else sys.stderr,
        )
        quiet: Any = settings.quiet or set()
        self.plain.setFormatter(DefaultFormatter(quiet, settings.show_failed_logs))
        self.plain.addFilter(
            DefaultFilter(quiet, settings.debug_dag, settings.verbose, settings.dryrun, settings.printshellcmds)
        )
        self.running: dict[int, tuple[str, float]] = {}  # name and start of each job
        self.failed: dict[int, str] = {}
        self.done = self.total = 0
        self.status: tqdm | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Show an event."""
        try:
            event = getattr(record, "event", None)
            if self.common_settings.dryrun or Quietness.ALL in (self.common_settings.quiet or ()):
                self.plain.handle(record)
                return
            handle = getattr(self, f"on_{event.value}", None) if isinstance(event, LogEvent) else self.on_message
            if handle is not None:
                handle(record)
        except Exception:
            self.handleError(record)

    def say(self, line: str, level: str = "") -> None:
        """Write a line above the status; one of level ``ERROR`` is red."""
        with tqdm.external_write_mode(self.plain.stream):
            self.plain.emit(logging.makeLogRecord({"msg": line, "levelname": level}))

    def on_message(self, record: Any) -> None:
        """Show a message that is not noise, as Snakemake itself does."""
        if self.common_settings.verbose or not str(record.msg).startswith(NOISE):
            with tqdm.external_write_mode(self.plain.stream):
                self.plain.handle(record)
        if str(record.msg).startswith(NO_JOBS) and Follower.current is not None:
            Follower.current.start()  # for results that an earlier run could not log, or that go to another store
            Follower.current.finish()

    def on_error(self, record: Any) -> None:
        """Show an error, unless it says no more than that a job has failed."""
        if self.common_settings.verbose or not str(record.msg).startswith(FAILED_JOB):
            self.on_message(record)

    on_shellcmd = on_debug_dag = on_message

    def on_run_info(self, record: Any) -> None:
        """Begin: the jobs that are to be done are known; Snakemake tells them again at the end."""
        if not self.total:
            jobs = {rule: count for rule, count in record.stats.items() if rule != "total"}
            counts = ", ".join(f"{count} {rule}" for rule, count in jobs.items() if rule != "all")
            self.total, self.began = sum(jobs.values()), time.monotonic()
            self.say(f"{self.total} jobs: {counts}")
            shown = {"file": self.plain.stream, "bar_format": STATUS, "leave": False, "mininterval": 0}
            self.status = tqdm(total=self.total, disable=None, **shown)

    def on_job_info(self, record: Any) -> None:
        """Note a job that starts."""
        name = " ".join([record.rule_name, *(str(value) for value in (record.wildcards or {}).values())])
        self.running[record.jobid] = (name, time.monotonic())
        if record.rule_name in NAMED:
            self.say(f"started: {name}")
        if self.status is not None:
            self.status.set_postfix_str(name)

    def on_job_finished(self, record: Any) -> None:
        """Note a job that has ended, perhaps after an attempt that failed."""
        self.failed.pop(record.job_id, None)
        name, started = self.running.pop(record.job_id, ("", 0.0))
        if name.startswith(NAMED):
            self.say(f"ended: {name}, {_clock(time.monotonic() - started)}")

    def on_job_error(self, record: Any) -> None:
        """Show a failure."""
        self._show_failure(record.jobid, record.rule_name, record.log, record.rule_msg)

    def on_group_error(self, record: Any) -> None:
        """Show the failures of a group of jobs."""
        for job in record.job_error_info:
            self._show_failure(job["jobid"], job["rule_name"], job["log"])

    def _show_failure(self, number: int, rule: str, logs: Any, message: str | None = None) -> None:
        """Show a failure with what Snakemake says about it and the last line of its log."""
        self.failed[number] = self.running.pop(number, (rule, 0.0))[0]
        last = next(filter(None, map(_last_line, logs or [])), None)
        reason = "; ".join(" ".join(part.split()) for part in (message, last) if part) or "no log"
        self.say(f"failed: {self.failed[number]}: {reason}" + "".join(f" ({log})" for log in logs or []), "ERROR")

    def on_progress(self, record: Any) -> None:
        """Show the number of jobs done, and the outcome once all are."""
        self.done = record.done
        if self.status is not None:
            self.status.update(record.done - self.status.n)
        if self.done == self.total:
            self._show_outcome()

    def close(self) -> None:
        """Show what has become of the jobs."""
        self._show_outcome()
        super().close()

    def _show_outcome(self) -> None:
        if self.status is None:
            return
        self.status.close()
        self.status = None
        of, took = f"{self.done} of {self.total} jobs", _clock(time.monotonic() - self.began)
        if self.failed:
            self.say(f"{len(self.failed)} failed, {of} done in {took}: {', '.join(self.failed.values())}", "ERROR")
        else:
            ended = self.done == self.total
            self.say(f"all {self.total} jobs done in {took}" if ended else f"stopped after {of}, {took}")


def _last_line(log: str) -> str:
    """Return the last line of a log that says something."""
    with suppress(OSError):
        lines = Path(log).read_text(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
    return ""


def _clock(seconds: float) -> str:
    return tqdm.format_interval(round(seconds))
