import numpy as np
import scipy.linalg

from benchmarks import directions
from flrml import decompose, knn_accuracy
from flrml.ridge.supervision import Labels


def test_the_first_row_is_the_discriminant_analysis_of_class_means(digits, monkeypatch):
    X, y = digits[:2]
    monkeypatch.setattr(directions, "D", 30)
    spectrum = decompose(X, 40, random_state=0)
    V, sigma, g = spectrum @ np.eye(spectrum.rank), spectrum.singular_values, 0.5
    found = dict(directions.scores(V, sigma, y, g, seed=3))

    kept, held = Labels(y).folds(np.random.RandomState(3))[0]
    Z, z, n = V[kept] * sigma, y[kept], len(kept)
    contrasts = [Z[z == label].sum(axis=0) for label in z]
    A = np.array(
        [
            own / np.sum(z == label) - (Z.sum(axis=0) - own) / (n - np.sum(z == label))
            for label, own in zip(z, contrasts, strict=True)
        ]
    )
    H = (Z.T @ A + A.T @ Z) / 2
    k, P = scipy.linalg.eigh(H, Z.T @ Z + g * np.mean(sigma**2) * np.eye(len(sigma)))
    B = (P * np.sqrt(np.maximum(k, 0)))[:, -9:]
    assert found["expectation, 9 directions"] == knn_accuracy(Z @ B, z, V[held] * sigma @ B, y[held])
    assert len(found) == 9
    assert min(found.values()) > 0.8
