"""Runs in MLflow, logged from result files by processes that may start all at once.

Every run has a key, a tag; logging a key again replaces its run. A run is logged whole and ended in one go.
"""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

from filelock import FileLock
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, Metric, Param, RunTag
from mlflow.exceptions import MlflowException

from flrml.exceptions import TrackingError
from flrml.pipeline.provenance import provenance

KEY = "flrml.key"
# Metrics that MLflow takes in one request.
MOST_METRICS = 1000
# Columns that the runs page shows first, as a view that MLflow keeps in a tag of the experiment.
COLUMNS = ["metrics.`accuracy`", "metrics.`train_seconds`", "metrics.`peak_mb`", "tags.`dataset`", "tags.`method`"]
VIEW = "flrml"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
VIEW_STATE = json.dumps({"selectedColumns": COLUMNS, "columnOrder": COLUMNS})


def tracking_uri(configured: str) -> str:
    """The address of the tracking store: MLFLOW_TRACKING_URI wins over the configured one."""
    return os.environ.get("MLFLOW_TRACKING_URI") or configured


def runs_page(base: str, experiment_id: str) -> str:
    """Address of the table of runs in MLflow's user interface, with accuracy, time and memory first.

    Parameters
    ----------
    base : str
        Address of the server, such as ``http://127.0.0.1:5000``.
    experiment_id : str
        Number of the experiment.
    """
    query = f"workflowType=machine_learning&viewStateShareKey={VIEW}"
    return f"{base.rstrip('/')}/#/experiments/{experiment_id}/runs?{query}"


