"""A logger of Snakemake, ``snakemake --logger mlflow``: progress in a few lines on the terminal.

The workflow itself logs its results to MLflow while jobs run; without jobs, this logger lets it do so.
"""

import logging
import os
import sys
from typing import Any

from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from flrml.pipeline.tracking.experiment import Follower
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
NO_JOBS = "Nothing to be done"


class LogHandler(LogHandlerBase):
    """Writes to the terminal."""

    writes_to_stream = has_filter = has_formatter = True  # every event comes here, and nowhere else to the terminal
    writes_to_file = needs_rulegraph = False

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

    def emit(self, record: logging.LogRecord) -> None:
        """Show an event."""
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
        if str(record.msg).startswith(NO_JOBS) and Follower.current is not None:
            Follower.current.start()  # what an earlier run could not log, or goes to another store now
            Follower.current.finish()

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

    def on_job_finished(self, record: Any) -> None:
        """Note a job that has ended."""
        self.terminal.job_finished(record.job_id)

    def on_job_error(self, record: Any) -> None:
        """Show a failure."""
        self.terminal.job_failed(record.jobid, record.rule_name, list(record.log or []), record.rule_msg)

    def on_group_error(self, record: Any) -> None:
        """Show the failures of a group of jobs."""
        for job in record.job_error_info:
            self.terminal.job_failed(job["jobid"], job["rule_name"], list(job["log"] or []))

    def on_progress(self, record: Any) -> None:
        """Show the number of jobs done."""
        self.terminal.progress(record.done, record.total)

    def close(self) -> None:
        """Show the summary."""
        self.terminal.end()
        super().close()


def _all_quiet(quiet: Any) -> bool:
    return any(getattr(each, "name", str(each)).lower() == "all" for each in quiet or ())
