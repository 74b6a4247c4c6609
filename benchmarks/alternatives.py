"""FLRML against what one would pick instead: NCA, LDA, and cosine 5-NN on the data themselves."""

import gzip
import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import normalize

from benchmarks.timing import seconds
from flrml import FLRML, MFLRML, knn_accuracy
from flrml.reference import ReferenceFLRML


def mnist_subset():
    """Return 5,000 of MNIST's training digits, if the raw files are available."""
    folder = Path(os.environ.get("FLRML_RAW_DIR", Path(__file__).parents[2] / "shared" / "data")) / "mnist"
    if not folder.is_dir():
        return None
    with (
        gzip.open(folder / "train-images-idx3-ubyte.gz") as images,
        gzip.open(folder / "train-labels-idx1-ubyte.gz") as y,
    ):
        pixels = np.frombuffer(images.read(), np.uint8, offset=16).reshape(-1, 784)
        labels = np.frombuffer(y.read(), np.uint8, offset=8)
    return pixels[:5_000].astype(np.float32), labels[:5_000]


def rows():
    for name, data, d in (
        ("digits", load_digits(return_X_y=True), 30),
        ("MNIST, 5,000 samples", mnist_subset(), 50),
    ):
        if data is None:
            continue
        X, X_test, y, y_test = train_test_split(normalize(data[0]), data[1], test_size=0.2, random_state=0)
        methods = {
            "FLRML (paper)": FLRML(d, random_state=0),
            "FLRML (reference)": ReferenceFLRML(d, random_state=0),
            "M-FLRML (paper)": MFLRML(d, random_state=0),
            "NCA": NeighborhoodComponentsAnalysis(d, max_iter=50, random_state=0),
            "LDA": LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
        }
        times, accuracy = {}, {"cosine on X": knn_accuracy(X, y, X_test, y_test)}
        for method, model in methods.items():
            times[method] = seconds(lambda model=model, X=X, y=y: model.fit(X, y))
            accuracy[method] = knn_accuracy(model.transform(X), y, model.transform(X_test), y_test)
        for method in ("FLRML (reference)", "M-FLRML (paper)", "NCA", "LDA", "cosine on X"):
            speed = (
                f"FLRML takes {times['FLRML (paper)'] / times[method]:.2g}× its time; " if method in times else ""
            )
            yield (
                f"FLRML (paper) on {name}, d = {d}, SVD included",
                method,
                f"{speed}5-NN {100 * accuracy['FLRML (paper)']:.1f} % against {100 * accuracy[method]:.1f} %",
            )
