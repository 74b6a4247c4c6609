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
MAX_TRIALS = 25


class Problem(Protocol):
    """A function of P that may know P only through a linear image E(P), such as V P.

    Images are opaque to the search: any object will do.
    """

    def image(self, P: NDArray) -> Any:
        """Return E(P); linear in P."""

    def combine(self, E: Any, a: NDArray, EQ: Any, b: NDArray) -> Any:
        """Return the image of P a + Q b from those of P and Q."""

    def value(self, E: Any) -> float:
        """Return the value at a trial point with image E."""

    def along(self, E: Any, EQ: Any) -> Callable[[NDArray, NDArray], float]:
        """Return the value of E a + EQ b as a function of (a, b), for when many such points are tried."""

    def accept(self, E: Any) -> tuple[float, Callable[[], NDArray]]:
        """Move to the point with image E: return the value to compare trials with, and the gradient on demand.

        The gradient is computed only if the search goes on, before the next call of ``accept``.
        """


@dataclass
class Minimum:
    """The point P at which :func:`minimize` stopped."""

    P: NDArray
    values: list[float] = field(default_factory=list)  # at the start and after every iteration
    steps: list[float] = field(default_factory=list)  # length of that of every iteration
    null_steps: int = 0  # iterations in which no trial decreased the value enough, so that the shortest was taken


class CayleyCurve:
    """The Cayley curve P(τ) = (I + τ/2 W)⁻¹ (I − τ/2 W) P with W = G Pᵀ − P Gᵀ, for the gradient G at P.

    It stays on the manifold and leaves P along minus the projected gradient, G − P Gᵀ P. It lies in the span of
    P and an orthonormal complement Q of at most d columns: P(τ) = P a + Q b with small matrices a and b, for any
    τ. A linear image therefore moves as E(P) a + E(Q) b.
    """

    def __init__(self, P: NDArray, G: NDArray):
        A = P.T @ G
        H = G - P @ A
        self.P = P
        self.Q, B = _complement(P, H)  # G = P PᵀG + Q B
        self.S = np.block([[A - A.T, -B.T], [B, np.zeros((len(B), len(B)))]])
        self.descent = H + P @ (A - A.T)  # the projected gradient

    def coefficients(self, tau: float) -> tuple[NDArray, NDArray]:
        """Return (a, b) of the point P(τ) = P a + Q b."""
        d = self.P.shape[1]
        largest = 1e10 / max(float(np.abs(self.S).max()), 1e-300)  # beyond it the system has no accuracy left
        half, identity = 0.5 * min(tau, largest) * self.S, np.eye(len(self.S))
        C = np.linalg.solve(identity + half, (identity - half)[:, :d])
        if np.abs(C.T @ C - np.eye(d)).max() > 1e-13:  # rounding, for large τ
            C = polar(C)
        return C[:d], C[d:]


def project(P: NDArray, G: NDArray) -> NDArray:
    """Return the gradient on the manifold under the canonical metric: G − P Gᵀ P."""
    return G - P @ (G.T @ P)


def polar(Y: NDArray) -> NDArray:
    """Return the nearest matrix with orthonormal columns: the polar factor of Y."""
    squares, U = np.linalg.eigh(Y.T @ Y)
    if squares[0] > 0.01 * squares[-1]:  # a third of the time of an SVD, and as accurate
        return Y @ ((U / np.sqrt(squares)) @ U.T)
    left, _, right = np.linalg.svd(Y, full_matrices=False)
    return left @ right


def random_point(r: int, d: int, random: np.random.RandomState) -> NDArray:
    """Return a uniformly random r × d matrix with orthonormal columns."""
    Q, R = np.linalg.qr(random.standard_normal((r, d)))
    return Q * np.where(np.diag(R) < 0, -1.0, 1.0)


