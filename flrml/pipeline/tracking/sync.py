"""Make MLflow agree with a results folder.

The files are the truth: a :class:`Sync` looks at them, finds or creates the run of each, writes what is missing and
ends what has ended. It may be called at any time, any number of times; what a killed call leaves, the next one puts
right. A run has a key, such as ``flrml/digits/flrml/0``. The tag ``flrml.newest`` is ``true`` for the run with its
result in the folder, ``pending`` for a training without a result yet and ``false`` for earlier runs. Runs that
another results folder has logged are left alone.
"""

import json
import os
import platform
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import yaml
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag

from flrml.exceptions import DamagedFileError, DatasetError
from flrml.files import read_json, write_json
from flrml.pipeline.naming import METRICS, MODEL, POINT, PREDICTIONS
from flrml.pipeline.stages import progress
from flrml.pipeline.tracking.experiment import EXPERIMENT, LOGGED, tracking_uri
from flrml.pipeline.tracking.mlflow_store import Store
from flrml.pipeline.tracking.models import log_model, log_predictions
from flrml.pipeline.tracking.records import (
    RunRecord,
    identify,
    of_experiment,
    of_sweep,
    read_record,
)

KEY, NEWEST = "flrml.key", "flrml.newest"
TRAINING, DIGEST = "flrml.training", "flrml.digest"  # id of the training; of what is logged, written last
RESULTS, PLACE = "flrml.results", "flrml.place"  # id of the results folder, and where it is
PARENT = "mlflow.parentRunId"
MOST_METRICS = 1000  # of one request
SUFFIXES = {"figures": (".png", ".pdf", ".csv"), "tables": (".md", ".csv")}
INTERRUPTED = "its training was interrupted"


@dataclass
class Files:
    """What the folder of a run says."""

    stamps: list[tuple[int, int] | None]
    live: progress.Seen | None
    record: RunRecord | None


