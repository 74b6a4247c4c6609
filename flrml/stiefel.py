"""Minimisation over matrices with orthonormal columns: the Stiefel manifold {P : PᵀP = I}.

The search follows Cayley curves with Barzilai–Borwein steps and a non-monotone line search (Wen & Yin, "A
feasible method for optimization with orthogonality constraints", Mathematical Programming 2013).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

SUFFICIENT_DECREASE = 1e-4  # ρ
BACKTRACKING = 0.2
AVERAGING = 0.85
FIRST_STEP = 1e-3
SMALLEST_STEP, LARGEST_STEP = 1e-20, 1e20
MAX_TRIALS = 25


class Problem(Protocol):
    """A function of P that may know P only through a linear image E(P), such as V P."""

    def image(self, P: NDArray) -> NDArray:
        """Return E(P); linear in P."""

    def value(self, E: NDArray) -> float:
        """Return the value at a trial point with image E."""

    def along(self, E: NDArray, EG: NDArray) -> Callable[[NDArray, NDArray], float]:
        """Return the value of E a + EG b as a function of (a, b), for when many such points are tried."""

    def accept(self, E: NDArray) -> tuple[float, NDArray]:
        """Move to the point with image E: return the value to compare trials with, and the gradient there."""


@dataclass
class Minimum:
    """Where :func:`minimize` stopped.

    Attributes
    ----------
    P, E : ndarray
        The point and its image.
    values : list of float
        Value at the start and after every iteration.
    steps : list of float
        Step length of every iteration.
    converged : bool
        Whether the relative change of the value fell below the tolerance.
    """

    P: NDArray
    E: NDArray
    values: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    converged: bool = False


class CayleyCurve:
    """The curve P(τ) = P − τ U (I + τ/2 VᵀU)⁻¹ Vᵀ P with U = [G, P] and V = [P, −G].

    It stays on the manifold and leaves P along minus the projected gradient, G − P Gᵀ P. Every point is
    P a + G b with d × d matrices a and b, so a linear image moves as E(P) a + E(G) b.

    Parameters
    ----------
    P : ndarray of shape (r, d)
        Start, with orthonormal columns.
    G : ndarray of shape (r, d)
        Gradient at P.
    """

    def __init__(self, P: NDArray, G: NDArray):
        self.P, self.G = P, G
        PtG = P.T @ G
        self.VtP = np.vstack((np.eye(P.shape[1], dtype=P.dtype), -PtG.T))
        self.VtU = np.block([[PtG, np.eye(len(PtG), dtype=P.dtype)], [-G.T @ G, -PtG.T]])

    def coefficients(self, tau: float) -> tuple[NDArray, NDArray]:
        """Return (a, b) of the point P(τ) = P a + G b."""
        d = self.P.shape[1]
        system = np.eye(2 * d) + 0.5 * tau * self.VtU.astype(np.float64)
        solution = -tau * np.linalg.solve(system, self.VtP.astype(np.float64))
        b, a = solution[:d], np.eye(d) + solution[d:]
        return a.astype(self.P.dtype), b.astype(self.P.dtype)

    def at(self, tau: float) -> NDArray:
        """Return P(τ)."""
        a, b = self.coefficients(tau)
        return self.P @ a + self.G @ b


def project(P: NDArray, G: NDArray) -> NDArray:
    """Gradient on the manifold under the canonical metric: G − P Gᵀ P."""
    return G - P @ (G.T @ P)


def polar(Y: NDArray) -> NDArray:
    """Nearest matrix with orthonormal columns: the polar factor of Y."""
    left, _, right = np.linalg.svd(Y, full_matrices=False)
    return left @ right


def random_point(r: int, d: int, random: np.random.RandomState, dtype: Any = np.float64) -> NDArray:
    """Uniformly random r × d matrix with orthonormal columns."""
    Q, R = np.linalg.qr(random.standard_normal((r, d)))
    return (Q * np.where(np.diag(R) < 0, -1.0, 1.0)).astype(dtype)


def minimize(
    problem: Problem,
    P: NDArray,
    *,
    E: NDArray | None = None,
    max_iter: int = 20,
    tol: float = 1e-3,
    callback: Callable[[int, Minimum], None] | None = None,
) -> Minimum:
    """Minimise a problem from the point P.

    Parameters
    ----------
    problem : Problem
        Value, gradient and linear image.
    P : ndarray of shape (r, d)
        Start, with orthonormal columns.
    E : ndarray, optional
        The image of P, where it is known already.
    max_iter : int
        Largest number of iterations.
    tol : float
        Stop where the value changes by less than this, relative to its size plus one. Met within the first two
        iterations, the tolerance is made ten times smaller instead.
    callback : callable, optional
        Called with the iteration's number and the state so far after every iteration.
    """
    E = problem.image(P) if E is None else E
    value, G = problem.accept(E)
    state = Minimum(P, E, [float(value)])
    descent = project(P, G)
    tau, average, weight = FIRST_STEP, value, 1.0
    for iteration in range(1, max_iter + 1):
        curve, EG = CayleyCurve(P, G), problem.image(G)
        required = SUFFICIENT_DECREASE * float(np.sum(descent * descent))
        if required == 0:
            state.converged = True
            break
        # The image of the first trial is most often the next point's; further trials do without theirs.
        a, b = curve.coefficients(tau)
        E_next = E @ a + EG @ b
        if problem.value(E_next) > average - tau * required:
            value_at = problem.along(E, EG)
            for _ in range(MAX_TRIALS - 1):
                tau *= BACKTRACKING
                a, b = curve.coefficients(tau)
                if value_at(a, b) <= average - tau * required:
                    break
            E_next = E @ a + EG @ b
        P_next, E = _restored(P @ a + G @ b, E_next)
        state.steps.append(tau)
        previous, (value, G) = value, problem.accept(E)
        moved, descent_next = P_next - P, project(P_next, G)
        tau = _barzilai_borwein(moved, descent_next - descent, iteration)
        P, descent = P_next, descent_next
        state.P, state.E = P, E
        state.values.append(float(value))
        if callback is not None:
            callback(iteration, state)
        if abs(previous - value) / (abs(previous) + 1) < tol:
            if iteration > 2:
                state.converged = True
                break
            tol *= 0.1
        # Zhang–Hager: compare with a decaying average of the values so far, not with the last one.
        weight, before = AVERAGING * weight + 1, AVERAGING * weight
        average = (before * average + value) / weight
    return state


def _barzilai_borwein(moved: NDArray, turned: NDArray, iteration: int) -> float:
    """Step from the last move ΔP and change of the projected gradient, long and short form in turns."""
    inner = abs(float(np.sum(moved * turned)))
    if inner == 0:
        return FIRST_STEP
    if iteration % 2 == 0:
        tau = float(np.sum(moved * moved)) / inner
    else:
        tau = inner / float(np.sum(turned * turned))
    return max(min(tau, LARGEST_STEP), SMALLEST_STEP)


def _restored(P: NDArray, E: NDArray) -> tuple[NDArray, NDArray]:
    """Take rounding errors off PᵀP = I, in P and in its image alike."""
    drift = P.T @ P - np.eye(P.shape[1], dtype=P.dtype)
    if np.abs(drift).max() > 1e3 * np.finfo(P.dtype).eps:
        back = np.eye(P.shape[1], dtype=P.dtype) - drift / 2 + 0.375 * (drift @ drift)
        return P @ back, E @ back
    return P, E
