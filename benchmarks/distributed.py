"""Training on a Dask cluster of this machine: speed-up by a second worker, bytes sent, peak memory of a worker."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from distributed import Client, LocalCluster, wait
from threadpoolctl import threadpool_limits

from benchmarks.timing import seconds
from flrml import FLRML, MFLRML
from flrml.datasets import store
from flrml.datasets.meta import describe
from flrml.distributed import open_split
from flrml.files import write_json

STEPS, DIRECTIONS, BLOCKS = 10, 100, 8
ROWS_WRITTEN = 500  # at a time


@contextmanager
def workers(count: int, memory: str) -> Iterator[Client]:
    """A client of worker processes with one thread and a memory limit each; the client has one thread too."""
    threads = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"  # of sparse products, which the workers inherit
    try:
        with (
            threadpool_limits(1),
            LocalCluster(
                n_workers=count, threads_per_worker=1, memory_limit=memory, dashboard_address=":0", silence_logs=50
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
    finally:
        os.environ.pop("OMP_NUM_THREADS") if threads is None else os.environ.update(OMP_NUM_THREADS=threads)


def write_store(folder: Path, rows: int, features: int, nonzeros: int, layout: str = "binary") -> None:
    """A prepared data set of binary rows, ten classes, in blocks of neighbouring columns as voxels have them."""
    random, y = np.random.RandomState(0), np.arange(rows) % 10
    splits = {}
    with store.dataset_folder(folder) as place:
        with store.SplitWriter(place / "train", layout, features) as writer:
            for first in range(0, rows, ROWS_WRITTEN):
                count = min(ROWS_WRITTEN, rows - first)
                drawn = [random.choice(features // 20, nonzeros // 20, replace=False) for _ in range(count)]
                columns = np.sort(np.array(drawn), axis=1)[:, :, None] * 20 + np.arange(20)
                block = np.ones(columns.size, np.float32), columns.ravel(), nonzeros * np.arange(count + 1)
                writer.append(sp.csr_matrix(block, shape=(count, features)))
            splits["train"] = writer.finish(y)
        write_json(place / "meta.json", describe("binary", range(10), splits, kind="voxel", source="made up"))


def sent(client: Client) -> int:
    """Bytes that workers have sent so far, to one another and to the client."""
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


def largest_memory(client: Client) -> float:
    """Largest resident memory that any worker's process ever had, in bytes."""
    return max(client.run(_peak).values())


def _peak() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def mini_batches(folder: Path, count: int, memory: str) -> dict[str, float]:
    """Time, bytes per mini-batch and peak memory of M-FLRML with a number of workers."""
    with workers(count, memory) as client:
        X, y = open_split(folder / "train")
        MFLRML(DIRECTIONS, n_batches=2, random_state=0).fit(X, y)  # imports, and the state of the disk cache
        model, before = MFLRML(DIRECTIONS, n_batches=STEPS, random_state=0), sent(client)
        taken = seconds(lambda: model.fit(X, y))
        return {"seconds": taken, "sent": (sent(client) - before) / STEPS, "peak": largest_memory(client)}


def _ten_classes(seed: int, size: int, features: int) -> np.ndarray:
    rows = np.random.RandomState(seed).rand(size, features) + np.eye(10, features)[np.arange(size) % 10]
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def descents(count: int, memory: str, n: int = 60_000, features: int = 784, rank: int = 500) -> dict[str, float]:
    """Time of a fit, bytes per iteration and peak memory of FLRML with a number of workers."""
    iterations = 5
    with workers(count, memory) as client:
        size = n // BLOCKS
        made = [dask.delayed(_ten_classes)(seed, size, features) for seed in range(BLOCKS)]
        X = client.persist(da.concatenate([da.from_delayed(part, (size, features), np.float32) for part in made]))
        y = np.tile(np.arange(size) % 10, BLOCKS)
        wait(X)
        settings = {"n_components": DIRECTIONS, "max_rank": rank, "tol": 0.0, "random_state": 0}
        FLRML(max_iter=1, **settings).fit(X, y)  # imports
        times, bytes_sent = [], []
        for steps in (0, iterations):
            model, before = FLRML(max_iter=steps, **settings), sent(client)
            times.append(seconds(lambda model=model: model.fit(X, y)))
            bytes_sent.append(sent(client) - before)
        assert model.n_iter_ == iterations
        return {
            "seconds": times[1],
            "descent": times[1] - times[0],
            "sent": (bytes_sent[1] - bytes_sent[0]) / iterations,
            "once": bytes_sent[0],
            "peak": largest_memory(client),
        }


def in_turns(measure: Callable[[int], dict[str, float]]) -> list[dict[str, float]]:
    """The least of three runs with 1 worker and of three with 2, in turns, so that noise slows both alike."""
    runs = [(count, measure(count)) for count in (1, 2, 2, 1, 1, 2)]
    return [_least([run for used, run in runs if used == count]) for count in (1, 2)]


def _least(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the least of each number, of peaks the largest."""
    return {name: (max if name == "peak" else min)(run[name] for run in runs) for name in runs[0]}


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield what is measured, against what, and the outcome."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "data"
        write_store(folder, rows=6_000, features=1_000_000, nonzeros=20_000)
        one, two = in_turns(lambda count: mini_batches(folder, count, "2GB"))
    yield (
        "M-FLRML on 2 Dask workers, D = 1,000,000, 20,000 non-zeros a row on disk, N_t = 80, d = 100",
        "1 worker",
        f"{one['seconds'] / two['seconds']:.2f}× as fast: the client learns; a mini-batch sends "
        f"{two['sent'] / 1e6:.1f} MB (with 1 worker {one['sent'] / 1e6:.1f} MB); "
        f"peak memory of a worker {two['peak'] / 1e6:,.0f} MB of 2,000",
    )
    one, two = in_turns(lambda count: descents(count, "2GB"))
    yield (
        "FLRML on 2 Dask workers, 60,000 × 784 in 8 blocks, r = 500, d = 100, float32",
        "1 worker, time of a fit with 5 iterations",
        f"{one['seconds'] / two['seconds']:.2f}×, the iterations alone {one['descent'] / two['descent']:.2f}×; "
        f"an iteration sends {two['sent'] / 1e6:.1f} MB, the SVD and the triplets once {two['once'] / 1e6:.0f} MB; "
        f"peak memory of a worker {two['peak'] / 1e6:,.0f} MB of 2,000",
    )
    from benchmarks.scaling import study_text, study_voxels

    for name, study in (("documents", study_text), ("voxels on disk", study_voxels)):
        found = study()
        one, two = found["workers"]["1"], found["workers"]["2"]
        n, n_columns = found["shape"]
        yield (
            f"RidgeFLRML on 2 Dask workers, {n:,} × {n_columns:,} {name}, {found['nonzeros']:,} non-zeros a row",
            "1 worker",
            f"{one['seconds'] / two['seconds']:.2f}×, with given parameters {one['given'] / two['given']:.2f}×; "
            f"sends {two['sent'] / 1e6:,.0f} MB; peak memory of a worker {two['peak'] / 1e6:,.0f} MB",
        )
