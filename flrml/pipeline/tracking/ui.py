"""Browse and prune the runs of a configuration."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import yaml

from flrml.pipeline.tracking.experiment import EXPERIMENT, tracking_uri
from flrml.pipeline.tracking.mlflow_store import Store, runs_page
from flrml.pipeline.tracking.sync import NEWEST, Sync

ADDRESS, PORT = "127.0.0.1", "5000"


def open_store(config: str) -> tuple[Store, Sync | None]:
    """Return the store of a configuration, and the sync of its results if a run has begun, which is up to date."""
    settings = yaml.safe_load(Path(config).read_text(encoding="utf-8"))
    results = Path(settings.get("results", "results"))
    if (results / EXPERIMENT).exists():
        sync = Sync(results)
        sync()
        return sync.store, sync
    uri = tracking_uri(settings.get("tracking_uri", "sqlite:///mlflow.db"))
    store = Store(uri, settings.get("experiment", "flrml"), f"{config}.lock")
    with store.lock:
        store.open()
    return store, None


def serve(config: str, port: str = PORT) -> int:
    """Print the address of the runs page and serve it until interrupted."""
    if not port.isdigit() or not 0 < int(port) < 2**16:
        print(f"port must be a number from 1 to 65535, got {port!r}: make ui PORT=5001", file=sys.stderr)
        return 2
    store, _ = open_store(config)
    if store.local and _is_taken(port):
        other = int(port) % 65535 + 1
        print(f"port {port} is in use by another program: choose one with `make ui PORT={other}`", file=sys.stderr)
        return 1
    _say_where(f"http://{ADDRESS}:{port}" if store.local else store.uri, store)
    if not store.local:
        return 0
    command = ["mlflow", "ui", "--backend-store-uri", store.uri, "--host", ADDRESS, "--port", port]
    # The server's workers for evaluation jobs have nothing to do here.
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    return subprocess.run(command, check=False, env=environment).returncode


def prune(config: str, answer: str = "") -> int:
    """List the runs of earlier results, and delete them with their models and artifacts if the answer is yes."""
    store, sync = open_store(config)
    runs = sync.runs(f"tags.`{NEWEST}` = 'false'", "attributes.status != 'RUNNING'") if sync else []
    for run in runs:
        accuracy = run.data.metrics.get("accuracy", float("nan"))
        print(f"{run.info.run_id}  {run.info.status:<8}  accuracy {accuracy:.3f}  {run.info.run_name}")
    if not runs:
        print("no earlier runs")
        return 0
    try:
        answer = answer or input(f"Delete these {len(runs)} runs with their models and artifacts? [y/N] ")
    except EOFError:
        print("nothing deleted: `make prune YES=1` answers yes")
        return 1
    if answer.lower() not in ("1", "y", "yes"):
        print("nothing deleted")
        return 1
    with store.lock:
        for run in runs:
            store.delete_run(run)
    print(f"{len(runs)} earlier runs deleted")
    if not store.local:
        print("their artifacts are on the server: delete them there with `mlflow gc`")
    return 0


def add_report(config: str, report: str) -> int:
    """Add the report to the newest run of the experiment."""
    store, sync = open_store(config)
    found = sync.runs(f"tags.`flrml.key` = '{sync.key('')}'", f"tags.`{NEWEST}` = 'true'") if sync else []
    for run in found:
        store.client.log_artifact(run.info.run_id, report)
        print(f"{report} is an artifact of the run {store.experiment!r} in MLflow")
    if not found:
        print(
            f"{report} is not in MLflow: experiment {store.experiment!r} has no finished run yet", file=sys.stderr
        )
    return 0


def _say_where(base: str, store: Store) -> None:
    """Print the pages of the configuration's experiment, and of others in the same store, such as the demo's."""
    print(f"Runs:         {runs_page(base, store.experiment_id)}")
    print(f"All of them:  {runs_page(base, store.experiment_id, every=True)}")
    for other in store.client.search_experiments():
        if other.experiment_id not in (store.experiment_id, "0"):  # 0 is MLflow's own
            print(f"Experiment {other.name}: {runs_page(base, other.experiment_id)}")
    print("`make prune` deletes the runs of earlier results. Stop with Ctrl-C.", flush=True)


def _is_taken(port: str) -> bool:
    """Return whether a program listens on a port of this machine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, int(port)))
        except OSError:
            return True
    return False
