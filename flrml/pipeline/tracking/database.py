"""Create and open MLflow's store: a database that many processes open at once, or a server."""

import contextlib
import json
import logging
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

from filelock import FileLock
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from flrml.exceptions import TrackingError

# Every process would tell that it opens the database.
logging.getLogger("mlflow").setLevel(logging.WARNING)

ARTIFACTS = "mlartifacts"
# Columns that the runs page shows first, as a view that MLflow keeps in a tag of the experiment.
COLUMNS = ["metrics.`accuracy`", "metrics.`train_seconds`", "metrics.`peak_mb`", "tags.`dataset`", "tags.`method`"]
VIEW = "flrml"
# Earlier runs of a key are left out.
SHOWN = "tags.`flrml.newest` != 'false'"
TAGS = {
    # Ordered by name, MLflow shows all runs at once; by time, only those without a parent.
    f"mlflow.sharedViewState.{VIEW}": json.dumps(
        {
            "selectedColumns": COLUMNS,
            "columnOrder": COLUMNS,
            "searchFilter": SHOWN,
            "orderByKey": "tags.`mlflow.runName`",
            "orderByAsc": True,
        }
    ),
    # Shown in lists of experiments. Which page opens first is up to the address, see `runs_page`.
    "mlflow.experimentKind": "custom_model_development",
}
# Where the database keeps addresses of artifacts, and the folder of each below that of the experiment.
ADDRESSES = (
    ("runs", "run_uuid", "artifact_uri", "{}/artifacts"),
    ("logged_models", "model_id", "artifact_location", "models/{}/artifacts"),
)


def runs_page(base: str, experiment_id: str, *, every: bool = False) -> str:
    """Return the address of the table of runs in MLflow's user interface.

    Parameters
    ----------
    base : str
        Address of the server, such as ``http://127.0.0.1:5000``.
    experiment_id : str
        Number of the experiment.
    every : bool, default False
        Show earlier runs too, instead of the view with the newest ones.
    """
    # Without the type, MLflow opens its pages for language models, whatever the experiment's kind.
    page = f"{base.rstrip('/')}/#/experiments/{experiment_id}/runs?workflowType=machine_learning"
    return page if every else f"{page}&viewStateShareKey={VIEW}"


class Store:
    """A tracking store and the folder of its artifacts.

    Parameters
    ----------
    uri : str
        ``sqlite:///file.db`` or the address of a tracking server.
    artifacts : path, optional
        Folder for artifacts of a database store, by default ``mlartifacts`` beside the database.
    """

    def __init__(self, uri: str, artifacts: str | os.PathLike | None = None):
        self.local = uri.startswith("sqlite")
        self.database = Path(uri.removeprefix("sqlite:///")).absolute()
        # MLflow keeps a connection for every address, which must not depend on the working folder.
        self.uri = f"sqlite:///{self.database}" if self.local else uri
        self.artifacts = Path(artifacts or self.database.with_name(ARTIFACTS)).absolute()

    def locked(self) -> contextlib.AbstractContextManager:
        """Keep other processes from changing a local store; a server does so itself."""
        return FileLock(f"{self.database}.lock", timeout=300) if self.local else contextlib.nullcontext()

    def open(self, experiment: str) -> tuple[MlflowClient, str]:
        """Open the store and the experiment, both created if missing; return a client and the experiment's id."""
        location = self.artifacts.as_uri() if self.local else None
        if self.local:
            self.database.parent.mkdir(parents=True, exist_ok=True)
        # Processes that open a missing database at once ruin it, so only one at a time may look.
        with self.locked():
            if self.local:
                self._create_database(experiment, location)
            with self._explained() if self.local else contextlib.nullcontext():
                client = MlflowClient(self.uri)
                found = client.get_experiment_by_name(experiment)
            if found is None:
                with contextlib.suppress(MlflowException):  # another process was faster
                    client.create_experiment(experiment, artifact_location=location)
                found = client.get_experiment_by_name(experiment)
            if found is None:
                raise TrackingError(
                    f"experiment {experiment!r} cannot be created in {self.uri}: see the server's log"
                )
            if found.lifecycle_stage == "deleted":
                client.restore_experiment(found.experiment_id)
            if self.local and found.artifact_location != location:
                self._move_artifacts(found)
            for name, value in TAGS.items():
                if found.tags.get(name) != value:
                    client.set_experiment_tag(found.experiment_id, name, value)
        return client, found.experiment_id

    def _create_database(self, experiment: str, location: str | None) -> None:
        """Create a missing database under a temporary name and rename it: a killed process leaves none half-made.

        Must be called under the lock.
        """
        path = self.database
        if path.exists() and path.stat().st_size:
            return
        # MLflow keeps a connection to every address that it has seen, so each attempt has its own.
        for leftover in path.parent.glob(f".{path.name}.*.creating*"):
            leftover.unlink(missing_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.creating")
        try:
            MlflowClient(f"sqlite:///{temporary}").create_experiment(experiment, artifact_location=location)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def _move_artifacts(self, experiment: Any) -> None:
        """Name this project's folder of artifacts in a database that was moved or copied with it.

        MLflow keeps absolute addresses: a copy of a project would write to the folder of the original. Runs and
        models whose artifacts did not come along keep the address that they have.
        """
        if Path(urlparse(experiment.artifact_location).path).name != ARTIFACTS:
            return  # a location that somebody chose
        with contextlib.closing(sqlite3.connect(self.database)) as database, database:
            here = self.artifacts.as_uri()
            number = int(experiment.experiment_id)
            database.execute("UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?", (here, number))
            for table, key, column, folder in ADDRESSES:
                found = database.execute(f"SELECT {key} FROM {table} WHERE experiment_id = ?", (number,)).fetchall()
                for (name,) in found:
                    place = folder.format(name)
                    if (self.artifacts / place).exists():
                        address = f"{here}/{place}"
                        database.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (address, name))

    def delete_artifacts(self, address: str) -> None:
        """Delete the artifacts of a run or a model if they lie in this project's own folder."""
        place = urlparse(address)
        folder = Path(url2pathname(place.path)).parent
        if place.scheme != "file" or not folder.exists():
            return
        if self.artifacts in folder.parents and not _through_link(folder, self.artifacts):
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"left alone, not in {self.artifacts}: artifacts of a deleted run, {folder}", flush=True)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn the failure to open a database into an error that says what to do."""
        try:
            yield
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            raise TrackingError(
                f"{self.database} cannot be opened as an MLflow database ({reason}): move it away and run again; "
                "result files are kept, and their runs are logged to a new database"
            ) from error


def _through_link(path: Path, root: Path) -> bool:
    """Tell whether a path leads through a symbolic link, from the root on."""
    return any(part.is_symlink() for part in (path, *path.parents) if part == root or root in part.parents)
