"""Turn result files into runs of MLflow."""

from pathlib import Path
from typing import Any

import numpy as np

from flrml.files import read_json
from flrml.pipeline.layout import SWEEPS
from flrml.pipeline.tracking.keys import point_key, point_name, run_key, run_name
from flrml.pipeline.tracking.logged_models import log_model
from flrml.pipeline.tracking.tracker import DatasetUse, RunRecord, Tracker

CONTEXTS = {"train": "training", "test": "test"}


def of_run(path: str | Path, experiment: str) -> RunRecord:
    """Return the record of a trained and evaluated model, from its metrics.json."""
    result = read_json(path)
    ok = result["outcome"] == "ok"
    feeds = "tables, figure_front" + (", figure_convergence" if result["method"].startswith("flrml") else "")
    numbers = ("accuracy", "train_seconds", "evaluate_seconds", "peak_mb", "n_iter")
    # The table has no room for microseconds.
    metrics = {
        name: round(result[name], 4) if name.endswith("seconds") else result[name]
        for name in numbers
        if result.get(name) is not None
    }
    metrics |= {name: value for name, value in result.items() if name.startswith("accuracy_")}
    chosen = {f"{name}.chosen": True for name in result.get("chosen", [])}
    failure = None if ok else f"{result['outcome']}: {result['reason']}"
    return RunRecord(
        key=run_key(experiment, result),
        name=run_name(result),
        parameters={**result["parameters"], **chosen, "seed": result["seed"]},
        metrics=metrics,
        series={"objective": dict(enumerate(result["history"]))} if result.get("history") else {},
        tags=_tags(result, feeds) | {"outcome": result["outcome"]},
        note=_note(
            f"{result['label']} on {result['dataset']}, seed {result['seed']}: "
            + (failure or f"accuracy {100 * result['accuracy']:.1f} % by nearest neighbours ({result['metric']})"),
            f"Trained in {result['train_seconds']:.2f} s, peak memory {result['peak_mb']:,.0f} MB; used by {feeds}"
            if ok
            else f"The job's log has the details; delete {Path(path).parent} to train again",
        ),
        datasets=[DatasetUse(context=CONTEXTS[part], **used) for part, used in result["data"].items()],
        failure=failure,
        started=result["started"],
        seconds=result.get("train_seconds", 0) + result.get("evaluate_seconds", 0),
    )


def of_sweep(paths: list[str], experiment: str) -> RunRecord:
    """Return the record of a sweep over one data set: a parent with the curve, and a child per point."""
    results = [read_json(path) for path in paths]
    first, sweep = results[0], results[0]["sweep"]
    axis = SWEEPS[sweep].parameter
    children = [_point(result, experiment, axis) for result in results]
    ended = [child for child in children if child.failure is None]
    values = ", ".join(f"{result[axis]:g}" for result in results)
    outcome, metrics = "no point has a result", {}
    if ended:
        best = max(ended, key=lambda child: child.metrics["accuracy"])
        metrics = {"accuracy": best.metrics["accuracy"], f"best_{axis}": best.parameters[axis]}
        outcome = f"best accuracy {100 * best.metrics['accuracy']:.1f} % at {best.parameters[axis]:g}"
    return RunRecord(
        key=point_key(experiment, first),
        name=f"{first['dataset']} {first['method']} {sweep}",
        parameters={name: value for name, value in first["parameters"].items() if name != axis}
        | {"swept": axis, "values": values},
        metrics=metrics,
        series=_curves(ended, axis),
        tags=_tags(first, f"figure_{sweep}"),
        note=_note(
            f"{first['method']} on {first['dataset']} for {axis} = {values}: {outcome}",
            f"Mean over {len(first['points'])} seeds; the chart shows the curve; used by figure_{sweep}",
        ),
        failure=None if ended else children[0].failure,
        started=first["started"],
        children=children,
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


def _point(result: dict[str, Any], experiment: str, axis: str) -> RunRecord:
    """Return the record of one point of a sweep, over its repeats."""
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
        key=point_key(experiment, result, result[axis]),
        name=point_name(result, result[axis]),
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


def log_run(
    tracker: Tracker, path: str | Path, model: str | Path, experiment: str, *, n_neighbors: int
) -> RunRecord:
    """Log a trained and evaluated model from its files, with the classifier that it makes; return the record."""
    record = of_run(path, experiment)

    def complete(run_id: str) -> None:
        log_model(tracker, run_id, record, model, n_neighbors=n_neighbors)

    tracker.log(record, complete=complete if record.failure is None else None)
    return record


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
