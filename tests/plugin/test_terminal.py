"""The lines that the logger shows."""

import io
import time

from flrml.pipeline.stages.logs import CLEAR
from snakemake_logger_plugin_mlflow import terminal
from snakemake_logger_plugin_mlflow.terminal import RED, Terminal


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_a_file_gets_a_line_now_and_then_the_trainings_and_the_outcome(monkeypatch):
    monkeypatch.setattr(terminal, "PAUSE", 0.0)
    stream = io.StringIO()
    shown = Terminal(stream)
    shown.start({"train": 2, "all": 1})
    shown.job_started(1, "train", "digits flrml")
    shown.progress(0, 3)
    for number in (1, 2, 3):
        shown.job_finished(number)
        shown.progress(number, 3)
    shown.end()
    first, started, second, ended, *_, last = stream.getvalue().splitlines()
    assert first == "3 jobs: 2 train"
    assert started == "started: train digits flrml"
    assert second == "0 of 3 jobs · 0:00 · train digits flrml"
    assert ended == "ended: train digits flrml, 0:00"
    assert last == "all 3 jobs done in 0:00"
    assert "\x1b" not in stream.getvalue()


def test_a_terminal_has_a_status_line_that_other_lines_replace():
    stream = Screen()
    shown = Terminal(stream)
    shown.start({"train": 2})
    shown.job_started(1, "train", "digits flrml")
    assert stream.getvalue().endswith("0 of 2 jobs · 0:00 · train digits flrml\x1b[0m\r")
    with shown.without_status():
        assert stream.getvalue().endswith(CLEAR)


def test_a_failure_is_red_once_with_its_log_and_last_line(tmp_path):
    log = tmp_path / "train.log"
    log.write_text("Traceback (most recent call last):\n  ...\nValueError: no such column\n\n")
    stream = Screen()
    shown = Terminal(stream)
    shown.start({"train": 2})
    shown.job_started(1, "train", "digits flrml")
    shown.job_failed(1, "train", [str(log)])
    line = f"{RED}failed: train digits flrml: ValueError: no such column ({log})"
    assert stream.getvalue().count(line) == 1
    shown.end()
    assert stream.getvalue().count("ValueError") == 1
    assert "1 failed, 0 of 2 jobs done in 0:00: train digits flrml" in stream.getvalue()


def test_what_the_scheduler_says_is_part_of_a_failure_and_a_second_attempt_makes_up_for_it():
    stream = io.StringIO()
    shown = Terminal(stream)
    shown.start({"train": 1})
    shown.job_started(1, "train", "digits")
    shown.job_failed(1, "train", [], "SLURM-job '7' failed,\nSLURM status is: 'CANCELLED'")
    assert "failed: train digits: SLURM-job '7' failed, SLURM status is: 'CANCELLED'" in stream.getvalue()
    shown.job_started(1, "train", "digits")
    shown.job_finished(1)
    shown.progress(1, 1)
    shown.end()
    assert stream.getvalue().splitlines()[-1].startswith("all 1 jobs done")


def test_without_color_nothing_is_colored():
    stream = Screen()
    shown = Terminal(stream, color=False)
    shown.start({"train": 1})
    shown.job_failed(1, "train", ["missing.log"])
    assert RED not in stream.getvalue()
    assert "failed: train: no log (missing.log)" in stream.getvalue()


def test_the_time_left_follows_the_mean_time_of_each_rule():
    shown = Terminal(io.StringIO())
    shown.start({"train": 4, "track": 1})
    assert shown.seconds_left() is None
    shown.began = time.monotonic() - 40
    shown.seconds = {"train": [10.0, 30.0]}
    shown.waiting = {"train": 2, "track": 1}
    assert 55 < shown.seconds_left() <= 60  # one job at a time, 20 s each


def test_without_jobs_nothing_is_said():
    stream = io.StringIO()
    Terminal(stream).end()
    assert stream.getvalue() == ""
