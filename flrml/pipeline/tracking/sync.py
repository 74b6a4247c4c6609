"""Make MLflow agree with a results folder.

The files are the truth: a :class:`Sync` looks at them, finds or creates the run of each, writes what is missing and
ends what has ended. It may be called at any time, any number of times; what a killed call leaves, the next one puts
right. A run has a key, such as ``flrml/digits/flrml/0``, and a tag ``flrml.newest``, which is ``false`` for runs of
earlier results. Runs that another results folder has logged are left alone.
"""

import json
import os
import platform
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import yaml
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag
from mlflow.tracking.context.registry import resolve_tags

from flrml.exceptions import DamagedFileError, DatasetError
from flrml.files import read_json
from flrml.pipeline.naming import METRICS, MODEL, POINT, PREDICTIONS
from flrml.pipeline.stages import progress
from flrml.pipeline.tracking.experiment import EXPERIMENT, tracking_uri
from flrml.pipeline.tracking.mlflow_store import KIND, NEWEST, Store
from flrml.pipeline.tracking.models import log_model, log_predictions
from flrml.pipeline.tracking.records import RunRecord, identify, of_experiment, of_sweep, read_record

KEY = "flrml.key"
TRAINING, DIGEST = "flrml.training", "flrml.digest"  # id of the training; of what is logged, written last
RESULTS = "flrml.results"  # id of the results folder
PARENT, NOTE = "mlflow.parentRunId", "mlflow.note.content"
ADDRESS = "http://127.0.0.1:5000"  # of `make ui`
MOST_METRICS = 1000  # of one request
SUFFIXES = {"figures": (".png", ".pdf", ".csv"), "tables": (".md", ".csv")}


