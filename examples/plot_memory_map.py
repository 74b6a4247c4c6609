"""
A file larger than memory
=========================

Rows on disk are read block by block, never as a whole. Here the training rows are a file of 400 MB; the same code
works for one that no memory holds.
"""

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from flrml import MFLRML, RidgeFLRML, knn_accuracy

n, D, n_classes = 50_000, 2_000, 10
random = np.random.RandomState(0)
centers = random.standard_normal((n_classes, D)).astype(np.float32)
y = random.randint(n_classes, size=n + 1000)
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "X.npy"
X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n + 1000, D))
for start in range(0, len(X), 1000):
    rows = centers[y[start : start + 1000]] + 6 * random.standard_normal((len(X[start : start + 1000]), D))
    X[start : start + 1000] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
X.flush()
X = np.load(path, mmap_mode="r")
print(f"{path.stat().st_size / 2**20:.0f} MB on disk")

# %%
# M-FLRML reads only the rows of its mini-batches; RidgeFLRML reads all of them several times, or a share.

rows = []
for model in (MFLRML(9, random_state=0), RidgeFLRML(9, max_samples=5000, random_state=0)):
    start = time.perf_counter()
    model.fit(X[:n], y[:n])
    seconds = time.perf_counter() - start
    some = slice(0, 5000)
    accuracy = knn_accuracy(model.transform(X[some]), y[some], model.transform(X[n:]), y[n:])
    rows.append((type(model).__name__, accuracy, seconds))
    print(f"{rows[-1][0]:12} accuracy {accuracy:.3f} in {seconds:.1f} s")

figure, axes = plt.subplots(figsize=(6, 2), layout="constrained")
bars = axes.barh([row[0] for row in rows], [row[1] for row in rows], color=["#009E73", "#0072B2"])
axes.bar_label(bars, [f"{row[1]:.3f} in {row[2]:.1f} s" for row in rows], padding=3)
axes.set(xlabel="5-NN accuracy", xlim=(0, 1.25))
plt.show()
folder.cleanup()
