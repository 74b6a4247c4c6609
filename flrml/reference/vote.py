"""The vote of the authors' code."""

import numpy as np
from numpy.typing import NDArray


def farthest_vote(labels: NDArray, distances: NDArray) -> NDArray:
    """Choose the class with the largest sum of squared distances, so that farther neighbours weigh more.

    The authors' code votes like this; the paper describes 5-NN. Pass it as ``vote`` to
    :func:`flrml.knn_accuracy`.

    Parameters
    ----------
    labels : ndarray of shape (n, k)
        Labels of the neighbours of each row, nearest first.
    distances : ndarray of shape (n, k)
        Their squared distances.
    """
    same = labels[:, :, None] == labels[:, None, :]
    weight = (same * distances[:, None, :]).sum(axis=2)
    return np.take_along_axis(labels, weight.argmax(axis=1)[:, None], axis=1)[:, 0]
