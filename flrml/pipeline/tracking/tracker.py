"""Log runs to MLflow from processes that may start all at once, and keep the history of every run.

A run has a key, such as ``flrml/digits/flrml/0``. Logging a new result of a key adds a run; the tag
``flrml.newest`` is ``true`` for the last one, ``false`` for those before it and ``pending`` while it has no result.
Logging the same result again changes nothing.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag
from mlflow.exceptions import MlflowException

from flrml.pipeline.tracking.database import Store
from flrml.pipeline.tracking.owners import is_alive, this_process

KEY, NEWEST = "flrml.key", "flrml.newest"
RESULT, STARTED = "flrml.result", "flrml.started"  # digest of what is logged, and the start of the training
LOGGED, OWNER, FOLDER = "flrml.logged", "flrml.owner", "flrml.folder"
# Metrics that MLflow takes in one request.
MOST_METRICS = 1000


@dataclass
class DatasetUse:
    """A part of a data set that a run has used."""

    name: str
    digest: str
    context: str
    source: str = ""
    rows: int = 0
    features: int = 0

    def entity(self) -> DatasetInput:
        """Return it as MLflow takes it."""
        spec = {"type": "tensor", "tensor-spec": {"dtype": "float64", "shape": [-1, self.features]}}
        labels = {"type": "tensor", "tensor-spec": {"dtype": "int64", "shape": [-1]}}
        schema = {"mlflow_tensorspec": {"features": json.dumps([spec]), "targets": json.dumps([labels])}}
        dataset = Dataset(
            self.name,
            self.digest,
            "local",
            json.dumps({"uri": self.source or self.name}),
            schema=json.dumps(schema) if self.features else None,
            profile=json.dumps({"num_rows": self.rows, "num_features": self.features}) if self.rows else None,
        )
        return DatasetInput(dataset, [InputTag("mlflow.data.context", self.context)])


@dataclass
class RunRecord:
    """A finished run, ready to be logged."""

    key: str
    name: str
    parameters: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    series: dict[str, dict[int, float]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    note: str = ""
    datasets: list[DatasetUse] = field(default_factory=list)
    failure: str | None = None
    started: float = 0.0
    seconds: float = 0.0
    children: list["RunRecord"] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """Return a digest of everything that is logged."""
        text = json.dumps(asdict(self), sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Tracker:
    """An experiment in a tracking store, created if it is missing.

    Parameters
    ----------
    uri : str
        ``sqlite:///file.db`` or the address of a tracking server.
    experiment : str
        Name of the experiment.
    artifacts : path, optional
        Folder for artifacts of a database store, by default ``mlartifacts`` beside the database. A server has its
        own.
    """

    def __init__(self, uri: str, experiment: str, artifacts: str | os.PathLike | None = None):
        self.store = Store(uri, artifacts)
        self.client, self.experiment_id = self.store.open(experiment)
        self.settle()

    @property
    def uri(self) -> str:
        """Return the address of the store."""
        return self.store.uri

    def log(
        self, record: RunRecord, parent: str | None = None, *, complete: Callable[[str], None] | None = None
    ) -> str:
        """Log a run and its children as the newest of their keys; return its id.

        A result that is logged already keeps its run. A run that follows the training of this result is completed.

        Parameters
        ----------
        record : RunRecord
            The run.
        parent : str, optional
            Id of the run that it belongs to.
        complete : callable, optional
            Called with the run's id before the run ends, to add what the record does not hold, such as a model.
        """
        with self.store.locked():
            found = self.runs(record.key, every=True)
            run_id = self._logged(record, found)
            if run_id is None:
                run_id = self._write(record, found)
            elif complete is not None:
                complete = None  # done before the run ended
        if complete is not None:
            complete(run_id)
        for child in record.children:
            self.log(child, run_id)
        if parent is not None:
            self.client.set_tag(run_id, "mlflow.parentRunId", parent)
        with self.store.locked():
            self._end(record, run_id)
            self._mark_newest(record.key, run_id)
        return run_id

    def start(self, key: str, name: str, started: float, tags: dict[str, str]) -> str:
        """Start a run that follows a training; return its id. :meth:`log` completes it when there is a result."""
        with self.store.locked():
            for run in self.runs(key, every=True):
                if run.data.tags.get(STARTED) == repr(started):
                    return run.info.run_id
            live = {KEY: key, NEWEST: "pending", STARTED: repr(started), OWNER: this_process(), FOLDER: os.getcwd()}
            run = self.client.create_run(
                self.experiment_id, start_time=int(1000 * started), tags=tags | live, run_name=name
            )
            return run.info.run_id

    def log_live(self, run_id: str, metrics: Iterable[tuple[str, float, int, float]]) -> None:
        """Log name, value, step and time of metrics to a run that has no result yet."""
        with self.store.locked():
            if not self._has_result(run_id):
                entities = [Metric(name, value, int(1000 * when), step) for name, value, step, when in metrics]
                self.client.log_batch(run_id, metrics=entities[-MOST_METRICS:])

    def end_live(self, run_id: str, state: str, reason: str) -> None:
        """End a run that follows a training, unless its result has been logged.

        Parameters
        ----------
        run_id : str
            The run.
        state : str
            The state that its training has reached. One that is ``trained`` or ``evaluated`` waits for its result.
        reason : str
            The reason of a failure.
        """
        with self.store.locked():
            if self._has_result(run_id):
                return
            if state in ("trained", "evaluated"):
                self.client.set_terminated(run_id, "FINISHED")
            elif state == "failed":
                self.end_unfinished(run_id, reason or "its job failed", "FAILED")
            else:
                self.end_unfinished(run_id, "its training was interrupted")

    def _has_result(self, run_id: str) -> bool:
        return RESULT in self.client.get_run(run_id).data.tags

    def _logged(self, record: RunRecord, found: list[Any]) -> str | None:
        """Return the id of the ended run that holds this very result."""
        for run in found:
            if run.data.tags.get(RESULT) == record.digest and run.info.status != "RUNNING":
                return run.info.run_id
        return None

    def _write(self, record: RunRecord, found: list[Any]) -> str:
        """Write parameters, metrics and data sets to the run that follows this training, or to a new one."""
        start = int(1000 * record.started)
        tags = record.tags | {KEY: record.key, NEWEST: "false", STARTED: repr(record.started)}
        tags |= {OWNER: this_process(), "mlflow.runName": record.name}
        if record.note:
            tags["mlflow.note.content"] = record.note
        if record.failure is not None:
            tags["failure"] = record.failure
        run = next((run for run in found if _waits_for(run, record)), None)
        if run is None:
            run = self.client.create_run(self.experiment_id, start_time=start or None, tags=tags)
        run_id = run.info.run_id
        self.client.log_batch(
            run_id,
            params=[Param(name, str(value)[:6000]) for name, value in record.parameters.items()],
            tags=[RunTag(name, value) for name, value in tags.items()],
        )
        metrics = [Metric(name, float(value), start, 0) for name, value in record.metrics.items()]
        for name, values in record.series.items():
            known = self._logged_steps(run_id, name) if name in run.data.metrics else set()
            metrics += [
                Metric(name, float(value), start, step) for step, value in values.items() if step not in known
            ]
        for first in range(0, len(metrics), MOST_METRICS):
            self.client.log_batch(run_id, metrics=metrics[first : first + MOST_METRICS])
        if record.datasets:
            self.client.log_inputs(run_id, [used.entity() for used in record.datasets])
        return run_id

    def _logged_steps(self, run_id: str, name: str) -> set[int]:
        """Return the steps of a metric that a run has logged while it was live."""
        return {metric.step for metric in self.client.get_metric_history(run_id, name)}

    def _end(self, record: RunRecord, run_id: str) -> None:
        """End a run; from here on it holds its result."""
        self.client.set_tag(run_id, RESULT, record.digest)
        start = int(1000 * record.started)
        end = start + int(1000 * record.seconds) if start else None
        self.client.set_terminated(run_id, "FAILED" if record.failure else "FINISHED", end_time=end)

    def _mark_newest(self, key: str, run_id: str) -> None:
        """Mark one run of a key as the newest.

        The new mark is set before the old ones are taken away: a crash in between leaves two, of which
        :meth:`settle` keeps the later one.
        """
        tags = [RunTag(NEWEST, "true"), RunTag(LOGGED, str(time.time_ns()))]
        self.client.log_batch(run_id, tags=tags)
        for run in self.runs(key):
            if run.info.run_id != run_id:
                self.client.set_tag(run.info.run_id, NEWEST, "false")

    def settle(self, folder: str | None = None) -> None:
        """Repair what killed processes left: two newest runs of a key, and runs that nothing will end.

        Parameters
        ----------
        folder : str, optional
            A results folder that no other process is at work in: its runs are ended whatever host they ran on.
        """
        with self.store.locked():
            newest: dict[str, Any] = {}
            for run in sorted(self.runs(), key=lambda run: int(run.data.tags.get(LOGGED, 0))):
                before = newest.get(run.data.tags[KEY])
                if before is not None:
                    self.client.set_tag(before.info.run_id, NEWEST, "false")
                newest[run.data.tags[KEY]] = run
            for run in self._search("attributes.status = 'RUNNING'"):
                tags = run.data.tags
                elsewhere = folder is None or tags.get(FOLDER) != folder
                if KEY in tags and not is_alive(tags.get(OWNER), elsewhere=elsewhere):
                    self.end_unfinished(run.info.run_id, "its process was killed")

    def end_unfinished(self, run_id: str, reason: str, status: str = "KILLED") -> None:
        """End a run that has no result."""
        self.client.log_batch(run_id, tags=[RunTag(NEWEST, "false"), RunTag("failure", reason)])
        self.client.set_terminated(run_id, status)

    def runs(self, key: str | None = None, *, every: bool = False) -> list[Any]:
        """Return the newest run of each key, or of the given one.

        Parameters
        ----------
        key : str, optional
            Only runs of this key.
        every : bool, default False
            Return earlier and unfinished runs too.
        """
        terms = [f"tags.`{KEY}` = '{key}'"] if key is not None else []
        terms += [] if every else [f"tags.`{NEWEST}` = 'true'"]
        return self._search(" and ".join(terms))

    def _search(self, chosen: str) -> list[Any]:
        found: list[Any] = []
        token = None
        while True:
            page = self.client.search_runs([self.experiment_id], chosen, max_results=1000, page_token=token)
            found += page
            token = page.token
            if not token:
                return found

    def retire_all_but(self, keys: Iterable[str], prefix: str) -> None:
        """Take the mark from newest runs whose key starts with the prefix and is not among the given ones."""
        wanted = set(keys)
        for run in self.runs():
            key = run.data.tags[KEY]
            if key.startswith(prefix) and key not in wanted:
                self.client.set_tag(run.info.run_id, NEWEST, "false")

    def prune(self) -> int:
        """Delete the runs that are neither the newest of their key nor running, with their models and artifacts.

        Returns
        -------
        int
            Number of runs deleted.
        """
        deleted = 0
        with self.store.locked():
            for run in self._search(f"tags.`{NEWEST}` = 'false'"):
                if run.info.status == "RUNNING":
                    continue
                for model in self.models(run.info.run_id):
                    self.delete_model(model)
                self.store.delete_artifacts(run.info.artifact_uri)
                with contextlib.suppress(MlflowException):  # another process was faster
                    self.client.delete_run(run.info.run_id)
                    deleted += 1
        return deleted

    def delete_model(self, model: Any) -> None:
        """Delete a logged model and its artifacts."""
        self.store.delete_artifacts(model.artifact_location)
        self.client.delete_logged_model(model.model_id)

    def models(self, run_id: str) -> list[Any]:
        """Return the logged models of a run."""
        return list(self.client.search_logged_models([self.experiment_id], f"source_run_id = '{run_id}'"))


def _waits_for(run: Any, record: RunRecord) -> bool:
    """Tell whether a run follows the training of this record, or was left by a process that did not end it."""
    tags, logged = run.data.tags, run.data.params
    if RESULT in tags or tags.get(STARTED) != repr(record.started):
        return False
    if any(logged.get(name, str(value)) != str(value) for name, value in record.parameters.items()):
        return False  # a parameter cannot be logged with another value
    return tags.get(NEWEST) == "pending" or not is_alive(tags.get(OWNER))
