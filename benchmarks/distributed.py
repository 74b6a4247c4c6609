"""Training on a Dask cluster of this machine: speed-up by a second worker, bytes sent, peak memory of a worker."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask.array as da
import numpy as np
import scipy.sparse as sp
from distributed import Client, LocalCluster, wait

from benchmarks.timing import seconds
from flrml import FLRML, MFLRML
from flrml.datasets import store
from flrml.distributed import open_split

STEPS, DIRECTIONS = 20, 100


@contextmanager
def workers(count: int, memory: str) -> Iterator[Client]:
    """A client of worker processes with one thread and a memory limit each."""
    with (
        LocalCluster(
            n_workers=count, threads_per_worker=1, memory_limit=memory, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def write_store(folder: Path, rows: int, features: int, nonzeros: int) -> None:
    """A prepared data set of binary rows, ten classes, in blocks of neighbouring columns as voxels have them."""
    random, y = np.random.RandomState(0), np.arange(rows) % 10
    splits = {}
    with store.folder_in_place(folder) as place:
        with store.SplitWriter(place / "train", "binary", features) as writer:
            for _ in range(rows):
                runs = np.sort(random.choice(features // 20, nonzeros // 20, replace=False))
                columns = (runs[:, None] * 20 + np.arange(20)).ravel()
                row = np.ones(nonzeros, np.float32), columns, [0, nonzeros]
                writer.append(sp.csr_matrix(row, shape=(1, features)))
            splits["train"] = writer.finish(y)
        meta = {"format_version": store.FORMAT_VERSION, "fingerprint": splits["train"]["fingerprint"]}
        store.write_json(place / "meta.json", meta | {"splits": splits})


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
    """Time, bytes per step and peak memory of M-FLRML with so many workers."""
    with workers(count, memory) as client:
        X, y = open_split(folder / "train")
        MFLRML(DIRECTIONS, n_batches=2, random_state=0).fit(X, y)  # imports, and the state of the disk cache
        model, before = MFLRML(DIRECTIONS, n_batches=STEPS, random_state=0), sent(client)
        taken = seconds(lambda: model.fit(X, y))
        return {
            "seconds": taken,
            "sent": (sent(client) - before) / STEPS,
            "update": float(np.mean(model.update_bytes_)) / count,
            "peak": largest_memory(client),
        }


def descents(count: int, memory: str, n: int = 20_000, features: int = 784, rank: int = 500) -> dict[str, float]:
    """Time of a fit, bytes per iteration and peak memory of FLRML with so many workers."""
    iterations = 5
    with workers(count, memory) as client:
        random = np.random.RandomState(0)
        y = random.randint(0, 10, n)
        X = da.from_array((random.rand(n, features) + np.eye(10, features)[y]).astype(np.float32), (n // 8, -1))
        X = client.persist(X / da.linalg.norm(X, axis=1, keepdims=True))
        wait(X)
        settings = {"n_components": DIRECTIONS, "max_rank": rank, "tol": 0.0, "random_state": 0}
        FLRML(max_iter=1, **settings).fit(X, y)  # imports
        times, bytes_sent = [], []
        for steps in (0, iterations):
            before = sent(client)
            times.append(seconds(lambda steps=steps: FLRML(max_iter=steps, **settings).fit(X, y)))
            bytes_sent.append(sent(client) - before)
        return {
            "seconds": times[1],
            "sent": (bytes_sent[1] - bytes_sent[0]) / iterations,
            "once": bytes_sent[0],
            "peak": largest_memory(client),
        }


def rows() -> Iterator[tuple[str, str, str]]:
    """What is measured, against what, and the outcome."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "data"
        write_store(folder, rows=6_000, features=1_000_000, nonzeros=20_000)
        one, two = (mini_batches(folder, count, "2GB") for count in (1, 2))
    # Each of two updates goes to the client and, but for those of the last step, to the other worker.
    expected = 2 * two["update"] * (1 + (STEPS - 1) / STEPS)
    yield (
        "M-FLRML on 2 Dask workers, D = 1,000,000, 20,000 non-zeros a row on disk, N_t = 80, d = 100",
        "1 worker, mini-batches per second",
        f"{2 * one['seconds'] / two['seconds']:.2f}×; a step sends {two['sent'] / 1e6:.1f} MB "
        f"({expected / 1e6:.1f} MB by the cost model, the map has 400 MB); "
        f"peak memory of a worker {two['peak'] / 1e6:,.0f} MB of 2,000",
    )
    one, two = (descents(count, "2GB") for count in (1, 2))
    yield (
        "FLRML on 2 Dask workers, 20,000 × 784 in 8 blocks, r = 500, d = 100, float32",
        "1 worker, time of a fit with 5 iterations",
        f"{one['seconds'] / two['seconds']:.2f}×; an iteration sends {two['sent'] / 1e6:.1f} MB, the SVD and the "
        f"triplets once {two['once'] / 1e6:.0f} MB; peak memory of a worker {two['peak'] / 1e6:,.0f} MB of 2,000",
    )


if __name__ == "__main__":  # a prepared data set of one's own: python -m benchmarks.distributed FOLDER
    for workers_used in (2, 1):
        print(workers_used, mini_batches(Path(sys.argv[1]), workers_used, "2GB"))
