"""Describe an experiment in its results folder, and start the process that logs it; imports no MLflow."""

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from flrml.exceptions import DamagedFileError
from flrml.files import read_json, write_json

EXPERIMENT, LOGGED = "experiment.json", "mlflow.json"
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

    Parameters
    ----------
    results : path
        Results folder. It gets an id when it is first described and keeps it, also if it is moved.
    config : dict
        The resolved configuration.
    files, drawn : iterables of paths
        The result file of every run that the configuration asks for, and a file of every figure and table.
    """
    before = {}
    with suppress(FileNotFoundError, DamagedFileError):
        before = read_json(results / EXPERIMENT)
    content = {
        "id": before.get("id") or uuid.uuid4().hex,
        "experiment": config["experiment"],
        "tracking_uri": without_credentials(tracking_uri(config["tracking_uri"])),
        "config": {name: value for name, value in config.items() if name != "tracking_uri"},
        "runs": [str(Path(path).parent.relative_to(results)) for path in files],
        "drawn": [str(Path(path).relative_to(results)) for path in drawn],
    }
    write_json(results / EXPERIMENT, content)
    (results / LOGGED).unlink(missing_ok=True)


class Follower:
    """The process that makes MLflow agree with a results folder while jobs run.

    It ends when its input is closed, also if this process is killed.

    Parameters
    ----------
    results : path
        Results folder.
    describe : callable
        Returns the other arguments of :func:`write_experiment`, when a run starts.
    """

    current: ClassVar["Follower | None"] = None  # of the workflow that this process runs

    def __init__(
        self, results: str | os.PathLike, describe: Callable[[], tuple[Any, Iterable[str], Iterable[str]]]
    ):
        self.results, self.describe = Path(results), describe
        self.process: subprocess.Popen | None = None
        Follower.current = self

    def start(self) -> None:
        """Describe the experiment and start the process."""
        write_experiment(self.results, *self.describe())
        command = [sys.executable, "-m", "flrml.pipeline.tracking", "follow", str(self.results)]
        path = os.pathsep.join(part or "." for part in sys.path)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path})

    def finish(self) -> None:
        """Let the process log what is left, and wait for it; it gives up by itself if the store does not answer."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
            if self.process.wait() < 0:
                print(f"{NOT_LOGGED} (its process was killed); {LATER}", file=sys.stderr, flush=True)
