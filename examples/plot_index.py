"""
Embeddings in a search index
============================

A fitted model writes embeddings as ``.npy`` files with the names of their rows. Any index reads them; here it is
``usearch``, which ``pip install 'flrml[embeddings]'`` brings. The index answers without comparing a query with all
rows, so it may miss a neighbour; recall says how often it does not.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from usearch.index import Index

from flrml import RidgeFLRML
from flrml.embeddings import save_embeddings
from flrml.neighbors import nearest

random = np.random.default_rng(0)
centers = random.standard_normal((400, 24)) @ random.standard_normal((24, 256))
y = random.integers(0, len(centers), 21_000)
X = (centers[y] + 12 * random.standard_normal((len(y), 256))).astype(np.float32)
gallery, queries = X[:20_000], X[20_000:]
model = RidgeFLRML(32, max_samples=5000, random_state=0).fit(gallery, y[:20_000])
folder = Path(tempfile.mkdtemp())
names = [f"document-{number}" for number in range(len(gallery))]
save_embeddings(folder / "gallery", model.transform(gallery), names, dtype="float16")

# %%
# From here on, only the files are needed, and the model for the queries.

vectors = np.load(folder / "gallery/embeddings.npy", mmap_mode="r")
names = (folder / "gallery/names.txt").read_text().splitlines()
index = Index(ndim=vectors.shape[1], metric="cos", dtype="f16", expansion_search=256)
index.add(np.arange(len(vectors)), vectors)
embedded = model.transform(queries)
found = index.search(embedded.astype(np.float16), 10).keys
print(f"nearest to the first query: {[names[key] for key in found[0, :3]]}")

# %%
# The same neighbours as by brute force, from files of a sixteenth of the size.

exact = nearest(model.transform(gallery), embedded, 10)[0]
recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), exact.tolist(), strict=True)])
before = nearest(gallery, queries, 10)[0]
index.save(folder / "index.usearch")
sizes = {
    "rows, float32": gallery.nbytes,
    "embeddings, float16": (folder / "gallery/embeddings.npy").stat().st_size,
    "index, which contains them": (folder / "index.usearch").stat().st_size,
}
right = [(y[:20_000][each] == y[20_000:, None]).mean() for each in (before, exact, found)]
print(f"recall of the index: {recall:.3f}")
figure, axes = plt.subplots(figsize=(6.5, 2.2), layout="constrained")
bars = axes.barh(list(sizes), [size / 1e6 for size in sizes.values()], color=["grey", "#0072B2", "#56B4E9"])
axes.bar_label(bars, [f"precision at 10: {share:.2f}" for share in right], padding=3)
axes.set(xlabel="MB", xlim=(0, 32))
axes.invert_yaxis()
plt.show()