class Sync:
    """The runs of one results folder, which ``experiment.json`` describes."""

    def __init__(self, results: str | os.PathLike):
        self.results = Path(results)
        self.about = read_json(self.results / EXPERIMENT)
        name, uri = self.about["experiment"], tracking_uri(self.about["tracking_uri"])
        self.store = Store(uri, name, self.results / "mlflow.lock")
        self.seen: dict[str, Any] = {}  # how the files of each folder looked when they were logged
        self.steps: dict[tuple[str, str], set[int]] = {}  # that are logged, by run and metric

    def __call__(self, *, final: bool = True) -> None:
        """Log what has changed; all is compared, and sweeps and the experiment are logged, if no job is at work."""
        looks = {folder: self._look(folder) for folder in self.about["runs"]}
        changed = [folder for folder, look in looks.items() if final or self.seen.get(folder, ()) != look]
        if not changed and not final:
            return
        try:
            with self.store.lock:
                self.store.open()
                self._log(changed, final=final)
        except BaseException:
            self.seen.clear()
            raise
        self.seen = looks

    def runs(self, *terms: str) -> list[Any]:
        """Return the runs that this folder has logged and that meet all terms."""
        return self.store.search(f"tags.`{RESULTS}` = '{self.about['id']}'", *terms)

    def key(self, key: str) -> str:
        """Return a key of the experiment; its own run has an empty one."""
        return f"{self.about['experiment']}/{key}".rstrip("/")

    def summary(self) -> str:
        """Return a line with the number of runs and the address that shows them."""
        count = len(self.runs(f"tags.`{NEWEST}` = 'true'"))
        if not count:
            return "no run in MLflow yet"
        page = self.store.runs_page(ADDRESS if self.store.local else self.store.uri)
        return f"{count} runs in MLflow: open them with `make ui`, {page}"

    def _look(self, folder: str) -> Any:
        """Return sizes and times of the files of a run, and whether its training lives; nothing without files."""
        place = self.results / folder
        stamps = [_stamp(place / name) for name in (progress.FILE, METRICS, POINT)]
        return (*stamps, progress.is_alive(place)) if any(stamps) else ()

    def _log(self, folders: list[str], *, final: bool) -> None:
        found = defaultdict(list)
        for run in self.runs() if final else []:
            found[run.data.tags[KEY]].append(run)
        logged = {}
        for folder in folders:
            key = self.key(identify(folder)[0])
            runs = found.pop(key, []) if final else self.runs(f"tags.`{KEY}` = '{key}'")
            logged[folder] = self._log_folder(folder, runs, final=final)
        if final:
            self._log_parents(logged, found)
        for runs in found.values():  # which nothing asks for any more
            self._retire(runs)

    def _log_folder(self, folder: str, found: list[Any], *, final: bool) -> tuple[RunRecord | None, Any]:
        """Log result and training of a folder, retire the other runs of its key; return the result and its run."""
        record, run, kept = None, None, []
        with suppress(FileNotFoundError, DatasetError, DamagedFileError):  # files that are being regenerated
            if (record := read_record(self.results, folder)) is not None:
                run = self._log_result(record, found, lambda run_id: self._log_model(folder, record, run_id))
                kept.append(run)
        live = progress.read_progress(self.results / folder)
        if live is not None and (record is None or live.run["training"] != record.training):
            kept.append(self._log_live(folder, live, found, final=final))
        self._retire(found, but=kept)
        return record, run

    def _log_live(self, folder: str, live: progress.Seen, found: list[Any], *, final: bool) -> Any:
        """Return the run of a training without a result, brought up to date; None if there is nothing to show."""
        alive = not final if live.alive is None and live.state is None else live.alive
        training = live.run["training"]
        run = next((run for run in found if run.data.tags[TRAINING] == training), None)
        if run is None:
            if not alive and live.state is None:
                return None
            tags = {name: live.run[name] for name in ("dataset", "method")}
            run = self._create(RunRecord(*identify(folder), training, started=live.run["started"], tags=tags))
        elif DIGEST in run.data.tags:
            return None  # its result was logged and is gone
        self._log_metrics(run, live.metrics)
        if live.reason:
            self._tag(run, failure=live.reason)
        ended = {"trained": "FINISHED", "failed": "FAILED", None: "KILLED"}[live.state]
        self._set(run, "RUNNING" if alive else ended, newest=bool(alive or live.state))
        return run

    def _log_result(self, record: RunRecord, found: list[Any], attach: Callable[[str], None]) -> Any:
        """Return the run that holds a result, written if there is none."""
        digest, status = record.digest, "FAILED" if record.failure else "FINISHED"
        run = next((run for run in found if run.data.tags.get(DIGEST) == digest), None)
        if run is not None:
            self._set(run, status, newest=True)
            return run
        training = record.training or digest
        run = next((run for run in found if _waits_for(run, training, record)), None)
        if run is None:
            run = self._create(replace(record, training=training))
        self._write(run, record)
        if record.failure is None:
            attach(run.info.run_id)
        self._set(run, status, newest=True, end=int(1000 * (record.started + record.seconds)) or None)
        self._tag(run, **{DIGEST: digest})
        return run

    def _create(self, record: RunRecord) -> Any:
        tags = {KEY: self.key(record.key), TRAINING: record.training, NEWEST: "true", RESULTS: self.about["id"]}
        tags |= {KIND: record.kind, "mlflow.user": resolve_tags()["mlflow.user"], **record.tags}
        started = int(1000 * record.started) or None
        return self.store.client.create_run(self.store.experiment_id, started, tags=tags, run_name=record.name)

    def _write(self, run: Any, record: RunRecord) -> None:
        """Write parameters, tags, metrics and data sets."""
        params = [Param(name, str(value)[:6000]) for name, value in record.parameters.items()]
        self.store.client.log_batch(run.info.run_id, params=params)
        self._tag(run, **record.tags, **{NOTE: record.note})
        metrics = [(name, float(value), 0, record.started) for name, value in record.metrics.items()]
        for name, values in record.series.items():
            metrics += [(name, float(value), step, record.started) for step, value in values.items()]
        self._log_metrics(run, metrics)
        if record.datasets:
            inputs = [_dataset(used, context) for context, used in record.datasets.items()]
            self.store.client.log_inputs(run.info.run_id, inputs)

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

    def _tag(self, run: Any, **tags: str) -> None:
        """Set those tags of a run that it does not have."""
        new = [
            RunTag(name, value[:5000]) for name, value in tags.items() if run.data.tags.get(name) != value[:5000]
        ]
        if new:
            self.store.client.log_batch(run.info.run_id, tags=new)

    def _set(self, run: Any, status: str, *, newest: bool, end: int | None = None) -> None:
        """Give a run its status and its mark, if they are others."""
        self._tag(run, **{NEWEST: str(newest).lower()})
        if status == "RUNNING" != run.info.status:
            self.store.client.update_run(run.info.run_id, status)
        elif run.info.status != status or end not in (None, run.info.end_time):
            self.store.client.set_terminated(run.info.run_id, status, end)

    def _retire(self, runs: Iterable[Any], but: Iterable[Any] = ()) -> None:
        """Take the mark from runs without files; one without a result was killed, unless it had failed."""
        kept = {run.info.run_id for run in but if run is not None}
        for run in runs:
            if run.info.run_id not in kept:
                ended = DIGEST in run.data.tags or run.info.status == "FAILED"
                self._set(run, run.info.status if ended else "KILLED", newest=False)

    def _log_model(self, folder: str, record: RunRecord, run_id: str) -> None:
        if folder.startswith("runs"):
            data = self.results / "data" / record.tags["dataset"]
            n_neighbors = self.about["config"]["n_neighbors"]
            log_model(self.store, run_id, record, self.results / folder / MODEL, data, n_neighbors=n_neighbors)
            log_predictions(self.store, run_id, self.results / folder / PREDICTIONS)

    def _log_parents(self, logged: dict[str, tuple[RunRecord | None, Any]], found: dict[str, list[Any]]) -> None:
        """Log complete sweeps and the complete experiment, and make the runs their children."""
        groups: dict[str, list[Any]] = defaultdict(list)
        for folder, pair in logged.items():
            groups[str(Path(folder).parent) if folder.startswith("sweeps") else ""].append(pair)
        trained = groups.pop("", [])
        children = [run for _, run in trained]
        for sweep, points in groups.items():
            record = of_sweep([record for record, _ in points], sweep) if all(run for _, run in points) else None
            runs = found.pop(self.key(identify(sweep)[0]), [])
            children.append(self._log_parent(record, runs, [run for _, run in points]))
        record, files = None, []
        stems = [self.results / path for path in self.about["drawn"]]
        if all(path.exists() for path in stems) and all(run for _, run in trained):
            files = [path.with_suffix(suffix) for path in stems for suffix in SUFFIXES[path.parent.name]]
            files = [path for path in files if path.exists()]
            record = of_experiment(self.about["config"], [record for record, _ in trained], files)
        runs, note = found.pop(self.key(""), []), record.note if record else ""
        self._log_parent(record, runs, children, lambda run_id: self._log_files(run_id, note, files))

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
            run = self._log_result(record, found, attach)
        self._retire(found, but=[run])
        for child in children:
            if run is not None and child is not None:
                self._tag(child, **{PARENT: run.info.run_id})
        return run

    def _log_files(self, run_id: str, note: str, files: list[Path]) -> None:
        """Log figures, tables, the configuration and the environment, and describe the experiment."""
        client = self.store.client
        client.set_experiment_tag(self.store.experiment_id, NOTE, note)
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
    """Return whether a run belongs to a training and has no result yet, nor a part of another one."""
    logged, tags = run.data.metrics, run.data.tags
    return (
        DIGEST not in tags
        and tags[TRAINING] == training
        and all(logged.get(name, value) == value for name, value in record.metrics.items())
    )


def _dataset(used: dict[str, Any], context: str) -> DatasetInput:
    """Return a part of a data set as MLflow takes it."""
    profile = json.dumps({"num_rows": used["rows"], "num_features": used["features"]})
    source = json.dumps({"uri": used["source"]})
    dataset = Dataset(used["name"], used["digest"], "local", source, profile=profile)
    return DatasetInput(dataset, [InputTag("mlflow.data.context", context)])
