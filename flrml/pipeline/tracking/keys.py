"""Name runs and their store, for the jobs that train and for those that log."""

import os
from typing import Any


def tracking_uri(configured: str) -> str:
    """Return the address of the tracking store: MLFLOW_TRACKING_URI wins over the configured one."""
    return os.environ.get("MLFLOW_TRACKING_URI") or configured


def followed_by(config: dict[str, Any]) -> dict[str, str]:
    """Return where live runs go: the experiment and the tracking store."""
    return {"experiment": config["experiment"], "tracking_uri": tracking_uri(config["tracking_uri"])}


def run_key(experiment: str, run: dict[str, Any]) -> str:
    """Return the key of a training: runs of one key are results of the same thing at different times."""
    return f"{experiment}/{run['dataset']}/{run['label']}/{run['seed']}"


def point_key(experiment: str, point: dict[str, Any], value: float | None = None) -> str:
    """Return the key of a point of a sweep, or of the whole sweep if no value is given."""
    key = f"{experiment}/{point['dataset']}/{point['sweep']}/{point['method']}"
    return key if value is None else f"{key}/{value}"


def point_name(point: dict[str, Any], value: float) -> str:
    """Return the name of a point of a sweep."""
    return f"{point['dataset']} {point['method']} {point['sweep']} {value:g}"


def run_name(run: dict[str, Any]) -> str:
    """Return the name of a training, short enough for a column of MLflow's table."""
    return f"{run['dataset']} {run['label']}" + (f" s{run['seed']}" if run["seed"] else "")
