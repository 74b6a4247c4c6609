"""RidgeFLRML in a text pipeline: tf-idf, RidgeFLRML and 5-NN compared with linear classifiers on the same features.

Data sets that are not in the folder FLRML_PREPARED are prepared first; made-up documents stand in if none can be.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from benchmarks.prepared import prepared
from benchmarks.ridge import documents
from benchmarks.timing import seconds
from flrml import RidgeFLRML
from flrml.pipeline.stages.inputs import load_rows

TEXT = ("newsgroups", "r8", "r52")
CLASSIFIERS = {
    "cosine": KNeighborsClassifier(5, metric="cosine"),
    "LogisticRegression": LogisticRegression(max_iter=1000),
    "RidgeClassifier": RidgeClassifier(),
    "LinearSVC": LinearSVC(),
}
LEARNED = make_pipeline(RidgeFLRML(random_state=0), KNeighborsClassifier(5, metric="cosine"))


def texts() -> Iterator[tuple[str, Any, np.ndarray, Any, np.ndarray]]:
    """Yield name, training rows and labels, test rows and labels."""
    found = False
    for name in TEXT:
        with prepared(name) as folder:
            if folder is not None:
                found = True
                yield name, *load_rows(folder / "train"), *load_rows(folder / "test")
    if not found:
        X, y = documents(4000, 20_000, 20)
        yield "made-up documents", X[:3000], y[:3000], X[3000:], y[3000:]


def term_counts(X: sp.csr_matrix) -> sp.csr_matrix:
    """Return the counts behind rows of unit length, up to a factor common to a row: its rarest term counts 1."""
    smallest = np.array([X.data[a:b].min() if b > a else 1 for a, b in pairwise(X.indptr)])
    return sp.csr_matrix((np.rint(X.data / np.repeat(smallest, np.diff(X.indptr))), X.indices, X.indptr), X.shape)


def compare(X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> dict[str, tuple[float, float]]:
    """Return accuracy and time of a fit and the test rows' prediction, of every classifier on tf-idf features."""
    X, X_test = term_counts(X), term_counts(X_test)
    weighting = TfidfTransformer(sublinear_tf=True).fit(X)
    X, X_test = weighting.transform(X), weighting.transform(X_test)
    scores = {}
    for name, classifier in {"RidgeFLRML": LEARNED, **CLASSIFIERS}.items():
        model, accuracy = clone(classifier), []
        time = seconds(lambda model=model, found=accuracy: found.append(model.fit(X, y).score(X_test, y_test)))
        scores[name] = (100 * accuracy[0], time)
    return scores


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield the rows of the table."""
    for name, *data in texts():
        scores = compare(*data)
        accuracy, time = scores.pop("RidgeFLRML")
        for other, (other_accuracy, other_time) in scores.items():
            outcome = f"{accuracy:.1f} % against {other_accuracy:.1f} %, {time / other_time:.2g}× its time"
            yield f"tf-idf, RidgeFLRML and 5-NN on {name}", other, outcome
