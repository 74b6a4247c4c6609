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
# Settings that the run of an experiment shows as parameters; the configuration is an artifact.
SHOWN = ("seeds", "n_triplets", "max_rank", "n_neighbors", "minutes", "memory_mb")


@dataclass
class RunRecord:
    """A finished run, ready to be logged."""

    key: str
    name: str
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


def identify(folder: str) -> tuple[str, str]:
    """Return key and name of the run with files in a folder of the results, such as ``runs/r8/flrml/seed0``."""
    kind, *parts = PurePath(folder).parts
    if kind == "runs":
        dataset, label, seed = parts[0], parts[1], parts[2].removeprefix("seed")
        return f"{dataset}/{label}/{seed}", f"{dataset} {label}" + (f" s{seed}" if seed != "0" else "")
    sweep, dataset, method, *value = parts
    name = " ".join([dataset, method, sweep, *(f"{float(each):g}" for each in value)])
    return "/".join([dataset, sweep, method, *value]), name


def read_record(results: Path, folder: str) -> RunRecord | None:
    """Return the record of a training or of a point of a sweep; None without a result."""
    for file, convert in ((METRICS, _of_run), (POINT, _of_point)):
        if (results / folder / file).exists():
            return convert(read_json(results / folder / file), folder)
    return None


def _of_run(result: dict[str, Any], folder: str) -> RunRecord:
    """Return the record of a trained and evaluated model."""
    ok = result["outcome"] == "ok"
    feeds = "tables, figure_front" + (", figure_convergence" if result["method"].startswith("flrml") else "")
    numbers = ("accuracy", "train_seconds", "evaluate_seconds", "peak_mb", "n_iter")
    # The table has no room for microseconds.
    metrics = {
        name: round(result[name], 4) if name.endswith("seconds") else result[name]
        for name in numbers
        if result.get(name) is not None
    }
    scores = ("accuracy_", "recall_at_", "precision_at_", "r_precision", "map_at_r")
    metrics |= {name: value for name, value in result.items() if name.startswith(scores)}
    failure = None if ok else f"{result['outcome']}: {result['reason']}"
    return RunRecord(
        *identify(folder),
        training=result.get("training", ""),
        parameters={**result["parameters"]}
        | {f"{name}.chosen": True for name in result.get("chosen", [])}
        | {"seed": result["seed"]},
        metrics=metrics,
        series={"objective": dict(enumerate(result["history"]))} if result.get("history") else {},
        tags=_tags(result, feeds) | {"outcome": result["outcome"]},
        note=_note(
            f"{result['label']} on {result['dataset']}, seed {result['seed']}: "
            + (failure or f"accuracy {100 * result['accuracy']:.1f} % by nearest neighbours ({result['metric']})"),
            f"Trained in {result['train_seconds']:.2f} s, peak memory {result['peak_mb']:,.0f} MB; used by {feeds}"
            if ok
            else f"The job's log has the details; delete {folder} in the results to train again",
        ),
        datasets={CONTEXTS[part]: used for part, used in result["data"].items()},
        failure=failure,
        started=result["started"],
        seconds=result.get("train_seconds", 0) + result.get("evaluate_seconds", 0),
    )


def _of_point(result: dict[str, Any], folder: str) -> RunRecord:
    """Return the record of one point of a sweep, over its repeats."""
    axis = SWEEPS[result["sweep"]].parameter
    ended = [point for point in result["points"] if point["outcome"] == "ok"]
    failed = [f"{point['outcome']}: {point['reason']}" for point in result["points"] if point["outcome"] != "ok"]
    accuracies = [point["accuracy"] for point in ended]
    metrics = {}
    series = {"accuracy_by_seed": {point["seed"]: point["accuracy"] for point in ended}}
    if ended:
        # Rounded, so that the table shows 0.46 instead of 0.45999999.
        metrics = {"accuracy": round(np.mean(accuracies), 6), "accuracy_std": round(np.std(accuracies), 6)}
        if "accuracies" in ended[0]:
            means = np.mean([point["accuracies"] for point in ended], axis=0).tolist()
            series |= {"accuracy_by_batch": dict(zip(ended[0]["steps"], means, strict=True))}
    failure = None if ended else failed[0]
    return RunRecord(
        *identify(folder),
        training=result.get("training", ""),
        parameters={**result["parameters"], axis: result[axis], "repeats": len(result["points"])},
        metrics=metrics,
        series=series,
        tags=_tags(result, f"figure_{result['sweep']}"),
        note=_note(
            f"{result['method']} on {result['dataset']} with {axis} = {result[axis]:g}: "
            + (failure or f"mean accuracy {100 * metrics['accuracy']:.1f} %"),
            f"{len(ended)} of {len(result['points'])} seeds ended; used by figure_{result['sweep']}",
        ),
        failure=failure,
        started=result["started"],
    )


