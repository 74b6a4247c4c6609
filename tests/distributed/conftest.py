import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from distributed import Client, LocalCluster


@contextmanager
def workers(count: int, **settings) -> Iterator[Client]:
    """A client of worker processes on this machine, each with one thread."""
    quiet = {"dashboard_address": ":0", "threads_per_worker": 1, "processes": True, "silence_logs": 50}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 10}),
        LocalCluster(n_workers=count, **quiet | settings) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def two():
    """A client of two workers."""
    with workers(2) as client:
        yield client


@pytest.fixture
def one():
    """A client of one worker."""
    with workers(1) as client:
        yield client


def blocks(X, sizes):
    """A dask array with blocks of the given sizes, sparse where X is."""
    if not sp.issparse(X):
        return da.from_array(X, chunks=(sizes, X.shape[1]))
    bounds = np.concatenate(([0], np.cumsum(sizes)))
    parts = [
        da.from_delayed(dask.delayed(X[start:stop]), (stop - start, X.shape[1]), meta=X[:0])
        for start, stop in pairwise(bounds)
    ]
    return da.concatenate(parts)


def sent(client):
    """The bytes that workers have sent so far."""
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


class Processes:
    """A scheduler and workers started by their own commands, as on several machines."""

    def __init__(self, folder: Path):
        self.folder, self.started = folder, []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
        self._start("scheduler", "--host", self.address, "--no-dashboard", "--no-show")

    def worker(self, *arguments: str) -> subprocess.Popen:
        """One more worker."""
        return self._start("worker", self.address, "--nthreads", "1", "--no-dashboard", *arguments)

    def _start(self, *arguments: str) -> subprocess.Popen:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        with open(self.folder / f"dask{len(self.started)}.log", "w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *arguments],
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.started.append(process)
        return process

    def stop(self) -> None:
        """End everything."""
        for process in reversed(self.started):
            process.terminate()
        deadline = time.monotonic() + 10
        for process in self.started:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
def processes(tmp_path):
    """A scheduler; the test starts workers."""
    started = Processes(tmp_path)
    yield started
    started.stop()