def minimize(
    problem: Problem,
    P: NDArray,
    *,
    E: Any = None,
    max_iter: int = 20,
    tol: float = 1e-3,
    smallest_step: float = 0.0,
    smallest_move: float = 0.0,
    callback: Callable[[int, Minimum], None] | None = None,
) -> Minimum:
    """Minimise a problem from the point P.

    P and the gradient are kept in float64, so that PᵀP = I holds to rounding; images have the type that the
    problem gives them. E is the image of P, if it is known already. A line search ends without a decrease after 25
    trials, or once the step is at most ``smallest_step``.

    The search stops when the value changes by less than ``tol``, relative to its size plus one, or when the r rows
    of P move by less than ``smallest_move`` √r and the next step is at most ``smallest_step``. If that happens
    within the first two iterations, ``tol`` and ``smallest_move`` are made ten times smaller instead. ``callback``
    is called with the number and the state after every iteration.
    """
    E = problem.image(P) if E is None else E
    P = P.astype(np.float64)
    value, gradient = problem.accept(E)
    state = Minimum(P, [float(value)])
    tau, average, weight = FIRST_STEP, value, 1.0
    moved, descent = np.zeros_like(P), np.zeros_like(P)
    settled = False
    for iteration in range(1, max_iter + 1):
        curve, before = CayleyCurve(P, gradient()), descent
        descent = curve.descent
        # A step that is lost in rounding gives no information on the length of the next.
        if np.linalg.norm(moved) > np.finfo(P.dtype).eps * np.linalg.norm(P):
            tau = _barzilai_borwein(moved, descent - before, iteration - 1)
        stalled = tau <= smallest_step and np.linalg.norm(moved) < smallest_move * np.sqrt(len(P))
        if settled or stalled:
            if iteration > 3:
                break
            tol, smallest_move = 0.1 * tol, 0.1 * smallest_move
        required = SUFFICIENT_DECREASE * float(np.sum(descent * descent))
        if required == 0:
            break
        EQ = problem.image(curve.Q)
        # The image of the first trial is most often the next point's; further trials do without theirs.
        a, b = curve.coefficients(tau)
        E_next = problem.combine(E, a, EQ, b)
        if problem.value(E_next) > average - tau * required:
            value_at, decreased = problem.along(E, EQ), False
            for _ in range(MAX_TRIALS - 1):
                if decreased or tau <= smallest_step:
                    break
                tau *= BACKTRACKING
                a, b = curve.coefficients(tau)
                decreased = value_at(a, b) <= average - tau * required
            state.null_steps += not decreased
            E_next = problem.combine(E, a, EQ, b)
        P_next, E = P @ a + curve.Q @ b, E_next
        P, moved = P_next, P_next - P
        previous, (value, gradient) = value, problem.accept(E)
        state.P = P
        state.steps.append(tau)
        state.values.append(float(value))
        if callback is not None:
            callback(iteration, state)
        settled = abs(previous - value) / (abs(previous) + 1) < tol
        if settled and iteration > 2:
            break
        # Zhang–Hager: compare with a decaying average of the values so far, not with the last one.
        weight, kept = AVERAGING * weight + 1, AVERAGING * weight
        average = (kept * average + value) / weight
    return state


def retract(
    problem: Problem,
    P: NDArray,
    *,
    E: Any = None,
    max_iter: int = 20,
    tol: float = 1e-3,
    callback: Callable[[int, Minimum], None] | None = None,
) -> Minimum:
    """Minimise a problem by unit steps against the projected gradient, each retracted to the manifold.

    The search that Cayley curves are compared with; parameters are those of :func:`minimize`.
    """
    E = problem.image(P) if E is None else E
    P = P.astype(np.float64)
    value, gradient = problem.accept(E)
    state = Minimum(P, [float(value)])
    for iteration in range(1, max_iter + 1):
        P = polar(P - project(P, gradient()))
        E = problem.image(P)
        previous, (value, gradient) = value, problem.accept(E)
        state.P = P
        state.steps.append(1.0)
        state.values.append(float(value))
        if callback is not None:
            callback(iteration, state)
        if abs(previous - value) / (abs(previous) + 1) < tol:
            break
    return state


def _complement(P: NDArray, H: NDArray) -> tuple[NDArray, NDArray]:
    """Return Q with orthonormal columns, orthogonal to P, and B with H = Q B, for H orthogonal to P.

    Two rounds of Cholesky are several times faster than QR; QR serves if they are not accurate enough. All is
    NumPy's: SciPy has a second BLAS, whose threads would wait for the cores that those of the first still hold.
    """
    r, d = P.shape
    if r >= 2 * d:
        try:
            R = np.linalg.cholesky(H.T @ H).T
            Q = H @ np.linalg.inv(R)
            Q -= P @ (P.T @ Q)  # what rounding left of P in H, relative to a small H no longer small
            R_again = np.linalg.cholesky(Q.T @ Q).T
            Q, B = Q @ np.linalg.inv(R_again), R_again @ R
            if np.abs(Q.T @ Q - np.eye(d)).max() < 1e-13:
                return Q, B
        except np.linalg.LinAlgError:
            pass
    basis, R = np.linalg.qr(np.hstack((P, H)))
    return basis[:, d:], R[d:, d:]


def _barzilai_borwein(moved: NDArray, turned: NDArray, iteration: int) -> float:
    """Step from the last move ΔP and change of the projected gradient, long and short form in turns."""
    inner = abs(float(np.sum(moved * turned)))
    if inner == 0:
        return FIRST_STEP
    if iteration % 2 == 0:
        tau = float(np.sum(moved * moved)) / inner
    else:
        tau = inner / float(np.sum(turned * turned))
    return max(min(tau, 1e20), 1e-20)
