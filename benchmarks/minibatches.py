"""M-FLRML on a million features, with X on disk: time against reading the batches, and peak memory."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.timing import seconds

ROWS, FEATURES, NONZEROS = 6_000, 1_000_000, 20_000

WORK = """
import json, re, sys, time
import numpy as np
from flrml import MFLRML, BinaryRows
from flrml.rows import gram

def peak():
    # getrusage also counts what the process held before it executed this program.
    return int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) / 2**10

folder, what = sys.argv[1:]
arrays = (np.load(f"{folder}/{name}.npy", mmap_mode="r") for name in ("indptr", "indices"))
X = BinaryRows(*arrays, 1_000_000, check=False)
y = np.load(f"{folder}/y.npy")
before, start = peak(), time.perf_counter()
if what == "learn":
    model = MFLRML(100, n_batches=20, batch_triplets=80, random_state=0)
    model.fit(X, y)
else:
    random = np.random.RandomState(0)
    for _ in range(20):
        gram(X[np.sort(random.choice(len(y), 239, replace=False))])
print(json.dumps([time.perf_counter() - start, peak() - before]))
"""


def write(folder: Path) -> None:
    """Binary rows, in blocks of neighbouring columns as voxels have them."""
    random = np.random.RandomState(0)
    np.save(folder / "indptr.npy", np.arange(ROWS + 1, dtype=np.int64) * NONZEROS)
    indices = np.lib.format.open_memmap(folder / "indices.npy", "w+", np.int32, (ROWS * NONZEROS,))
    for row in range(ROWS):
        runs = np.sort(random.choice(FEATURES // 20, NONZEROS // 20, replace=False))
        indices[row * NONZEROS : (row + 1) * NONZEROS] = (runs[:, None] * 20 + np.arange(20)).ravel()
    indices.flush()
    np.save(folder / "y.npy", np.arange(ROWS) % 10)


def measure(folder: Path, what: str) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-c", WORK, str(folder), what], capture_output=True, text=True, check=True
    )
    return tuple(json.loads(done.stdout))


def rows():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seconds(lambda: write(folder))
        measure(folder, "read")  # the same state of the disk cache for both
        turns = [(measure(folder, "learn"), measure(folder, "read")) for _ in range(3)]
    learning, reading = zip(*turns, strict=True)
    ratio = min(t for t, _ in learning) / min(t for t, _ in reading)
    yield (
        "M-FLRML, D = 1,000,000, 20,000 non-zeros a row on disk, N_t = 80, T = 20, d = 100",
        "reading the batches and forming their Gram matrices",
        f"{ratio:.1f}× the time; peak memory {max(m for _, m in learning):,.0f} MB above the interpreter",
    )
