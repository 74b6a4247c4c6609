"""Open MLflow's UI on the runs of a configuration: ``python -m flrml.pipeline.tracking.ui config.yaml [port]``."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import yaml

from flrml.pipeline.tracking.database import runs_page
from flrml.pipeline.tracking.keys import tracking_uri
from flrml.pipeline.tracking.tracker import Tracker

ADDRESS, PORT = "127.0.0.1", "5000"


def configured(config: str) -> tuple[str, str]:
    """Return the address of the store and the name of the experiment that a configuration names."""
    settings = yaml.safe_load(Path(config).read_text())
    uri = tracking_uri(settings.get("tracking_uri", "sqlite:///mlflow.db"))
    return uri, settings.get("experiment", "flrml")


def open_tracker(config: str) -> Tracker:
    """Open the store and the experiment that a configuration names."""
    return Tracker(*configured(config))


def main(config: str, port: str = PORT) -> int:
    """Print the address of the runs page and serve it until interrupted."""
    if not port.isdigit() or not 0 < int(port) < 2**16:
        print(f"port must be a number from 1 to 65535, got {port!r}: make ui PORT=5001", file=sys.stderr)
        return 2
    served = configured(config)[0].startswith("http")
    if not served and _is_taken(port):
        other = int(port) % 65535 + 1
        print(f"port {port} is in use by another program: choose one with `make ui PORT={other}`", file=sys.stderr)
        return 1
    tracker = open_tracker(config)
    if served:
        _say_where(tracker.uri, tracker)
        return 0
    _say_where(f"http://{ADDRESS}:{port}", tracker)
    command = ["mlflow", "ui", "--backend-store-uri", tracker.uri, "--host", ADDRESS, "--port", port]
    # The server's workers for evaluation jobs have nothing to do here.
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    return subprocess.run(command, check=False, env=environment).returncode


def _say_where(base: str, tracker: Tracker) -> None:
    """Print the pages of the configuration's experiment, and of others in the same store, such as the demo's."""
    print(f"Runs:         {runs_page(base, tracker.experiment_id)}")
    print(f"All of them:  {runs_page(base, tracker.experiment_id, every=True)}")
    for other in tracker.client.search_experiments():
        if other.experiment_id not in (tracker.experiment_id, "0"):  # 0 is MLflow's own
            print(f"Experiment {other.name}: {runs_page(base, other.experiment_id)}")
    print("`make prune` deletes the runs of earlier results. Stop with Ctrl-C.", flush=True)


def _is_taken(port: str) -> bool:
    """Tell whether a program listens on a port of this machine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, int(port)))
        except OSError:
            return True
    return False


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
