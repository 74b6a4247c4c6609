"""
Embeddings an eighth the size, and better
=========================================

An encoder that was trained on other texts gives vectors of 256 numbers. Labels of the texts at hand tell which
directions matter. The texts are docstrings of Python functions, the classes are the modules that they come from.
The encoder is that of the package ``wordllama``, which ``pip install 'flrml[embeddings]'`` brings.
"""

import inspect
from importlib import import_module

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from flrml import RidgeFLRML, knn_accuracy
from flrml.datasets import embed_wordllama

modules = """
    ast asyncio datetime decimal inspect logging os pathlib socket statistics numpy numpy.linalg numpy.ma
    numpy.random numpy.strings scipy.cluster.hierarchy scipy.fft scipy.integrate scipy.interpolate scipy.linalg
    scipy.ndimage scipy.optimize scipy.signal scipy.sparse.linalg scipy.spatial scipy.special scipy.stats
    sklearn.cluster sklearn.datasets sklearn.linear_model sklearn.metrics sklearn.preprocessing
"""
modules_of = {}
for name in modules.split():
    members = vars(import_module(name))
    for member in [value for key, value in members.items() if not key.startswith("_") and callable(value)]:
        methods = [value for key, value in vars(member).items() if key[0] != "_"] if inspect.isclass(member) else []
        for text in map(inspect.getdoc, [member, *filter(callable, methods)]):
            if text:
                modules_of.setdefault(text[:2000], name)
texts, y = list(modules_of), np.array(list(modules_of.values()))
X = normalize(embed_wordllama(texts))
X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, stratify=y, random_state=0)
print(f"{len(X)} training texts of {len(set(y))} modules, {len(X_test)} test texts")

# %%
# Fewer directions, by principal components and by a metric. The dotted line is the encoder as it is.

sizes = (16, 32, 64, 128)
encoder = knn_accuracy(X, y, X_test, y_test)
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.axhline(encoder, color="grey", linestyle=":", label="cosine, 256 numbers")
for method, colour in ((PCA, "#E69F00"), (RidgeFLRML, "#0072B2")):
    models = [method(size, random_state=0).fit(X, y) for size in sizes]
    accuracies = [knn_accuracy(model.transform(X), y, model.transform(X_test), y_test) for model in models]
    axes.plot(sizes, accuracies, "o-", color=colour, label=method.__name__)
    print(f"{method.__name__:10}", *(f"{value:.3f}" for value in accuracies))
axes.set_xscale("log", base=2)
axes.set_xticks(sizes, [str(size) for size in sizes])
axes.set(xlabel="numbers per text", ylabel="5-NN accuracy")
axes.legend()
plt.show()
