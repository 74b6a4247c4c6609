"""RidgeFLRML written down literally, with dense matrices of all features: slow, and meant to be read."""

import numpy as np
import scipy.linalg


def mean_square_of_a_row(X):
    return np.sum(X**2) / len(X)


def contrasts(y):
    """A: the mean of the class minus that of the rest, for each row; a class of one row counts for nothing."""
    same = y[:, None] == y
    A = same / same.sum(axis=1)[:, None] - ~same / (~same).sum(axis=1)[:, None]
    return A * (same.sum(axis=1) > 1)[:, None]


def closed_form(X, A, y, ridge, within, local, d):
    """Weights k and the map Lᵀ (D × d). ``y`` may be None."""
    M = X.T @ X + ridge * mean_square_of_a_row(X) * np.eye(X.shape[1])
    for label in [] if y is None else set(y):
        rows = X[y == label]
        M -= within * len(rows) * np.outer(rows.mean(axis=0), rows.mean(axis=0))
    H = X.T @ ((1 - local) * (A + A.T) / 2 + local * np.eye(len(X))) @ X
    k, P = (part[..., ::-1][..., :d] for part in scipy.linalg.eigh(H, M))
    s = np.maximum(k, 0) if local < 1 else np.ones(d)
    return s, P * np.sqrt(s)


def ridge_regression(X, y, ridge):
    """W (D × C) = Xᵀ (K + γ)⁻¹ Y for the class indicators Y."""
    gamma = ridge * mean_square_of_a_row(X)
    return X.T @ np.linalg.solve(X @ X.T + gamma * np.eye(len(X)), np.eye(y.max() + 1)[y])
