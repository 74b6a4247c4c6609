"""The thin SVD against scikit-learn's randomized one, at the shapes of TDT2 and MNIST."""

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import randomized_svd

from benchmarks.timing import seconds
from flrml import decompose


def text(n=4_697, n_features=36_771, words=130):
    """Sparse rows with the word frequencies of text."""
    random = np.random.RandomState(0)
    frequency = 1 / (10 + np.arange(n_features))
    columns = random.choice(n_features, size=(n, words), p=frequency / frequency.sum())
    counts = sp.csr_matrix(
        (np.ones(columns.size), columns.ravel(), np.arange(0, n * words + 1, words)), (n, n_features)
    )
    counts.sum_duplicates()
    return normalize(counts.astype(np.float32))


def images(n=60_000, n_features=780):
    """Dense rows with a falling spectrum."""
    random = np.random.RandomState(0)
    basis = random.standard_normal((n_features, n_features)).astype(np.float32)
    scale = (1 / (1 + np.arange(n_features))).astype(np.float32)
    return normalize(random.standard_normal((n, n_features)).astype(np.float32) * scale @ basis)


def error(X, basis, side):
    """What is left of ‖X‖² outside the span of one side's singular vectors, which float32 leaves not quite unit."""
    X, basis = X.astype(np.float64), np.linalg.qr(basis.astype(np.float64))[0]
    captured = X.T @ basis if side == "left" else X @ basis
    total = X.multiply(X).sum() if sp.issparse(X) else np.sum(X**2)
    return max(1 - np.sum(captured**2) / total, 0)


def rows():
    for name, X, rank in (("TDT2", text(), 3_000), ("MNIST", images(), 712)):
        found = {}
        ours = seconds(lambda X=X, rank=rank, found=found: found.update(ours=decompose(X, rank)))
        theirs = seconds(
            lambda X=X, rank=rank, found=found: found.update(theirs=randomized_svd(X, rank, random_state=0))
        )
        S, (left, _, right) = found["ours"], found["theirs"]
        errors = error(X, S.basis, S.side), error(X, left if S.side == "left" else right.T, S.side)
        yield (
            f"thin SVD at {name}'s shape {X.shape[0]:,} × {X.shape[1]:,}, rank {rank:,}",
            "scikit-learn's randomized_svd",
            f"{theirs / ours:.1f}× faster; what is left of ‖X‖²: {errors[0]:.2e} against {errors[1]:.2e}",
        )
