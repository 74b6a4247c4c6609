"""Browse and prune the runs of a configuration, or of the last run."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import yaml

from flrml.exceptions import TrackingError
from flrml.pipeline.naming import results_of
from flrml.pipeline.tracking.experiment import EXPERIMENT, LAST
from flrml.pipeline.tracking.mlflow_store import NEWEST
from flrml.pipeline.tracking.sync import ADDRESS, Sync


def open_results(config: str = "") -> Sync:
    """Return the sync of a configuration's results, or of those of the last run; MLflow is up to date then."""
    if config:
        results = Path(results_of(yaml.safe_load(Path(config).read_text(encoding="utf-8"))))
    else:
        results = Path(LAST.read_text(encoding="utf-8") if LAST.exists() else "results")
    if not (results / EXPERIMENT).exists():
        raise TrackingError(f"{results} has no runs yet; `make run`, or `make demo` in about a minute, makes some")
    sync = Sync(results)
    sync()
    return sync


def serve(port: str, config: str = "") -> int:
    """Print the address of the runs page and serve it until interrupted."""
    if not port.isdigit() or not 0 < int(port) < 2**16:
        raise TrackingError(f"port must be a number from 1 to 65535, got {port!r}: make ui PORT=5001")
    store, host = open_results(config).store, ADDRESS.split("/")[2].partition(":")[0]
    if not store.local:
        print(f"Runs: {store.runs_page(store.uri)}")
        return 0
    with socket.socket() as probe:
        if probe.connect_ex((host, int(port))) == 0:
            other = int(port) % 65535 + 1
            raise TrackingError(f"port {port} is in use by another program: choose one with `make ui PORT={other}`")
    print(f"Runs: {store.runs_page(f'http://{host}:{port}')}")
    print("`make prune` deletes the runs of earlier results. Stop with Ctrl-C.", flush=True)
    command = ["mlflow", "ui", "--backend-store-uri", store.uri, "--host", host, "--port", port]
    # The server's workers for evaluation jobs have nothing to do here; its warnings hide the address.
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "PYTHONWARNINGS": "ignore"}
    return subprocess.run(command, check=False, env=environment).returncode


def prune(answer: str = "", config: str = "") -> int:
    """List the runs of earlier results, and delete them with their models and artifacts if the answer is yes."""
    sync = open_results(config)
    print(f"experiment {sync.store.experiment}, results in {sync.results}")
    runs = sync.runs(f"tags.`{NEWEST}` = 'false'", "attributes.status != 'RUNNING'")
    for run in runs:
        accuracies = [f"accuracy {value:.3f}" for name, value in run.data.metrics.items() if name == "accuracy"]
        print(run.info.run_id, f"{run.info.status:<8}", *accuracies, run.info.run_name, sep="  ")
    if not runs:
        print("no earlier runs")
        return 0
    try:
        answer = answer or input(f"Delete these {len(runs)} runs with their models and artifacts? [y/N] ")
    except EOFError:
        print("`make prune YES=1` answers yes")
    if answer.lower() not in ("1", "y", "yes"):
        print("nothing deleted")
        return 0
    with sync.store.lock:
        for run in runs:
            sync.store.delete_run(run)
    print(f"{len(runs)} earlier runs deleted")
    return 0


def add_report(report: str, config: str) -> int:
    """Add the report to the newest run of the experiment."""
    sync = open_results(config)
    for run in sync.runs(f"tags.`flrml.key` = '{sync.key('')}'", f"tags.`{NEWEST}` = 'true'"):
        sync.store.client.log_artifact(run.info.run_id, report)
        print(f"{report} is an artifact of the run {run.info.run_name!r} in MLflow")
        return 0
    print(f"{report} is not in MLflow: the experiment has no finished run yet", file=sys.stderr)
    return 0
