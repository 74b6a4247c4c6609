"""Open MLflow's store, a database or a server, one writer at a time."""

import json
import logging
import os
import time
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
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.store.tracking import SEARCH_MAX_RESULTS_THRESHOLD

from flrml.exceptions import TrackingError
from flrml.files import atomic_write, leads_through_link

# Every process would tell that it opens the database.
logging.getLogger("mlflow").setLevel(logging.WARNING)

ARTIFACTS = "mlartifacts"
NEWEST, KIND = "flrml.newest", "flrml.kind"
# The runs page as a view that MLflow keeps in a tag of the experiment: trainings and sweeps by data set, the best
# first. Earlier runs are left out, and points of sweeps, which are on the page of their sweep.
SHOWN = f"tags.`{NEWEST}` != 'false' and tags.`{KIND}` != 'point'"
COLUMNS = ["metrics.`accuracy`", "metrics.`train_seconds`", "metrics.`peak_mb`", "tags.`method`"]
VIEW, SECTION = "flrml", "best methods"
CHARTS: dict[str, dict[str, Any]] = {
    "accuracy": {"type": "BAR", "runsCountToCompare": 20},
    "seconds": {
        "type": "SCATTER",
        "runsCountToCompare": 100,
        "xaxis": {"key": "train_seconds", "type": "METRIC"},
        "yaxis": {"key": "accuracy", "type": "METRIC"},
    },
    "objective": {"type": "LINE", "runsCountToCompare": 20, "xAxisKey": "step", "scaleType": "log"},
}
TAGS = {
    f"mlflow.sharedViewState.{VIEW}": json.dumps(
        {
            "selectedColumns": COLUMNS,
            "columnOrder": COLUMNS,
            "searchFilter": SHOWN,
            "orderByKey": "metrics.`accuracy`",
            "orderByAsc": False,
            "groupBy": {"aggregateFunction": "max", "groupByKeys": [{"mode": "tag", "groupByData": "dataset"}]},
            "useGroupedValuesInCharts": False,
            "runsHiddenMode": "SHOW_ALL",
            "isAccordionReordered": True,
            "compareRunSections": [{"uuid": SECTION, "name": "Accuracy, time and objective", "display": True}],
            "compareRunCharts": [
                {"uuid": name, "metricSectionId": SECTION, "metricKey": name, "selectedMetricKeys": [name], **chart}
                for name, chart in CHARTS.items()
            ],
        }
    ),
    # Shown in lists of experiments. Which page opens first is up to the address, see `Store.runs_page`.
    "mlflow.experimentKind": "custom_model_development",
}


class Store:
    """An experiment in a tracking store: a database with artifacts in a folder next to it, or a server.

    ``lock`` is the lock file of a server's only writer from this results folder; a database has its own.
    """

    client: MlflowClient
    experiment_id: str

    def __init__(self, uri: str, experiment: str, lock: str | os.PathLike):
        self.local = uri.startswith("sqlite")
        self.database = Path(uri.removeprefix("sqlite:///")).absolute()
        # MLflow keeps a connection for every address, which must not depend on the working folder.
        self.uri = f"sqlite:///{self.database}" if self.local else uri
        self.location = self.database.with_name(ARTIFACTS).as_uri() if self.local else None
        self.experiment = experiment
        if self.local:
            self.database.parent.mkdir(parents=True, exist_ok=True)
        self.lock = FileLock(f"{self.database}.lock" if self.local else lock, timeout=300)

    def open(self) -> None:
        """Open the store and the experiment, both created if missing; to be called under the lock."""
        if self.local and not (self.database.exists() and self.database.stat().st_size):
            with atomic_write(self.database) as temporary:  # so that a kill leaves no half-made one
                temporary.unlink(missing_ok=True)
                MlflowClient(f"sqlite:///{temporary}").search_experiments(max_results=1)
        try:
            self.client = MlflowClient(self.uri)
            found = self.client.get_experiment_by_name(self.experiment)
        except Exception as error:
            if not self.local:
                raise
            raise TrackingError(
                f"{self.database} cannot be opened as an MLflow database ({' '.join(str(error).split())[:200]}): "
                "move it away and run again; result files are kept, and their runs are logged to a new database"
            ) from error
        if found is not None and found.lifecycle_stage == "deleted":
            self.client.restore_experiment(found.experiment_id)
        if (
            found is not None
            and self.location not in (None, found.artifact_location)
            and Path(urlparse(found.artifact_location).path).name == ARTIFACTS  # else somebody chose the place
        ):
            self._set_aside(found.experiment_id)
            found = None
        if found is None:
            number = self.client.create_experiment(self.experiment, artifact_location=self.location)
            found = self.client.get_experiment(number)
        self.experiment_id = found.experiment_id
        for name, value in TAGS.items():
            if found.tags.get(name) != value:
                self.client.set_experiment_tag(found.experiment_id, name, value)

    def _set_aside(self, experiment_id: str) -> None:
        """Rename the experiment of a database that was moved or copied: its runs name artifacts at the old place.

        MLflow has no way to change these addresses; the results are logged again, with artifacts at the new place.
        """
        for run in self.client.search_runs([experiment_id], "attributes.status = 'RUNNING'"):
            self.client.set_terminated(run.info.run_id, "KILLED")
        self.client.rename_experiment(
            experiment_id, f"{self.experiment}, moved {time.strftime('%Y-%m-%d %H:%M:%S')}"
        )

    def runs_page(self, base: str) -> str:
        """Return the address of the newest runs in MLflow's user interface on a server."""
        # Without the type, MLflow opens its pages for language models, whatever the experiment's kind.
        options = f"workflowType=machine_learning&viewStateShareKey={VIEW}"
        return f"{base.rstrip('/')}/#/experiments/{self.experiment_id}/runs?{options}"

    def search(self, *terms: str) -> list[Any]:
        """Return the runs of the experiment that meet all terms."""
        most = SEARCH_MAX_RESULTS_THRESHOLD  # 50,000
        return list(self.client.search_runs([self.experiment_id], " and ".join(terms), max_results=most))

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
        """Delete the artifacts of a run or a model; in a folder, only those that lie in this project's own."""
        if self.local:
            folder, own = Path(url2pathname(urlparse(address).path)), self.database.with_name(ARTIFACTS)
            if own not in folder.parents or leads_through_link(folder, own):
                print(f"kept, not in {own}: artifacts of a deleted run, {folder}", flush=True)
                return
        get_artifact_repository(address, tracking_uri=self.uri).delete_artifacts()
