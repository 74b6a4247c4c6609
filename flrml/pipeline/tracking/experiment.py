"""Describe an experiment in its results folder, and log it in a process of its own; imports MLflow only there."""

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from flrml.exceptions import DamagedFileError
from flrml.files import atomic_write, read_json, write_json
from flrml.pipeline.stages.logs import in_a_line, tell

EXPERIMENT = "experiment.json"
LAST = Path(".snakemake", "flrml_results")  # the results folder of the last run in this working folder
SECONDS, PAUSE = 0.5, 30.0  # between two looks at the files; after a failure
NOT_LOGGED, LATER = "MLflow is not up to date", "results are kept, and the next run or `make ui` logs them"


def without_credentials(uri: str) -> str:
    """Return an address without user and password."""
    parts = urlsplit(uri)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() if "@" in parts.netloc else uri


def hide_credentials() -> None:
    """Move user and password from MLFLOW_TRACKING_URI to the variables that MLflow reads them from.

    An address is shown and written to files; these variables are not.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    parts = urlsplit(uri)
    if parts.scheme.startswith("http") and parts.username is not None:
        os.environ["MLFLOW_TRACKING_URI"] = without_credentials(uri)
        os.environ["MLFLOW_TRACKING_USERNAME"] = unquote(parts.username)
        os.environ["MLFLOW_TRACKING_PASSWORD"] = unquote(parts.password or "")


def tracking_uri(configured: str) -> str:
    """Return the address of the tracking store: MLFLOW_TRACKING_URI wins over the configured one."""
    hide_credentials()
    return os.environ.get("MLFLOW_TRACKING_URI") or configured


def write_experiment(results: Path, config: dict[str, Any], files: Iterable[str], drawn: Iterable[str]) -> None:
    """Write what a run is about to make to ``experiment.json`` in its results folder.

    The id of the folder is the place where it is first described, and stays if it is moved. ``files`` are the
    result files of the runs that the configuration asks for, ``drawn`` a file of every figure and table.
    """
    folder_id = f"{socket.gethostname()}:{results.resolve()}".replace("'", "_")
    with suppress(FileNotFoundError, DamagedFileError):
        folder_id = read_json(results / EXPERIMENT)["id"]
    content = {
        "id": folder_id,
        "experiment": config["experiment"],
        "tracking_uri": without_credentials(tracking_uri(config["tracking_uri"])),
        "config": {name: value for name, value in config.items() if name != "tracking_uri"},
        "runs": [str(Path(path).parent.relative_to(results)) for path in files],
        "drawn": [str(Path(path).relative_to(results)) for path in drawn],
    }
    write_json(results / EXPERIMENT, content)


class Follower:
    """The process that makes MLflow agree with a results folder while jobs run; see :func:`write_experiment`.

    It ends when its input is closed, also if this process is killed.
    """

    current: ClassVar["Follower | None"] = None  # of the workflow that this process runs

    def __init__(self, results: str, *description: Any):
        self.results, self.description = Path(results), description
        Follower.current = self

    def start(self) -> None:
        """Describe the experiment and start the process."""
        write_experiment(self.results, *self.description)
        with atomic_write(LAST) as temporary:
            temporary.write_text(str(self.results), encoding="utf-8")
        command = [sys.executable, "-m", "flrml.pipeline", "follow", str(self.results)]
        path = os.pathsep.join(part or "." for part in sys.path)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path})

    def finish(self) -> None:
        """Let the process log what is left, and wait for it; it gives up by itself if the store does not answer."""
        self.process.communicate()
        if self.process.returncode < 0:
            tell(f"{NOT_LOGGED} (its process was killed); {LATER}")


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
