"""Commands on the runs of MLflow: ``python -m flrml.pipeline.tracking command …``.

``follow results`` logs a results folder until the input is closed, ``sync results`` does so once.
``ui config [port]``, ``prune config [yes]`` and ``report config report.html`` are targets of the Makefile.
"""

import os
import select
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from flrml.pipeline.tracking.experiment import LATER, NOT_LOGGED

if TYPE_CHECKING:
    from flrml.pipeline.tracking.sync import Sync

SECONDS, PAUSE = 0.5, 30.0  # between two looks at the files; after a failure


class Attempts:
    """Syncs that may fail; the first failure is told in one line."""

    def __init__(self, results: str):
        self.results, self.told = results, False
        self.sync: Sync | None = None

    def __call__(self, *, final: bool = True) -> bool:
        """Sync; return whether that succeeded."""
        try:
            if self.sync is None:
                from flrml.pipeline.tracking.sync import Sync  # importing mlflow takes seconds, or fails

                self.sync = Sync(self.results)
            self.sync(final=final)
        except Exception as error:
            if not self.told:
                print(f"{NOT_LOGGED} ({_in_a_line(error)}); {LATER}", file=sys.stderr, flush=True)
            self.told = True
            return False
        return True


def follow(results: str) -> bool:
    """Sync until the input is closed, and once more; return whether the last time succeeded."""
    for each in (signal.SIGINT, signal.SIGTERM):  # Snakemake ends its jobs by itself; this process ends after them
        signal.signal(each, signal.SIG_IGN)
    os.nice(5)  # trainings are timed
    attempt, wait = Attempts(results), SECONDS
    while not select.select([0], [], [], wait)[0]:
        wait = SECONDS if attempt(final=False) else PAUSE
    return attempt()


def main(command: str, *arguments: str) -> int:
    """Run a command."""
    if command in ("follow", "sync"):
        done = follow(*arguments) if command == "follow" else Attempts(*arguments)()
        return 0 if done else 1
    from flrml.pipeline.tracking import ui

    commands: dict[str, Callable[..., int]] = {"ui": ui.serve, "prune": ui.prune, "report": ui.add_report}
    try:
        return commands[command](*arguments)
    except Exception as error:
        print(_in_a_line(error), file=sys.stderr)
        return 1


def _in_a_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
