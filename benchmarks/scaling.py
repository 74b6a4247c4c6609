"""RidgeFLRML on a Dask cluster of this machine, and a model of its time on larger ones.

    python -m benchmarks.scaling [STUDY ...]

measures the named studies (text voxels m10-100 link apart products descent averaging wide large) on an idle
machine and writes docs/results/scaling.md with its figure. Measurements are kept in scaling.json next to it and not
repeated, unless they are named. ``m10-100`` and ``products`` need the raw files of ModelNet10; ``large`` writes
8 GB to a temporary folder.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import Manager
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from distributed import Client, get_task_stream, wait

from benchmarks.averaging import study_averaging
from benchmarks.distributed import descents, in_turns, largest_memory, sent, workers, write_store
from benchmarks.prepared import prepared
from benchmarks.scaling_page import DIRECTIONS, WIDTH, draw, page
from benchmarks.timing import seconds
from flrml import RidgeFLRML
from flrml.datasets import store
from flrml.datasets.meta import describe
from flrml.distributed import open_split
from flrml.distributed.stored import StoredRows
from flrml.files import read_json, write_json
from flrml.rows import product, product_transposed

TARGET = Path(__file__).parents[1] / "docs" / "results" / "scaling.md"
CLASSES = 20
ON_DIRECTIONS = ("_next_block", "_lift")  # tasks of the worker that keeps the directions, while others wait
GIVEN = {"ridge": 0.3, "within": 0.9, "local": 0.1, "scale": 0.5, "rounds": 0}


def text_rows(seed: int, n: int, n_words: int, nonzeros: int) -> sp.csr_matrix:
    """Return unit rows of made-up word counts with that many words each; half of them come from the row's class."""
    random = np.random.RandomState(seed)
    y = labels_of(seed, n)
    words = (n_words * random.power(0.3, (n, nonzeros))).astype(np.int64)
    topic = (997 * y[:, None] + (n_words // 20 * random.power(0.5, (n, nonzeros))).astype(np.int64)) % n_words
    words = np.sort(np.where(random.rand(n, nonzeros) < 0.5, words, topic), axis=1)
    # A word that is drawn twice moves on to a free one nearby, so that all rows have the same number.
    for column in range(1, nonzeros):
        words[:, column] = np.maximum(words[:, column], words[:, column - 1] + 1)
    words = np.minimum(words, n_words - nonzeros + np.arange(nonzeros))
    values = random.randint(1, 4, words.shape).astype(np.float32)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    indptr = np.arange(0, words.size + 1, nonzeros)
    return sp.csr_matrix((values.ravel(), words.ravel().astype(np.int32), indptr), shape=(n, n_words))


def labels_of(seed: int, n: int) -> np.ndarray:
    """Return the classes of the rows of :func:`text_rows`."""
    return np.random.RandomState(seed + 2**20).randint(0, CLASSES, n)


@contextmanager
def text(client: Client, n: int, n_words: int, blocks: int = 16) -> Iterator[tuple[da.Array, da.Array]]:
    """Made-up documents and their labels, in the memory of the workers."""
    size = n // blocks
    made = [dask.delayed(text_rows)(seed, size, n_words, 100) for seed in range(blocks)]
    meta = sp.csr_matrix((0, n_words), dtype=np.float32)
    X = da.concatenate([da.from_delayed(part, (size, n_words), meta=meta) for part in made])
    labels = [dask.delayed(labels_of)(seed, size) for seed in range(blocks)]
    y = da.concatenate([da.from_delayed(part, (size,), np.int64) for part in labels])
    X, y = client.persist([X, y])
    wait([X, y])
    yield X, y


def fit(client: Client, X: Any, y: Any) -> dict[str, float]:
    """Measure a fit that chooses its parameters and one to which they are given."""
    RidgeFLRML(DIRECTIONS, **GIVEN, random_state=0).fit(X, y)  # imports, and memory of the processes
    whole = seconds(lambda: RidgeFLRML(DIRECTIONS, random_state=0).fit(X, y))
    before = sent(client)
    with get_task_stream(client) as stream:
        given = seconds(lambda: RidgeFLRML(DIRECTIONS, **GIVEN, random_state=0).fit(X, y))
    one_at_a_time = [task for task in stream.data if str(task["key"]).startswith(ON_DIRECTIONS)]
    return {
        "seconds": whole,
        "given": given,
        "sent": sent(client) - before,
        "tasks": len(stream.data),
        "compute": computing(stream.data),
        "directions": computing(one_at_a_time),
        "peak": largest_memory(client),
    }


def computing(tasks: list[dict[str, Any]]) -> float:
    """Return the seconds that tasks have computed."""
    spans = [span for task in tasks for span in task["startstops"]]
    return sum(span["stop"] - span["start"] for span in spans if span["action"] == "compute")


def by_workers(measure: Callable[[int], dict[str, float]]) -> dict[str, dict[str, float]]:
    """Measure 1, 2 and 4 workers, the first two in turns."""
    one, two = in_turns(measure)
    return {"1": one, "2": two, "4": measure(4)}


def study_text(n: int = 200_000, n_words: int = 50_000) -> dict[str, Any]:
    """Documents in the memory of the workers."""

    def measure(count: int) -> dict[str, float]:
        with workers(count, "4GB") as client, text(client, n, n_words) as (X, y):
            return fit(client, X, y)

    return {"shape": [n, n_words], "nonzeros": 100, "workers": by_workers(measure)}


def study_voxels(n: int = 12_000, n_cells: int = 1_000_000, nonzeros: int = 20_000) -> dict[str, Any]:
    """Solid voxels on disk, in the form and size of m10-100, but fewer."""
    with tempfile.TemporaryDirectory() as name:
        write_store(Path(name) / "data", n, n_cells, nonzeros, layout="runs")

        def measure(count: int) -> dict[str, float]:
            with workers(count, "4GB") as client:
                return fit(client, *open_split(Path(name) / "data" / "train", rows_per_block=n // 16))

        return {"shape": [n, n_cells], "nonzeros": nonzeros, "workers": by_workers(measure)}


def study_link() -> dict[str, float]:
    """The bandwidth between two workers of this machine, and the time that the scheduler takes for a task."""
    with workers(2, "4GB") as client:
        one, two = sorted(client.nthreads())
        rates = []
        for _ in range(3):
            array = client.submit(np.ones, 2**25, workers=[one], pure=False)
            wait(array)
            client.submit(len, array, workers=[two], pure=False).result()
            log = client.run(lambda dask_worker: list(dask_worker.transfer_incoming_log), workers=[two])[two]
            rates.append(log[-1]["bandwidth"])
        times = [seconds(lambda: wait(client.map(abs, range(2000), pure=False))) for _ in range(3)]
    return {"bandwidth": max(rates), "task": min(times) / 2000}


def study_m10_100() -> dict[str, Any]:
    """Voxels of ModelNet10 on disk: rounds of the unsupervised form, chosen among all candidates."""
    with prepared("m10-100") as folder:
        if folder is None:
            raise SystemExit("the raw files of m10-100 are missing; see docs/datasets.md")
        shape: list[int] = []

        def measure(count: int) -> dict[str, float]:
            with workers(count, "6GB") as client:
                X, y = open_split(folder / "train")
                shape[:] = X.shape
                model, before = RidgeFLRML(DIRECTIONS, random_state=0), sent(client)
                taken = seconds(lambda: model.fit(X, y, groups=store.open_groups(folder / "train")))
                return {
                    "seconds": taken,
                    "sent": sent(client) - before,
                    "peak": largest_memory(client),
                    "score": float(model.best_score_),
                }

        return {"workers": {str(count): measure(count) for count in (2, 1)}, "shape": shape}


def _fits_apart(parts: list[int], n: int, n_words: int, together: Any) -> dict[str, float]:
    """Return the seconds of fits to some rows in this process, while others fit to theirs."""
    X = sp.vstack([text_rows(part, n, n_words, 100) for part in parts], "csr")
    y = np.concatenate([labels_of(part, n) for part in parts])

    def measure(**given: Any) -> float:
        together.wait()
        return seconds(lambda: RidgeFLRML(DIRECTIONS, **given, random_state=0).fit(X, y))

    measure()  # imports, and memory of the process
    return {"seconds": min(measure() for _ in range(3)), "given": min(measure(**GIVEN) for _ in range(3))}


def _products_apart(path: Path, rows: slice, together: Any) -> float:
    """Return the seconds of two products with some rows of voxels in this process, while others make theirs."""
    X = store.open_split(path)[0].view(rows.start, rows.stop)
    R = np.ones((X.shape[0], WIDTH), dtype=X.dtype)
    product(X, product_transposed(X, R))  # reads the rows
    together.wait()
    return seconds(lambda: product(X, product_transposed(X, R)))


def study_products() -> dict[str, float]:
    """Products with voxels of m10-100 without Dask: all in one process, and half in each of two."""
    os.environ["OMP_NUM_THREADS"] = "1"
    found = {}
    with prepared("m10-100") as folder:
        if folder is None:
            raise SystemExit("the raw files of m10-100 are missing; see docs/datasets.md")
        n = store.open_split(folder / "train")[0].shape[0]
        for name, count in (("one", 1), ("two", 2)):
            with Manager() as manager, ProcessPoolExecutor(count) as pool:
                parts = [slice(k * n // count, (k + 1) * n // count) for k in range(count)]
                together = [manager.Barrier(count)] * count
                found[name] = max(pool.map(_products_apart, [folder / "train"] * count, parts, together))
    return found


def study_apart(n: int = 200_000, n_words: int = 50_000, blocks: int = 16) -> dict[str, dict[str, float]]:
    """Fits without Dask, to all rows in one process and to half of them in each of two: the cap."""
    os.environ["OMP_NUM_THREADS"] = "1"
    found = {}
    for name, count in (("one", 1), ("two", 2)):
        with Manager() as manager, ProcessPoolExecutor(count) as pool:
            parts = [part.tolist() for part in np.array_split(np.arange(blocks), count)]
            size, together = [n // blocks] * count, [manager.Barrier(count)] * count
            runs = list(pool.map(_fits_apart, parts, size, [n_words] * count, together))
            found[name] = {key: max(run[key] for run in runs) for key in runs[0]}
    return found


def study_descent() -> dict[str, Any]:
    """Iterations of FLRML."""
    one, two = in_turns(lambda count: descents(count, "4GB"))
    return {"workers": {"1": one, "2": two}}


class MadeRows(StoredRows):
    """Dense random rows that are generated at every access instead of being read."""

    def open(self) -> np.ndarray:
        """Return the rows."""
        rows = np.random.Generator(np.random.SFC64(self.start)).random(self.shape, dtype=np.float32)
        rows[np.arange(len(rows)), (self.start + np.arange(len(rows))) % 10] += 20  # ten classes
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows


def study_wide(n: int = 40_000, n_columns: int = 500_000) -> dict[str, Any]:
    """The shape of dask-ml's issue 604: dense random rows, 80 GB, on two workers of 2 GB."""
    step = 100
    graph = {
        ("made", number, 0): (MadeRows, "", number * step, (number + 1) * step, n_columns, np.float32)
        for number in range(n // step)
    }
    X = da.Array(graph, "made", ((step,) * (n // step), (n_columns,)), meta=np.empty((0, 0), np.float32))
    with workers(2, "2GB") as client:
        model = RidgeFLRML(DIRECTIONS, **GIVEN, random_state=0)
        taken = seconds(lambda: model.fit(X, np.arange(n) % 10))
        return {"shape": [n, n_columns], "seconds": taken, "peak": largest_memory(client)}


def study_large(n: int = 10_000_000, n_words: int = 1_000_000, step: int = 100_000) -> dict[str, Any]:
    """Ten million documents of a million words on disk."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "data"
        with store.dataset_folder(folder) as place:
            with store.SplitWriter(place / "train", "csr", n_words) as writer:
                for seed in range(n // step):
                    writer.append(text_rows(seed, step, n_words, 100))
                y = np.concatenate([labels_of(seed, step) for seed in range(n // step)])
                splits = {"train": writer.finish(y)}
            meta = describe("documents", range(CLASSES), splits, kind="text", source="made up")
            write_json(place / "meta.json", meta)
        size = sum(file.stat().st_size for file in folder.rglob("*.npy"))
        with workers(2, "9GB") as client:
            X, labels = open_split(folder / "train")
            model, before = RidgeFLRML(DIRECTIONS, random_state=0), sent(client)
            taken = seconds(lambda: model.fit(X, labels))
            return {
                "shape": [n, n_words],
                "bytes": size,
                "seconds": taken,
                "sent": sent(client) - before,
                "peak": largest_memory(client),
                "score": float(model.best_score_),
            }


STUDIES: dict[str, Callable[[], dict[str, Any]]] = {
    "text": study_text,
    "voxels": study_voxels,
    "m10-100": study_m10_100,
    "link": study_link,
    "apart": study_apart,
    "products": study_products,
    "descent": study_descent,
    "averaging": study_averaging,
    "wide": study_wide,
    "large": study_large,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument(
        "studies", nargs="*", choices=[*STUDIES, []], help="which to measure (all that are missing)"
    )
    named = parser.parse_args().studies
    kept = TARGET.with_suffix(".json")
    results = read_json(kept) if kept.exists() else {}
    results["cores"] = len(os.sched_getaffinity(0))
    for name in named or [name for name in STUDIES if name not in results]:
        results[name] = STUDIES[name]()
        print(name, results[name], flush=True)
        write_json(kept, results)
    if "link" in results and {"text", "voxels"} & results.keys():
        draw(results, TARGET.with_suffix(".svg"))
    TARGET.write_text(page(results))


if __name__ == "__main__":
    main()
