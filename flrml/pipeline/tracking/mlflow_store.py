"""Open MLflow's store, a database or a server, one writer at a time."""

import contextlib
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
# A server that does not answer must not hold up the end of a run; what it misses is logged the next time.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "8")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")

from filelock import FileLock
from mlflow import MlflowClient

from flrml.exceptions import TrackingError
from flrml.files import leads_through_link

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
    """An experiment in a tracking store.

    Parameters
    ----------
    uri : str
        ``sqlite:///file.db``, with artifacts in a folder ``mlartifacts`` next to it, or the address of a server.
    experiment : str
        Name of the experiment, which :meth:`open` creates if it is missing.
    lock : path
        The lock file of a server's only writer from this results folder; a database has its own.
    """

    client: MlflowClient
    experiment_id: str

    def __init__(self, uri: str, experiment: str, lock: str | os.PathLike):
        self.local = uri.startswith("sqlite")
        self.database = Path(uri.removeprefix("sqlite:///")).absolute()
        # MLflow keeps a connection for every address, which must not depend on the working folder.
        self.uri = f"sqlite:///{self.database}" if self.local else uri
        self.artifacts = self.database.with_name(ARTIFACTS)
        self.experiment = experiment
        if self.local:
            self.database.parent.mkdir(parents=True, exist_ok=True)
        self.lock = FileLock(f"{self.database}.lock" if self.local else lock, timeout=300)

    def open(self) -> None:
        """Open the store and the experiment, both created if missing; to be called under the lock."""
        location = self.artifacts.as_uri() if self.local else None
        if self.local:
            self._create_database(location)
        with self._explained() if self.local else contextlib.nullcontext():
            self.client = MlflowClient(self.uri)
            found = self.client.get_experiment_by_name(self.experiment)
        if found is not None and found.lifecycle_stage == "deleted":
            self.client.restore_experiment(found.experiment_id)
        if found is not None and self.local and _was_moved(found.artifact_location, location):
            self._set_aside(found.experiment_id)
            found = None
        if found is None:
            number = self.client.create_experiment(self.experiment, artifact_location=location)
            found = self.client.get_experiment(number)
        self.experiment_id = found.experiment_id
        for name, value in TAGS.items():
            if found.tags.get(name) != value:
                self.client.set_experiment_tag(found.experiment_id, name, value)

    def _create_database(self, location: str | None) -> None:
        """Create a missing database under a temporary name and rename it, so that a kill leaves none half-made."""
        path = self.database
        if path.exists() and path.stat().st_size:
            return
        # MLflow keeps a connection to every address that it has seen, so each attempt has its own.
        for leftover in path.parent.glob(f".{path.name}.*.creating*"):
            leftover.unlink(missing_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.creating")
        try:
            MlflowClient(f"sqlite:///{temporary}").create_experiment(self.experiment, artifact_location=location)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def _set_aside(self, experiment_id: str) -> None:
        """Rename the experiment of a database that was moved or copied: its runs name artifacts at the old place.

        MLflow has no way to change these addresses; the results are logged again, with artifacts at the new place.
        """
        for run in self.client.search_runs([experiment_id], "attributes.status = 'RUNNING'"):
            self.client.set_terminated(run.info.run_id, "KILLED")
        self.client.rename_experiment(
            experiment_id, f"{self.experiment}, moved {time.strftime('%Y-%m-%d %H:%M:%S')}"
        )

    def search(self, *terms: str) -> list[Any]:
        """Return the runs of the experiment that meet all terms."""
        found: list[Any] = []
        token = None
        while True:
            page = self.client.search_runs(
                [self.experiment_id], " and ".join(terms), max_results=1000, page_token=token
            )
            found += page
            token = page.token
            if not token:
                return found

    def models(self, run_id: str) -> list[Any]:
        """Return the logged models of a run."""
        return list(self.client.search_logged_models([self.experiment_id], f"source_run_id = '{run_id}'"))

    def delete_model(self, model: Any) -> None:
        """Delete a logged model and its artifacts."""
        self._delete_artifacts(model.artifact_location)
        self.client.delete_logged_model(model.model_id)

    def delete_run(self, run: Any) -> None:
        """Delete a run with its models and artifacts."""
        for model in self.models(run.info.run_id):
            self.delete_model(model)
        self._delete_artifacts(run.info.artifact_uri)
        self.client.delete_run(run.info.run_id)

    def _delete_artifacts(self, address: str) -> None:
        """Delete the artifacts of a run or a model if they lie in this project's own folder."""
        place = urlparse(address)
        folder = Path(url2pathname(place.path)).parent
        if place.scheme != "file" or not folder.exists():
            return
        if self.artifacts in folder.parents and not leads_through_link(folder, self.artifacts):
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"kept, not in {self.artifacts}: artifacts of a deleted run, {folder}", flush=True)

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


def _was_moved(location: str, expected: str | None) -> bool:
    """Return whether an experiment names the artifacts folder of another place; not one that somebody chose."""
    return location != expected and Path(urlparse(location).path).name == ARTIFACTS
