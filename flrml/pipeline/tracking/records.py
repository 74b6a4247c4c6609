"""Turn result files into records of runs; imports no MLflow."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from flrml.files import read_json
from flrml.methods import METHODS, add_methods
from flrml.pipeline.naming import METRICS, POINT, SWEEPS

CONTEXTS = {"train": "training", "test": "test"}
COMMIT = "mlflow.source.git.commit"


@dataclass
class RunRecord:
    """A finished run, ready to be logged."""

    key: str
    name: str
    kind: str
    training: str = ""  # id of the training, which its progress file carries too
    parameters: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    series: dict[str, dict[int, float]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    note: str = ""
    datasets: dict[str, dict[str, Any]] = field(default_factory=dict)  # by context
    failure: str | None = None
    started: float = 0.0
    seconds: float = 0.0

    @property
    def digest(self) -> str:
        """Return a digest of everything that is logged."""
        text = json.dumps(asdict(self), sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def identify(folder: str) -> tuple[str, str, str]:
    """Return key, name and kind of the run with files in a folder such as ``runs/r8/flrml/seed0``."""
    top, *parts = PurePath(folder).parts
    if top == "runs":
        dataset, label, seed = parts[0], parts[1], parts[2].removeprefix("seed")
        return f"{dataset}/{label}/{seed}", f"{dataset} {label}" + (f" s{seed}" if seed != "0" else ""), "training"
    sweep, dataset, method, *value = parts
    name = " ".join([dataset, method, sweep, *(f"{float(each):g}" for each in value)])
    return "/".join([dataset, sweep, method, *value]), name, "point" if value else "sweep"


def read_record(results: Path, folder: str) -> RunRecord | None:
    """Return the record of a training or of a point of a sweep; None without a result."""
    for file, convert in ((METRICS, _of_run), (POINT, _of_point)):
        if (results / folder / file).exists():
            result = read_json(results / folder / file)
            record = RunRecord(
                *identify(folder),
                training=result.get("training", ""),
                started=result["started"],
                tags={
                    "dataset": result["dataset"],
                    "method": result["method"],
                    COMMIT: result["made_by"]["git_commit"],
                }
                | {f"version.{name}": value for name, value in result["made_by"].items() if name != "git_commit"},
            )
            convert(record, result)
            if record.failure:
                record.note += f". The job's log has the details; delete {folder} in the results to train again"
                record.tags["failure"] = record.failure
            return record
    return None


def _of_run(record: RunRecord, result: dict[str, Any]) -> None:
    """Complete the record of a trained and evaluated model."""
    if result["outcome"] != "ok":
        record.failure = f"{result['outcome']}: {result['reason']}"
    names = ["accuracy", "train_seconds", "evaluate_seconds", "peak_mb", "n_iter"]
    scores = ("accuracy_", "recall_at_", "precision_at_", "r_precision", "map_at_r")
    names += [name for name in result if name.startswith(scores)]
    # Seconds are rounded, because MLflow's table has no room for microseconds.
    record.metrics = {
        name: round(result[name], 4) if name.endswith("seconds") else result[name]
        for name in names
        if result.get(name) is not None
    }
    record.parameters = result["parameters"] | {f"{name}.chosen": True for name in result.get("chosen", [])}
    record.parameters["seed"] = result["seed"]
    if result.get("history"):
        record.series = {"objective": dict(enumerate(result["history"]))}
    record.tags["outcome"] = result["outcome"]
    record.note = f"{result['label']} on {result['dataset']}, seed {result['seed']}: " + (
        record.failure or f"accuracy {100 * result['accuracy']:.1f} % by nearest neighbours ({result['metric']})"
    )
    if result.get("warnings"):
        record.tags["warnings"] = "; ".join(result["warnings"])
        record.note += f". Warning: {record.tags['warnings']}"
    record.datasets = {CONTEXTS[part]: used for part, used in result["data"].items()}
    record.seconds = result.get("train_seconds", 0) + result.get("evaluate_seconds", 0)


def _of_point(record: RunRecord, result: dict[str, Any]) -> None:
    """Complete the record of one point of a sweep, over its repeats."""
    axis, points = SWEEPS[result["sweep"]].parameter, result["points"]
    record.parameters = {**result["parameters"], axis: result[axis], "repeats": len(points)}
    ended = [point for point in points if point["outcome"] == "ok"]
    if ended:
        accuracies = [point["accuracy"] for point in ended]
        record.metrics = {"accuracy": round(np.mean(accuracies), 6), "accuracy_std": round(np.std(accuracies), 6)}
        record.series = {"accuracy_by_seed": {point["seed"]: point["accuracy"] for point in ended}}
        if "accuracies" in ended[0]:
            means = np.mean([point["accuracies"] for point in ended], axis=0).tolist()
            record.series["accuracy_by_batch"] = dict(zip(ended[0]["steps"], means, strict=True))
    else:
        record.failure = f"{points[0]['outcome']}: {points[0]['reason']}"
    record.note = f"{result['method']} on {result['dataset']} with {axis} = {result[axis]:g}: " + (
        record.failure or f"mean accuracy {100 * record.metrics['accuracy']:.1f} % of {len(ended)} seeds"
    )


def of_sweep(points: list[RunRecord], folder: str) -> RunRecord:
    """Return the record of a sweep over one data set, with the curve over its points.

    Steps are whole numbers, so that fractional values of a parameter are given in percent.
    """
    key, name, kind = identify(folder)
    dataset, sweep, method = key.split("/")
    axis = SWEEPS[sweep].parameter
    first, ended = points[0], [point for point in points if point.failure is None]
    values = ", ".join(f"{point.parameters[axis]:g}" for point in points)
    record = RunRecord(key, name, kind, tags=first.tags, started=first.started)
    record.parameters = first.parameters | {"swept": axis, "values": values}
    del record.parameters[axis]
    record.note = f"{method} on {dataset} for {axis} = {values}: "
    if not ended:
        record.failure = first.failure
        record.note += "no point has a result"
        return record
    best = max(ended, key=lambda point: point.metrics["accuracy"])
    record.metrics = {"accuracy": best.metrics["accuracy"], f"best_{axis}": best.parameters[axis]}
    record.note += f"best mean accuracy {100 * best.metrics['accuracy']:.1f} % at {best.parameters[axis]:g}"
    if SWEEPS[sweep].along:
        record.series = {
            f"accuracy_by_batch/{point.parameters[axis]:g}": point.series["accuracy_by_batch"] for point in ended
        }
    else:
        whole = all(float(point.parameters[axis]).is_integer() for point in ended)
        curve, factor = (f"accuracy_by_{axis}", 1) if whole else (f"accuracy_by_{axis}_percent", 100)
        record.series = {
            curve: {round(factor * point.parameters[axis]): point.metrics["accuracy"] for point in ended}
        }
    return record


def of_experiment(config: dict[str, Any], runs: list[RunRecord], files: list[Path]) -> RunRecord:
    """Return the record of a whole experiment, with the best method on every data set."""
    add_methods(config["methods"])
    studies = {name for name, dataset in config["datasets"].items() if (dataset or {}).get("study")}
    runs = [
        run for run in runs if run.key.split("/")[1] == run.tags["method"] and run.tags["dataset"] not in studies
    ]
    ended = [run for run in runs if run.failure is None]
    best: dict[str, RunRecord] = {}
    for run in sorted(ended, key=lambda run: run.metrics["accuracy"]):
        best[run.tags["dataset"]] = run
    rows = [
        f"| {dataset} | {METHODS[run.tags['method']].title} | {100 * run.metrics['accuracy']:.1f} % |"
        for dataset, run in best.items()
    ]
    note = [
        f"Experiment **{config['experiment']}**: {len(ended)} of {len(runs)} trainings ended with a result.",
        "Every figure and table is under *Artifacts*, with the configuration and the environment.",
        *("", "| data set | best method | accuracy |", "|---|---|---|", *rows),
    ]
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode() + path.read_bytes())
    record = RunRecord(
        "", config["experiment"], "experiment", note="\n".join(note), tags={"flrml.files": digest.hexdigest()[:16]}
    )
    record.parameters = {name: value for name, value in config.items() if not isinstance(value, dict | None)}
    record.parameters |= {name: ", ".join(config[name]) for name in ("datasets", "methods")}
    record.metrics = {"runs": len(runs), "failed": len(runs) - len(ended)}
    record.metrics |= {f"best_accuracy/{dataset}": run.metrics["accuracy"] for dataset, run in best.items()}
    if runs:
        first, last = (choose(runs, key=lambda run: run.started) for choose in (min, max))
        record.tags[COMMIT] = last.tags[COMMIT]
        record.started, record.seconds = first.started, last.started - first.started
    return record
