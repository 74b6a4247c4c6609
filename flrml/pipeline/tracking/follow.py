"""Sync a results folder while jobs run; imports mlflow only once it is at work."""

import os
import select
import signal
from typing import Any

from flrml.pipeline.stages.logs import in_a_line, tell
from flrml.pipeline.tracking.experiment import LATER, NOT_LOGGED

SECONDS, PAUSE = 0.5, 30.0  # between two looks at the files; after a failure


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
                tell(f"{NOT_LOGGED} ({in_a_line(error)}); {LATER}")
            wait, failed, told = PAUSE, True, True
    if not failed:
        tell(sync.summary())
    return int(failed)
