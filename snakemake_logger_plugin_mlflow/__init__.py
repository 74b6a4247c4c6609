"""A logger of Snakemake: progress in a few lines on the terminal, and trainings as live runs in MLflow.

Use it with ``snakemake --logger mlflow``. A job shows up in MLflow while it runs if it writes a file
``progress.jsonl`` beside one of its outputs, see :mod:`snakemake_logger_plugin_mlflow.follower`.
"""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_mlflow.terminal import Terminal

# What Snakemake tells before every run, and what the lines of this logger say better.
NOISE = (
    "Assuming unrestricted shared filesystem",
    "Building DAG of jobs",
    "Conda environments: ignored",
    "Elapsed time:",
    "Execute ",
    "Exiting because a job execution failed",
    "Select jobs to execute",
    "Shutting down, this might take",
    "Using shell:",
    "Workflow defines that rule",
)
FAILED_JOB = ("RuleException:\nCalledProcessError", "WorkflowError:\nAt least one job did not complete")
SECONDS_TO_END = 30


class LogHandler(LogHandlerBase):
    """Writes to the terminal, and starts the process that follows trainings."""

    def __post_init__(self) -> None:
        settings = self.common_settings
        self.plain = ColorizingTextHandler(
            nocolor=settings.nocolor, stream=sys.stdout if settings.stdout else sys.stderr
        )
        quiet: Any = settings.quiet or set()
        self.plain.setFormatter(DefaultFormatter(quiet, settings.show_failed_logs))
        self.plain.addFilter(
            DefaultFilter(quiet, settings.debug_dag, settings.verbose, settings.dryrun, settings.printshellcmds)
        )
        self.terminal = Terminal(sys.stderr, color=not settings.nocolor and "NO_COLOR" not in os.environ)
        self.follower: subprocess.Popen | None = None
        self.folders: dict[int, set[str]] = {}

    @property
    def writes_to_stream(self) -> bool:
        """Tell Snakemake that the terminal is taken care of."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """Tell Snakemake that its own log file is still wanted."""
        return False

    @property
    def has_filter(self) -> bool:
        """Tell Snakemake that this logger needs every event."""
        return True

    @property
    def has_formatter(self) -> bool:
        """Tell Snakemake that this logger formats by itself."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """Tell Snakemake that the graph of rules is not needed."""
        return False

    def emit(self, record: logging.LogRecord) -> None:
        """Show an event, and tell the follower about jobs."""
        try:
            event = getattr(record, "event", None)
            if self.common_settings.dryrun or _all_quiet(self.common_settings.quiet):
                self.plain.handle(record)
                return
            handle = getattr(self, f"on_{event.value}", None) if isinstance(event, LogEvent) else self.on_message
            if handle is not None:
                handle(record)
        except Exception:
            self.handleError(record)

    def on_message(self, record: Any) -> None:
        """Show a message that is not noise, as Snakemake itself does."""
        if self.common_settings.verbose or not str(record.msg).startswith(NOISE):
            with self.terminal.without_status():
                self.plain.handle(record)

    def on_error(self, record: Any) -> None:
        """Show an error, unless it says no more than that a job has failed."""
        if self.common_settings.verbose or not str(record.msg).startswith(FAILED_JOB):
            self.on_message(record)

    on_shellcmd = on_debug_dag = on_message

    def on_run_info(self, record: Any) -> None:
        """Begin: the jobs that are to be done are known."""
        self.terminal.start({rule: count for rule, count in record.stats.items() if rule != "total"})

    def on_job_info(self, record: Any) -> None:
        """Note a job that starts."""
        values = " ".join(str(value) for value in (record.wildcards or {}).values())
        self.terminal.job_started(record.jobid, record.rule_name, values)
        self.folders[record.jobid] = {str(Path(path).absolute().parent) for path in record.output or []}
        for folder in self.folders[record.jobid]:
            self._tell({"follow": folder})

    def on_job_finished(self, record: Any) -> None:
        """Note a job that has ended."""
        self.terminal.job_finished(record.job_id)

    def on_job_error(self, record: Any) -> None:
        """Show a failure."""
        self.terminal.job_failed(record.jobid, record.rule_name, list(record.log or []), record.rule_msg)
        for folder in self.folders.get(record.jobid, ()):
            self._tell({"failed": folder})

    def on_group_error(self, record: Any) -> None:
        """Show the failures of a group of jobs."""
        for job in record.job_error_info:
            self.terminal.job_failed(job["jobid"], job["rule_name"], list(job["log"] or []))

    def on_progress(self, record: Any) -> None:
        """Show the number of jobs done."""
        self.terminal.progress(record.done, record.total)

    def _tell(self, command: dict[str, str]) -> None:
        """Send a command to the follower, which is started with the first one."""
        if self.follower is None:
            self.follower = subprocess.Popen(
                [sys.executable, "-m", "snakemake_logger_plugin_mlflow.follower"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path)},
            )
        try:
            assert self.follower.stdin is not None
            print(json.dumps(command), file=self.follower.stdin, flush=True)
        except BrokenPipeError:
            pass  # it has said why it ended; the results are logged at the end all the same

    def close(self) -> None:
        """End the follower and show the summary."""
        if self.follower is not None and self.follower.stdin is not None:
            try:
                self.follower.stdin.close()
                self.follower.wait(SECONDS_TO_END)
            except (BrokenPipeError, subprocess.TimeoutExpired):
                self.follower.kill()
            self.follower = None
        self.terminal.end()
        super().close()


def _all_quiet(quiet: Any) -> bool:
    return any(getattr(each, "name", str(each)).lower() == "all" for each in quiet or ())
