import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mlflow_server(folder: Path, *arguments: str, **variables: str) -> Iterator[str]:
    """A real tracking server on a free port of 127.0.0.1, over the database in a folder; yields its address."""
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", port, "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}"]
    command += ["--artifacts-destination", str(folder / "served"), *arguments]
    with serving(command, folder, port, **variables) as address:
        yield address


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@contextmanager
def serving(command: list[str], folder: Path, port: str, **variables: str) -> Iterator[str]:
    """Run a command that starts a tracking server in a folder; yields its address once it answers."""
    environment = os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    environment.pop("MLFLOW_TRACKING_URI", None)
    environment |= variables
    with open(folder / "server.log", "w") as log:
        server = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{address}/health", server, folder / "server.log")
        yield address
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _wait_for(address: str, server: subprocess.Popen, log: Path, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the server did not start:\n{log.read_text()}")
