"""Commands on the runs of MLflow: ``python -m flrml.pipeline.tracking command …``.

``follow results`` logs a results folder until the input is closed. ``ui port [config]``, ``prune yes [config]``,
``report report.html config`` and ``predict model input output`` are targets of the Makefile.
"""

import os
import select
import signal
import sys
from importlib import import_module
from typing import Any

from flrml.exceptions import TrackingError
from flrml.pipeline.stages.logs import CLEAR
from flrml.pipeline.tracking.experiment import LATER, NOT_LOGGED

SECONDS, PAUSE = 0.5, 30.0  # between two looks at the files; after a failure
# Module in this package and function of every other command; imported when needed, as mlflow takes seconds.
COMMANDS = {"ui": "ui.serve", "prune": "ui.prune", "report": "ui.add_report", "predict": "predict.predict"}


def follow(results: str) -> int:
    """Sync until the input is closed, and once more; the first failure is told in one line."""
    for each in (signal.SIGINT, signal.SIGTERM):  # Snakemake ends its jobs by itself; this process ends after them
        signal.signal(each, signal.SIG_IGN)
    os.nice(5)  # trainings are timed
    wait, told, closed = SECONDS, False, False
    sync: Any = None
    while not closed:
        closed = bool(select.select([0], [], [], wait)[0])
        try:
            if sync is None:
                from flrml.pipeline.tracking.sync import Sync  # importing mlflow takes seconds, or fails

                sync = Sync(results)
            sync(final=closed)
            wait, failed = SECONDS, False
        except Exception as error:
            if not told:
                _say(f"{NOT_LOGGED} ({_in_a_line(error)}); {LATER}")
            wait, failed, told = PAUSE, True, True
    if not failed:
        _say(sync.summary())
    return int(failed)


def main(command: str, *arguments: str) -> int:
    """Run a command; an error is one line."""
    if command == "follow":
        return follow(*arguments)
    module, _, function = COMMANDS[command].partition(".")
    try:
        return int(getattr(import_module(f"flrml.pipeline.tracking.{module}"), function)(*arguments))
    except (TrackingError, ValueError, OSError) as error:  # which say what to do
        _say(" ".join(str(error).split()))
    except Exception as error:
        _say(_in_a_line(error))
    return 1


def _say(line: str) -> None:
    """Print a line where Snakemake's logger may show its status."""
    print((CLEAR if sys.stderr.isatty() else "") + line, file=sys.stderr, flush=True)


def _in_a_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