class Sync:
    """The runs of one results folder.

    Parameters
    ----------
    results : path
        A results folder that ``experiment.json`` describes.
    """

    def __init__(self, results: str | os.PathLike):
        self.results = Path(results)
        self.about = read_json(self.results / EXPERIMENT)
        name, uri = self.about["experiment"], tracking_uri(self.about["tracking_uri"])
        self.store = Store(uri, name, self.results / "mlflow.lock")
        self.files: dict[str, Files] = {}
        self.steps: dict[tuple[str, str], set[int]] = {}
        self.opened = False

    def __call__(self, *, final: bool = True) -> None:
        """Log what has changed.

        Parameters
        ----------
        final : bool, default True
            Whether no job is at work: only then sweeps and the experiment are logged, which have many files.
        """
        changed = [folder for folder in self.about["runs"] if self._look(folder)]
        if self.opened and not changed and not final:
            return
        try:
            with self.store.lock:
                if not self.opened:
                    self.store.open()
                self._log(changed, final=final, everything=final or not self.opened)
                self.opened = True
        except BaseException:
            self.files.clear()  # all is compared again the next time
            self.opened = False
            raise

    def runs(self, *terms: str) -> list[Any]:
        """Return the runs that this folder has logged and that meet all terms."""
        return self.store.search(f"tags.`{RESULTS}` = '{self.about['id']}'", *terms)

    def key(self, key: str) -> str:
        """Return a key of the experiment; its own run has an empty one."""
        return f"{self.about['experiment']}/{key}".rstrip("/")

    def _look(self, folder: str) -> bool:
        """Read the files of a run if they have changed; return whether they have."""
        place, before = self.results / folder, self.files.get(folder)
        stamps = [_stamp(place / name) for name in (progress.FILE, METRICS, POINT)]
        if before and before.stamps == stamps and not (before.live and before.live.alive):
            return False
        live = progress.read_progress(place)
        if before and before.stamps == stamps and before.live == live:
            return False
        record = None
        with suppress(DamagedFileError, FileNotFoundError):  # it is made again
            record = read_record(self.results, folder)
        self.files[folder] = Files(stamps, live, record)
        return True

    def _log(self, changed: list[str], *, final: bool, everything: bool) -> None:
        found: dict[str, list[Any]] = {}
        if everything:
            for run in self.runs() or self._take_over():
                found.setdefault(run.data.tags[KEY], []).append(run)
        logged = {}
        for folder in self.about["runs"] if everything else changed:
            key = self.key(identify(folder)[0])
            runs = found.pop(key, []) if everything else self.runs(f"tags.`{KEY}` = '{key}'")
            logged[folder] = self._log_folder(folder, runs, final=final)
        if final:
            parents = self._log_parents({folder: run for folder, run in logged.items() if run}, found)
            count = sum(run is not None for run in (*logged.values(), *parents))
            about = {"experiment": self.about["experiment"], "experiment_id": self.store.experiment_id}
            write_json(self.results / LOGGED, about | {"runs": count})
        parent_keys = {self.key(identify(parent)[0]) for parent in self._sweeps()} | {self.key("")}
        for key, runs in found.items():
            for run in runs:
                if final or key not in parent_keys:
                    self._retire(run)

    def _take_over(self) -> list[Any]:
        """Return the runs of a results folder that was at this place before it was deleted; they are ours now."""
        runs = self.store.search(f"tags.`{PLACE}` = '{self._place()}'")
        for run in runs:
            self.store.client.set_tag(run.info.run_id, RESULTS, self.about["id"])
        return runs

    def _place(self) -> str:
        return f"{socket.gethostname()}:{self.results.resolve()}".replace("'", "_")

    def _log_folder(self, folder: str, found: list[Any], *, final: bool) -> Any:
        """Log result and training of a folder, and end the other runs of its key; return the result's run."""
        files, settled = self.files[folder], set()
        result = None
        if files.record is not None:
            with suppress(FileNotFoundError, DatasetError, DamagedFileError):  # files that are being made again
                result = self._complete(files.record, found, lambda run_id: self._log_model(folder, run_id))
                settled.add(result.info.run_id)
        if files.live is not None and (files.record is None or files.live.run["training"] != files.record.training):
            settled.add(self._log_live(folder, files.live, found, final=final))
        for run in found:
            if run.info.run_id not in settled:
                self._retire(run)
        return result

    def _log_live(self, folder: str, live: progress.Seen, found: list[Any], *, final: bool) -> str | None:
        """Log a training without a result; return the id of its run."""
        alive = not final if live.alive is None and live.state is None else live.alive
        training = live.run["training"]
        run = next((run for run in found if run.data.tags.get(TRAINING) == training), None)
        if run is not None and DIGEST in run.data.tags:
            return None  # its result was logged and is gone
        if run is None:
            if not alive and live.state is None:
                return None
            tags = {name: live.run[name] for name in ("dataset", "method")}
            run = self._create(*identify(folder), training, live.run["started"], tags)
        self._log_metrics(run, live.metrics)
        if live.state is None and not alive:
            self._set(run, "KILLED", "false", INTERRUPTED)
        elif live.state == "failed":
            self._set(run, "FAILED", "pending", live.reason or "its job failed")
        else:
            self._set(run, "RUNNING" if alive else "FINISHED", "pending")
        return run.info.run_id

    def _complete(self, record: RunRecord, found: list[Any], attach: Callable[[str], None]) -> Any:
        """Return the run that holds a result, written if there is none."""
        digest = record.digest
        run = next((run for run in found if run.data.tags.get(DIGEST) == digest), None)
        if run is None:
            training = record.training or digest
            run = next((run for run in found if _waits_for(run, training, record)), None)
            if run is None:
                run = self._create(record.key, record.name, training, record.started, record.tags)
            self._write(run, record)
            if record.failure is None:
                attach(run.info.run_id)
            self.store.client.set_tag(run.info.run_id, DIGEST, digest)
        end = int(1000 * (record.started + record.seconds)) if record.started else None
        self._set(run, "FAILED" if record.failure else "FINISHED", "true", record.failure, end)
        return run

    def _create(self, key: str, name: str, training: str, started: float, tags: dict[str, str]) -> Any:
        own = {KEY: self.key(key), TRAINING: training, NEWEST: "pending"}
        own |= {RESULTS: self.about["id"], PLACE: self._place()}
        return self.store.client.create_run(
            self.store.experiment_id, int(1000 * started) or None, tags=tags | own, run_name=name
        )

    def _write(self, run: Any, record: RunRecord) -> None:
        """Write parameters, tags, metrics and data sets."""
        client, run_id = self.store.client, run.info.run_id
        tags = record.tags | {"mlflow.note.content": record.note}
        params = [Param(name, str(value)[:6000]) for name, value in record.parameters.items()]
        client.log_batch(run_id, params=params, tags=[RunTag(name, value[:5000]) for name, value in tags.items()])
        metrics = [(name, float(value), 0, record.started) for name, value in record.metrics.items()]
        for name, values in record.series.items():
            metrics += [(name, float(value), step, record.started) for step, value in values.items()]
        self._log_metrics(run, metrics)
        if record.datasets:
            client.log_inputs(run_id, [_dataset(used, context) for context, used in record.datasets.items()])

    def _log_metrics(self, run: Any, metrics: Iterable[tuple[str, float, int, float]]) -> None:
        """Log name, value, step and time of metrics; a step that is logged already is left out."""
        new, run_id = [], run.info.run_id
        for name, value, step, when in metrics:
            if (run_id, name) not in self.steps:
                logged = self.store.client.get_metric_history(run_id, name) if name in run.data.metrics else []
                self.steps[run_id, name] = {metric.step for metric in logged}
            if step not in self.steps[run_id, name]:
                new.append(Metric(name, value, int(1000 * when), step))
        for first in range(0, len(new), MOST_METRICS):
            self.store.client.log_batch(run_id, metrics=new[first : first + MOST_METRICS])
        for metric in new:
            self.steps[run_id, metric.key].add(metric.step)

    def _set(self, run: Any, status: str, newest: str, failure: str | None = None, end: int | None = None) -> None:
        """Give a run its status and its mark, if they are others."""
        client, run_id, tags = self.store.client, run.info.run_id, run.data.tags
        wanted = {NEWEST: newest} | ({"failure": failure[:5000]} if failure else {})
        new = [RunTag(name, value) for name, value in wanted.items() if tags.get(name) != value]
        if new:
            client.log_batch(run_id, tags=new)
        if failure is None and "failure" in tags:
            client.delete_tag(run_id, "failure")
        if run.info.status != status or end not in (None, run.info.end_time):
            client.update_run(run_id, status) if status == "RUNNING" else client.set_terminated(run_id, status, end)

    def _retire(self, run: Any) -> None:
        """Take the mark from a run without files, and end it."""
        status, failure = run.info.status, run.data.tags.get("failure")
        if DIGEST in run.data.tags and status == "RUNNING":
            status = "FAILED" if failure else "FINISHED"
        elif DIGEST not in run.data.tags and status not in ("FAILED", "KILLED"):
            status, failure = "KILLED", failure or INTERRUPTED
        self._set(run, status, "false", failure)

    def _log_model(self, folder: str, run_id: str) -> None:
        record = self.files[folder].record
        if record is not None and (self.results / folder / METRICS).exists():
            data = self.results / "data" / record.tags["dataset"]
            n_neighbors = self.about["config"]["n_neighbors"]
            log_model(self.store, run_id, record, self.results / folder / MODEL, data, n_neighbors=n_neighbors)
            log_predictions(self.store, run_id, self.results / folder / PREDICTIONS)

    def _sweeps(self) -> dict[str, list[str]]:
        """Return the folders of the points of each sweep."""
        sweeps: dict[str, list[str]] = {}
        for folder in self.about["runs"]:
            if folder.startswith("sweeps"):
                sweeps.setdefault(str(Path(folder).parent), []).append(folder)
        return sweeps

    def _log_parents(self, logged: dict[str, Any], found: dict[str, list[Any]]) -> list[Any]:
        """Log complete sweeps and the complete experiment, and make the runs their children; return their runs."""
        parents, below = [], [run for folder, run in logged.items() if folder.startswith("runs")]
        for sweep, folders in self._sweeps().items():
            points = [self.files[folder].record for folder in folders if folder in logged]
            record = of_sweep(points, sweep) if len(points) == len(folders) else None  # type: ignore[arg-type]
            key, children = self.key(identify(sweep)[0]), [logged[folder] for folder in folders if folder in logged]
            parents.append(self._log_parent(record, found.pop(key, []), children))
        runs = [folder for folder in self.about["runs"] if folder.startswith("runs")]
        stems = [self.results / path for path in self.about["drawn"]]
        record = None
        if all(path.exists() for path in stems) and all(folder in logged for folder in runs):
            files = [path.with_suffix(suffix) for path in stems for suffix in SUFFIXES[path.parent.name]]
            files = [path for path in files if path.exists()]
            records = [self.files[folder].record for folder in runs]
            record = of_experiment(self.about["config"], records, files)  # type: ignore[arg-type]
        below += [parent for parent in parents if parent is not None]
        own = found.pop(self.key(""), [])
        return [*parents, self._log_parent(record, own, below, lambda run_id: self._log_files(run_id, files))]

    def _log_parent(
        self,
        record: RunRecord | None,
        found: list[Any],
        children: list[Any],
        attach: Callable[[str], None] = lambda run_id: None,
    ) -> Any:
        """Log a run that has others below it. The last complete one stays until all its files are there again."""
        if record is None:
            run = next((run for run in found if run.data.tags[NEWEST] == "true"), None)
        else:
            run = self._complete(record, found, attach)
        for other in found:
            if run is None or other.info.run_id != run.info.run_id:
                self._retire(other)
        for child in children:
            if run is not None and child.data.tags.get(PARENT) != run.info.run_id:
                self.store.client.set_tag(child.info.run_id, PARENT, run.info.run_id)
        return run

    def _log_files(self, run_id: str, files: list[Path]) -> None:
        """Log figures, tables, the configuration and the environment."""
        client = self.store.client
        for path in files:
            client.log_artifact(run_id, str(path), path.parent.name)
        config = yaml.safe_dump(self.about["config"], sort_keys=False, allow_unicode=True)
        packages = sorted({f"{found.name}=={found.version}" for found in distributions()}, key=str.lower)
        head = f"# {platform.platform()}, Python {platform.python_version()}"
        client.log_text(run_id, config, "config.yaml")
        client.log_text(run_id, "\n".join([head, *packages]) + "\n", "environment.txt")


def _stamp(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        found = path.stat()
        return found.st_mtime_ns, found.st_size
    return None


def _waits_for(run: Any, training: str, record: RunRecord) -> bool:
    """Return whether a run belongs to a training and has no result yet; a parameter cannot be logged anew."""
    logged, tags = run.data.params, run.data.tags
    return (
        DIGEST not in tags
        and tags.get(TRAINING) == training
        and all(logged.get(name, str(value)) == str(value) for name, value in record.parameters.items())
    )


def _dataset(used: dict[str, Any], context: str) -> DatasetInput:
    """Return a part of a data set as MLflow takes it."""
    spec = {"type": "tensor", "tensor-spec": {"dtype": "float64", "shape": [-1, used["features"]]}}
    labels = {"type": "tensor", "tensor-spec": {"dtype": "int64", "shape": [-1]}}
    schema = {"mlflow_tensorspec": {"features": json.dumps([spec]), "targets": json.dumps([labels])}}
    profile = {"num_rows": used["rows"], "num_features": used["features"]}
    source = json.dumps({"uri": used["source"]})
    dataset = Dataset(used["name"], used["digest"], "local", source, json.dumps(schema), json.dumps(profile))
    return DatasetInput(dataset, [InputTag("mlflow.data.context", context)])
