"""Name runs and their store, for the jobs that train and for those that log."""

import os
from typing import Any


def tracking_uri(configured: str) -> str:
    """Return the address of the tracking store: MLFLOW_TRACKING_URI wins over the configured one."""
    return os.environ.get("MLFLOW_TRACKING_URI") or configured


def run_key(experiment: str, run: dict[str, Any]) -> str:
    """Return the key of a training: runs of one key are results of the same thing at different times."""
    return f"{experiment}/{run['dataset']}/{run['label']}/{run['seed']}"


def run_name(run: dict[str, Any]) -> str:
    """Return the name of a training, short enough for a column of MLflow's table."""
    return f"{run['dataset']} {run['label']}" + (f" s{run['seed']}" if run["seed"] else "")