@dataclass
class RunRecord:
    """A finished run, ready to be logged."""

    key: str
    name: str
    parameters: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    series: dict[str, list[float]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    dataset: dict[str, str] | None = None
    failure: str | None = None
    started: float = 0.0
    seconds: float = 0.0
    children: list["RunRecord"] = field(default_factory=list)


class Tracker:
    """An experiment in a tracking store, created if it is missing.

    Parameters
    ----------
    uri : str
        ``sqlite:///file.db`` or the address of a tracking server.
    experiment : str
        Name of the experiment.
    artifacts : path
        Folder for artifacts of a database store; a server has its own.
    """

    def __init__(self, uri: str, experiment: str, artifacts: str | os.PathLike = "mlartifacts"):
        self.uri = uri
        self.local = uri.startswith("sqlite")
        self.artifacts = Path(artifacts).absolute()
        location = self.artifacts.as_uri() if self.local else None
        if self.local:
            _database(uri).parent.mkdir(parents=True, exist_ok=True)
        # Processes that open a missing database at once ruin it, so only one at a time may look.
        with self._locked():
            if self.local:
                _create_database(uri, experiment, location)
            with _explained(uri) if self.local else contextlib.nullcontext():
                self.client = MlflowClient(uri)
                found = self.client.get_experiment_by_name(experiment)
            if found is None:
                try:
                    self.experiment_id = self.client.create_experiment(experiment, artifact_location=location)
                except MlflowException:  # another process was faster
                    found = self.client.get_experiment_by_name(experiment)
                    if found is None:
                        raise
        if found is not None:
            if found.lifecycle_stage == "deleted":
                self.client.restore_experiment(found.experiment_id)
            self.experiment_id = found.experiment_id
        if found is None or found.tags.get(VIEW_TAG) != VIEW_STATE:
            self.client.set_experiment_tag(self.experiment_id, VIEW_TAG, VIEW_STATE)

    def _locked(self) -> contextlib.AbstractContextManager:
        """Keep other processes from changing a local store; a server does so itself."""
        return FileLock(f"{_database(self.uri)}.lock", timeout=300) if self.local else contextlib.nullcontext()

    def log(self, record: RunRecord, parent: str | None = None) -> str:
        """Log a run and its children, in place of earlier runs with the same keys; return its id."""
        with self._locked() if parent is None else contextlib.nullcontext():
            return self._log(record, parent)

    def _log(self, record: RunRecord, parent: str | None) -> str:
        self.remove(record.key)
        start = int(1000 * record.started)
        tags = record.tags | {KEY: record.key}
        if parent is not None:
            tags["mlflow.parentRunId"] = parent
        if record.failure is not None:
            tags["failure"] = record.failure
        run = self.client.create_run(self.experiment_id, start_time=start or None, tags=tags, run_name=record.name)
        run_id = run.info.run_id
        self.client.log_batch(
            run_id,
            params=[Param(name, str(value)[:6000]) for name, value in record.parameters.items()],
            tags=[RunTag("mlflow.note.content", record.failure)] if record.failure else [],
        )
        metrics = [Metric(name, float(value), start, 0) for name, value in record.metrics.items()]
        for name, values in record.series.items():
            metrics += [Metric(name, float(value), start, step) for step, value in enumerate(values)]
        for first in range(0, len(metrics), MOST_METRICS):
            self.client.log_batch(run_id, metrics=metrics[first : first + MOST_METRICS])
        if record.dataset is not None:
            dataset = Dataset(record.dataset["name"], record.dataset["digest"], "local", record.dataset["name"])
            self.client.log_inputs(run_id, [DatasetInput(dataset)])
        for child in record.children:
            self._log(child, run_id)
        end = start + int(1000 * record.seconds) if start else None
        self.client.set_terminated(run_id, "FAILED" if record.failure else "FINISHED", end_time=end)
        return run_id

    def log_classifier(self, run_id: str, classifier: Any) -> None:
        """Log a classifier so that ``mlflow.sklearn.load_model("runs:/<run id>/model")`` gives it back."""
        import mlflow.sklearn

        needed = [f"{name}=={provenance()[name]}" for name in ("numpy", "scipy", "scikit-learn")]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            mlflow.sklearn.save_model(classifier, path, pip_requirements=needed, serialization_format="cloudpickle")
            self.client.log_artifacts(run_id, str(path), "model")

    def runs(self, key: str | None = None) -> list[Any]:
        """Runs of the experiment, or those with the given key."""
        chosen = f"tags.`{KEY}` = '{key}'" if key is not None else ""
        found: list[Any] = []
        token = None
        while True:
            page = self.client.search_runs([self.experiment_id], chosen, max_results=1000, page_token=token)
            found += page
            token = page.token
            if not token:
                return found

    def remove(self, key: str) -> None:
        """Delete the runs with this key."""
        for run in self.runs(key):
            self._delete(run)

    def keep_only(self, keys: Iterable[str], prefix: str) -> None:
        """Delete runs whose key starts with the prefix and is not among the given ones."""
        wanted = set(keys)
        for run in self.runs():
            key = run.data.tags.get(KEY, "")
            if key.startswith(prefix) and key not in wanted:
                self._delete(run)

    def _delete(self, run: Any) -> None:
        """Delete a run, and its artifacts if they lie in this project's own folder."""
        place = urlparse(run.info.artifact_uri)
        folder = Path(url2pathname(place.path)).parent
        if place.scheme == "file" and folder.exists():
            if folder == self.artifacts / run.info.run_id and not _has_link(folder):
                shutil.rmtree(folder, ignore_errors=True)
            else:
                print(f"left alone, not in {self.artifacts}: artifacts of a replaced run, {folder}", flush=True)
        with contextlib.suppress(MlflowException):  # another process was faster
            self.client.delete_run(run.info.run_id)


def _has_link(path: Path) -> bool:
    """Tell whether a path leads through a symbolic link."""
    return path.is_symlink() or path.parent.is_symlink()


def _database(uri: str) -> Path:
    """Return the file of an SQLite address."""
    return Path(uri.removeprefix("sqlite:///"))


def _create_database(uri: str, experiment: str, location: str | None) -> None:
    """Create a missing database under a temporary name and rename it: a killed process leaves none half-made.

    Must be called under the lock.
    """
    path = _database(uri).absolute()
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


@contextlib.contextmanager
def _explained(uri: str) -> Iterator[None]:
    """Turn the failure to open a database into an error that says what to do."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise TrackingError(
            f"{_database(uri)} cannot be opened as an MLflow database ({reason}): move it away and run again; "
            "result files are kept, and their runs are logged to a new database"
        ) from error