def of_sweep(points: list[RunRecord], folder: str) -> RunRecord:
    """Return the record of a sweep over one data set, with the curve over its points."""
    key, name = identify(folder)
    dataset, sweep, method = key.split("/")
    axis = SWEEPS[sweep].parameter
    first, ended = points[0], [point for point in points if point.failure is None]
    values = ", ".join(f"{point.parameters[axis]:g}" for point in points)
    outcome, metrics = "no point has a result", {}
    if ended:
        best = max(ended, key=lambda point: point.metrics["accuracy"])
        metrics = {"accuracy": best.metrics["accuracy"], f"best_{axis}": best.parameters[axis]}
        outcome = f"best accuracy {100 * best.metrics['accuracy']:.1f} % at {best.parameters[axis]:g}"
    return RunRecord(
        key,
        name,
        parameters={k: v for k, v in first.parameters.items() if k not in (axis, "repeats")}
        | {"swept": axis, "values": values},
        metrics=metrics,
        series=_curves(ended, axis),
        tags=first.tags,
        note=_note(
            f"{method} on {dataset} for {axis} = {values}: {outcome}",
            f"Mean over {first.parameters['repeats']} seeds; the chart shows the curve; used by figure_{sweep}",
        ),
        failure=None if ended else first.failure,
        started=first.started,
    )


def _curves(points: list[RunRecord], axis: str) -> dict[str, dict[int, float]]:
    """Return accuracy against mini-batches for every size, or else accuracy against the swept parameter.

    Steps are whole numbers, so that fractional values of a parameter are given in percent.
    """
    by_batch = {
        f"accuracy_by_batch/{point.parameters[axis]:g}": point.series["accuracy_by_batch"]
        for point in points
        if "accuracy_by_batch" in point.series
    }
    if by_batch or not points:
        return by_batch
    whole = all(float(point.parameters[axis]).is_integer() for point in points)
    name, factor = (f"accuracy_by_{axis}", 1) if whole else (f"accuracy_by_{axis}_percent", 100)
    return {name: {round(factor * point.parameters[axis]): point.metrics["accuracy"] for point in points}}


def of_experiment(config: dict[str, Any], runs: list[RunRecord], files: list[Path]) -> RunRecord:
    """Return the record of a whole experiment, with the best method on every data set."""
    add_methods(config["methods"])
    studies = {name for name, dataset in config["datasets"].items() if (dataset or {}).get("study")}
    runs = [
        run for run in runs if run.key.split("/")[1] == run.tags["method"] and run.tags["dataset"] not in studies
    ]
    ended = [run for run in runs if run.failure is None]
    best: dict[str, RunRecord] = {}
    for run in ended:
        dataset = run.tags["dataset"]
        if dataset not in best or run.metrics["accuracy"] > best[dataset].metrics["accuracy"]:
            best[dataset] = run
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
    started = [run.started for run in runs] or [0.0]
    commit = max(runs, key=lambda run: run.started).tags["mlflow.source.git.commit"] if runs else "unknown"
    return RunRecord(
        "",
        config["experiment"],
        parameters={name: config[name] for name in SHOWN if name in config}
        | {"datasets": ", ".join(config["datasets"]), "methods": ", ".join(config["methods"])},
        metrics={"runs": len(runs), "failed": len(runs) - len(ended)}
        | {f"best_accuracy/{dataset}": run.metrics["accuracy"] for dataset, run in best.items()},
        tags={"flrml.files": digest.hexdigest()[:16], "mlflow.source.git.commit": commit},
        note="\n".join(note),
        started=min(started),
        seconds=max(started) - min(started),
    )


def _note(first: str, second: str) -> str:
    """Return a description of two lines, in Markdown."""
    return f"{first}.  \n{second}."


def _tags(result: dict[str, Any], feeds: str) -> dict[str, str]:
    made_by = {f"version.{name}": value for name, value in result["made_by"].items() if name != "git_commit"}
    return {
        "dataset": result["dataset"],
        "method": result["method"],
        "feeds": feeds,
        "mlflow.source.git.commit": result["made_by"]["git_commit"],
    } | made_by
