"""Turn result files into runs of MLflow."""

from pathlib import Path
from typing import Any

import numpy as np

from flrml.files import read_json
from flrml.pipeline.inputs import load_rows
from flrml.pipeline.models import Metric, MetricClassifier
from flrml.pipeline.sweeps import SWEEPS
from flrml.pipeline.tracking import RunRecord, Tracker

MAX_MODEL_BYTES = 100 * 2**20


def of_run(path: str | Path, experiment: str) -> RunRecord:
    """Return the record of a trained and evaluated model, from its metrics.json."""
    result = read_json(path)
    ok = result["outcome"] == "ok"
    feeds = "tables, figure_front" + (", figure_convergence" if result["method"].startswith("flrml") else "")
    numbers = ("accuracy", "train_seconds", "evaluate_seconds", "peak_mb", "n_iter")
    metrics = {name: result[name] for name in numbers if result.get(name) is not None}
    metrics |= {name: value for name, value in result.items() if name.startswith("accuracy_")}
    return RunRecord(
        key=f"{experiment}/{result['dataset']}/{result['label']}/{result['seed']}",
        name=f"{result['dataset']} {result['label']} seed {result['seed']}",
        parameters={**result["parameters"], "seed": result["seed"]},
        metrics=metrics,
        series={"objective": result["history"]} if result.get("history") else {},
        tags=_tags(result, feeds) | {"outcome": result["outcome"]},
        dataset=result["data"],
        failure=None if ok else f"{result['outcome']}: {result['reason']}",
        started=result["started"],
        seconds=result.get("train_seconds", 0) + result.get("evaluate_seconds", 0),
    )


def of_sweep(paths: list[str], experiment: str, sweep: str) -> RunRecord:
    """Return the record of a sweep over one data set: a parent with a child per point."""
    results, axis = [read_json(path) for path in paths], SWEEPS[sweep].parameter
    first = results[0]
    prefix = f"{experiment}/{first['dataset']}/{sweep}/{first['method']}"
    children = [_point(result, prefix, sweep, axis) for result in results]
    ended = [child for child in children if child.failure is None]
    metrics = {}
    if ended:
        best = max(ended, key=lambda child: child.metrics["accuracy"])
        metrics = {"accuracy": best.metrics["accuracy"], f"best_{axis}": best.parameters[axis]}
    return RunRecord(
        key=prefix,
        name=f"{first['dataset']} {first['method']} sweep of {axis}",
        parameters=first["parameters"],
        metrics=metrics,
        tags=_tags(first, f"figure_{sweep}"),
        failure=None if ended else children[0].failure,
        started=first["started"],
        children=children,
    )


def _point(result: dict[str, Any], prefix: str, sweep: str, axis: str) -> RunRecord:
    """Return the record of one point of a sweep, over its repeats."""
    ended = [point for point in result["points"] if point["outcome"] == "ok"]
    failed = [f"{point['outcome']}: {point['reason']}" for point in result["points"] if point["outcome"] != "ok"]
    accuracies = [point["accuracy"] for point in ended]
    metrics, series = {}, {}
    if ended:
        metrics = {"accuracy": float(np.mean(accuracies)), "accuracy_std": float(np.std(accuracies))}
        if "accuracies" in ended[0]:
            series = {"accuracy_by_batch": np.mean([point["accuracies"] for point in ended], axis=0).tolist()}
    return RunRecord(
        key=f"{prefix}/{result[axis]}",
        name=f"{result['dataset']} {result['method']} {axis} = {result[axis]}",
        parameters={**result["parameters"], axis: result[axis], "repeats": len(result["points"])},
        metrics=metrics,
        series=series,
        tags=_tags(result, f"figure_{sweep}"),
        failure=None if ended else failed[0],
        started=result["started"],
    )


def log_model(tracker: Tracker, run_id: str, data: str | Path, model: str | Path, *, n_neighbors: int) -> None:
    """Log the classifier of a trained model, or say why not."""
    rows = Path(data) / "train"
    size = Path(model).stat().st_size
    metric = Metric.load(model)
    if metric.components is None:  # the classifier holds the data as they are
        size += sum(file.stat().st_size for file in rows.iterdir())
    if size > MAX_MODEL_BYTES:
        tracker.client.set_tag(run_id, "model", f"not logged: {size / 2**20:,.0f} MB; it is in {model}")
        return
    tracker.log_classifier(run_id, MetricClassifier(metric, n_neighbors).fit(*load_rows(rows)))


def _tags(result: dict[str, Any], feeds: str) -> dict[str, str]:
    made_by = {f"version.{name}": value for name, value in result["made_by"].items() if name != "git_commit"}
    return {
        "dataset": result["dataset"],
        "method": result["method"],
        "feeds": feeds,
        "mlflow.source.git.commit": result["made_by"]["git_commit"],
    } | made_by
