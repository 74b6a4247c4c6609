"""Open MLflow's UI on the runs of a configuration: ``python -m flrml.pipeline.ui config.yaml``."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

from flrml.pipeline.tracking import Tracker, runs_page, tracking_uri

ADDRESS, PORT = "127.0.0.1", "5000"


def main(config: str) -> int:
    """Print the address of the runs page and serve it until interrupted."""
    settings = yaml.safe_load(Path(config).read_text())
    uri = tracking_uri(settings.get("tracking_uri", "sqlite:///mlflow.db"))
    experiment = Tracker(uri, settings.get("experiment", "flrml")).experiment_id
    if uri.startswith("http"):
        print(f"Runs: {runs_page(uri, experiment)}")
        return 0
    print(f"Runs: {runs_page(f'http://{ADDRESS}:{PORT}', experiment)}  (stop with Ctrl-C)", flush=True)
    command = ["mlflow", "ui", "--backend-store-uri", uri, "--host", ADDRESS, "--port", PORT]
    # The server's workers for evaluation jobs have nothing to do here.
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    return subprocess.run(command, check=False, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
