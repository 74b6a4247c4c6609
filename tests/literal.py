"""FLRML as the paper writes it, with the explicit r × r matrix K: slow, and the oracle of the fast form.

Also the search of the authors' code, step by step.
"""

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


def authors_search(problem, P, max_iter=20, ftol=1e-3, xtol=1e-6, tautol=1e-10):
    """Return the values, steps and numbers of trials of the authors' curvilinear search.

    The problem is its own image. At most 25 trials, fewer once a step is at most tautol; the descent ends when the
    value changes by less than ftol, or P by less than xtol while the next step is at most tautol, but in the first
    two iterations that divides both tolerances by ten.
    """
    value, gradient = problem.accept(P)
    G = gradient()
    descent = G - P @ (G.T @ P)
    average, weight, tau = value, 1.0, 1e-3
    values, steps, trials = [value], [], []
    for iteration in range(1, max_iter + 1):
        before, before_descent, before_value = P, descent, value
        U, V = np.hstack((G, P)), np.hstack((P, -G))
        required = 1e-4 * np.sum(descent**2)
        n_trials = 1
        while True:
            P = before - tau * U @ np.linalg.solve(np.eye(U.shape[1]) + tau / 2 * V.T @ U, V.T @ before)
            if problem.value(P) <= average - tau * required or n_trials >= 25 or tau <= tautol:
                break
            tau, n_trials = 0.2 * tau, n_trials + 1
        steps.append(tau)
        trials.append(n_trials)
        value, gradient = problem.accept(P)
        values.append(value)
        G = gradient()
        descent = G - P @ (G.T @ P)
        moved, turned = P - before, descent - before_descent
        inner = abs(np.sum(moved * turned))
        tau = np.sum(moved**2) / inner if iteration % 2 == 0 else inner / np.sum(turned**2)
        tau = max(min(tau, 1e20), 1e-20)
        change = abs(before_value - value) / (abs(before_value) + 1)
        if (np.linalg.norm(moved) / np.sqrt(len(P)) < xtol and tau <= tautol) or change < ftol:
            if iteration > 2:
                break
            ftol, xtol = 0.1 * ftol, 0.1 * xtol
        weight, kept = 0.85 * weight + 1, 0.85 * weight
        average = (kept * average + value) / weight
    return values, steps, trials
