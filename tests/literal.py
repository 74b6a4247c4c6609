"""FLRML as the paper writes it, with the explicit r × r matrix K: slow, and the oracle of the fast form."""

import numpy as np

from flrml.loss import objective, slope, softplus


def z_by_loops(Y, triplets):
    """z_i = (sum of negatives − sum of positives) · y_i / (t_i + 1), one triplet at a time."""
    z, t = np.zeros(len(Y)), np.zeros(len(Y))
    for i, j, k in triplets:
        z[i] += Y[k] @ Y[i] - Y[j] @ Y[i]
        t[i] += 1
    return z / (t + 1)


class LiteralLoss:
    """The margin loss as a function of P through K = −Vᵀ A Λ V."""

    def __init__(self, V, contrasts, margin, active):
        self.V, self.contrasts, self.margin, self.active = V, contrasts, margin, active
        self._build()

    def _build(self):
        self.K = -self.V.T @ (self.contrasts.T @ (self.active[:, None] * self.V))

    def k(self, P):
        """−diag(Pᵀ K P)."""
        return -np.einsum("ij,ij->j", P, self.K @ P)

    def image(self, P):
        return P.astype(self.V.dtype)

    def combine(self, P, a, Q, b):
        return P @ a.astype(P.dtype) + Q @ b.astype(P.dtype)

    def value(self, P):
        return objective(self.k(P), self.margin, self.active.sum())

    def along(self, P, Q):
        return lambda a, b: self.value(P @ a.astype(P.dtype) + Q @ b.astype(P.dtype))

    def gradient(self, P):
        return -((self.K + self.K.T) @ P) * slope(self.k(P))

    def accept(self, P):
        s = softplus(self.k(P))
        E = self.V @ P
        z = -(E * (self.contrasts @ E)) @ s
        self.active = (z + self.margin > 0).astype(self.V.dtype)
        self._build()
        self.s = softplus(self.k(P))
        return self.value(P), lambda: self.gradient(P).astype(np.float64)
