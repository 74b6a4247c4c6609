"""The logger, by the tests that Snakemake has for every logger, and the lines that it shows."""

import io
import logging
from types import SimpleNamespace

import pytest
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.tests import TestLogHandlerBase

from flrml.pipeline.stages.logs import CLEAR
from snakemake_logger_plugin_mlflow import LogHandler

RED = "\x1b[31m"


class TestLogger(TestLogHandlerBase):
    __test__ = True

    def get_log_handler_cls(self):
        return LogHandler

    def get_log_handler_settings(self):
        return None


class Screen(io.StringIO):
    def isatty(self):
        return True


class Run:
    """A run of Snakemake, as its logger hears of it."""

    def __init__(self, monkeypatch, stream, *, nocolor=False):
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setenv("TERM", "xterm")
        names = ("verbose", "dryrun", "stdout", "quiet", "show_failed_logs", "debug_dag", "printshellcmds")
        settings = SimpleNamespace(**dict.fromkeys(names, False), nocolor=nocolor)
        self.stream, self.handler = stream, LogHandler(settings, None)

    def tell(self, event, **said):
        self.handler.emit(logging.makeLogRecord({"event": LogEvent(event), "levelname": "INFO"} | said))

    def begin(self, **jobs):
        self.tell("run_info", stats=jobs | {"total": sum(jobs.values())})

    def start(self, number, rule, **wildcards):
        self.tell("job_info", jobid=number, rule_name=rule, wildcards=wildcards)

    def fail(self, number, rule, logs, message=None):
        self.tell("job_error", jobid=number, rule_name=rule, log=logs, rule_msg=message)

    def lines(self):
        self.handler.close()
        return self.stream.getvalue().splitlines()


def test_a_file_gets_the_trainings_and_the_outcome(monkeypatch):
    run = Run(monkeypatch, io.StringIO())
    run.begin(train=1, triplets=1, all=1)
    run.start(1, "train", dataset="digits", method="flrml")
    run.start(2, "triplets", dataset="digits")
    for number in (1, 2, 3):
        run.tell("job_finished", job_id=number)
        run.tell("progress", done=number, total=3)
    assert run.lines() == [
        "3 jobs: 1 train, 1 triplets",
        "started: train digits flrml",
        "ended: train digits flrml, 00:00",
        "all 3 jobs done in 00:00",
    ]


def test_a_terminal_has_a_status_that_other_lines_replace(monkeypatch):
    run = Run(monkeypatch, Screen())
    run.begin(train=2)
    run.start(1, "train", dataset="digits")
    run.tell("progress", done=1, total=2)
    assert "1 of 2 jobs · 00:00 · about 00:00 left, train digits" in run.stream.getvalue()
    assert run.stream.getvalue().count("2 jobs: 2 train\n") == 1
    assert run.lines()[-1].rpartition("\r")[2] == "stopped after 1 of 2 jobs, 00:00"
    assert CLEAR.startswith("\r")


def test_a_failure_is_red_once_with_its_log_and_last_line(monkeypatch, tmp_path):
    log = tmp_path / "train.log"
    log.write_text("Traceback (most recent call last):\n  ...\nValueError: no such column\n\n")
    run = Run(monkeypatch, Screen())
    run.begin(train=2)
    run.start(1, "train", dataset="digits", method="flrml")
    run.fail(1, "train", [str(log)])
    run.lines()
    shown = run.stream.getvalue()
    assert shown.count(f"{RED}failed: train digits flrml: ValueError: no such column ({log})") == 1
    assert shown.count("ValueError") == 1
    assert "1 failed, 0 of 2 jobs done in 00:00: train digits flrml" in shown


def test_the_words_of_the_scheduler_are_part_of_a_failure_and_a_second_attempt_makes_up_for_it(monkeypatch):
    run = Run(monkeypatch, io.StringIO())
    run.begin(train=1)
    for attempt in (1, 2):
        run.start(1, "train", dataset="digits")
        if attempt == 1:
            run.fail(1, "train", [], "SLURM-job '7' failed,\nSLURM status is: 'CANCELLED'")
    run.tell("job_finished", job_id=1)
    run.tell("progress", done=1, total=1)
    lines = run.lines()
    assert "failed: train digits: SLURM-job '7' failed, SLURM status is: 'CANCELLED'" in lines
    assert lines[-1] == "all 1 jobs done in 00:00"


@pytest.mark.parametrize("variable", [False, True])
def test_without_color_nothing_is_colored(monkeypatch, variable):
    if variable:
        monkeypatch.setenv("NO_COLOR", "1")
    run = Run(monkeypatch, Screen(), nocolor=not variable)
    run.begin(train=1)
    run.tell("group_error", job_error_info=[{"jobid": 1, "rule_name": "train", "log": ["missing.log"]}])
    run.lines()
    assert RED not in run.stream.getvalue()
    assert "failed: train: no log (missing.log)" in run.stream.getvalue()


def test_without_jobs_nothing_is_said(monkeypatch):
    assert Run(monkeypatch, io.StringIO()).lines() == []
