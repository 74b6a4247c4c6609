"""The client of a Dask cluster, and its workers: wait for them, with a limit."""

import asyncio
import concurrent.futures
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from distributed import Client, Future, default_client
from distributed.client import ClosedClientError
from distributed.comm.core import CommClosedError
from distributed.scheduler import KilledWorker

from flrml.compat import free_stuck_tasks, start_work_stealing, stop_work_stealing

PATIENCE_SECONDS = 45.0  # without a running worker

SCHEDULER_IS_GONE = "the Dask scheduler is gone; restart it, connect to it and repeat the fit"


class ClusterLostError(RuntimeError):
    """No worker or no scheduler of a Dask cluster is left to do the work."""


def active_client() -> Client:
    """Return the Dask client of this process, or raise an error with a remedy."""
    try:
        return default_client()
    except ValueError:
        raise RuntimeError(
            "no Dask client is active; create one with `distributed.Client()` for workers on this machine, or "
            "`distributed.Client(address)` for a cluster"
        ) from None


@contextmanager
def without_work_stealing(client: Client) -> Iterator[None]:
    """Keep the scheduler from moving tasks to idle workers, which would send them the rows.

    If the scheduler dies meanwhile, ClusterLostError replaces errors of the connection.
    """
    try:
        stopped = client.run_on_scheduler(stop_work_stealing)
        try:
            yield
        finally:
            if stopped and client.status == "running":
                client.run_on_scheduler(start_work_stealing)
    except (OSError, CancelledError, ClosedClientError) as error:
        if not scheduler_is_gone(client):
            raise
        raise ClusterLostError(SCHEDULER_IS_GONE) from error


def scheduler_is_gone(client: Client) -> bool:
    """Return whether the client has lost its scheduler, which it notices a moment after a call has failed."""
    for _ in range(20):
        if client.status != "running":
            return True
        time.sleep(0.1)
    return False


def gather(client: Client, futures: list[Future]) -> list[Any]:
    """Return the results of futures; raise ClusterLostError if no worker is left, or a task kills its workers.

    Workers that join are used.
    """
    # Results that are lost on the way are computed again, so there is no limit on the total time.
    results: Any = client.gather(futures, asynchronous=True)
    loop: Any = client.loop
    gathered = asyncio.run_coroutine_threadsafe(results, loop.asyncio_loop)
    try:
        return _wait(client, gathered)
    except KilledWorker as error:
        raise ClusterLostError(
            "workers of the Dask cluster died repeatedly on the same task, probably out of memory: use "
            "smaller blocks, or workers with more memory"
        ) from error
    except (CancelledError, CommClosedError) as error:
        if scheduler_is_gone(client):
            raise ClusterLostError(SCHEDULER_IS_GONE) from error
        raise ClusterLostError(
            "a worker of the Dask cluster died with data that no task can recompute; compute them again and repeat"
        ) from error
    finally:
        gathered.cancel()


def wait_for_worker(client: Client) -> None:
    """Wait until the cluster has a worker, or raise ClusterLostError."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE_SECONDS)
    except TimeoutError as error:
        raise ClusterLostError("the Dask cluster has no workers; start some and repeat the fit") from error


def _wait(client: Client, gathered: concurrent.futures.Future) -> list[Any]:
    """Wait for results while some worker runs and shows signs of life: paused and frozen ones do not."""
    last_seen = time.monotonic()
    beats: dict[str, float] = {}
    while True:
        try:
            return gathered.result(timeout=2.0)
        except TimeoutError:
            if gathered.done():
                return gathered.result()
            if client.status != "running":  # a new scheduler would not know these futures
                raise ClusterLostError(SCHEDULER_IS_GONE) from None
            workers = client.scheduler_info(n_workers=-1)["workers"]
            states = {name: (worker["status"], worker["last_seen"]) for name, worker in workers.items()}
            running = {name: beat for name, (status, beat) in states.items() if status == "running"}
            if running.items() - beats.items():  # another heartbeat than before
                last_seen, beats = time.monotonic(), running
                client.run_on_scheduler(free_stuck_tasks)
            elif time.monotonic() - last_seen > PATIENCE_SECONDS:
                paused = "are paused over their memory limit" if workers else "are gone"
                reason = "no longer answer" if running else paused
                raise ClusterLostError(
                    f"all workers of the Dask cluster {reason}: start workers with enough memory, or use smaller "
                    "blocks, and repeat the fit"
                ) from None
