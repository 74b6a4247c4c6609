"""Implicit against literal FLRML iterations, how the implicit ones grow, and what a busy core costs them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from benchmarks.timing import exponent, seconds, side_by_side
from flrml import Spectrum, draw_triplets, stiefel
from flrml.loss import LossRows, MarginLoss
from flrml.rows.threads import one_blas_thread
from flrml.triplets import contrast_matrix
from tests.literal import LiteralLoss

ITERATIONS = 3


def problem(n, r, d, dtype):
    """A loss on an orthonormal V of the given size, and a start."""
    random = np.random.RandomState(0)
    y = random.randint(0, 20, n)
    V = random.standard_normal((n, r)) + 2 * random.standard_normal((20, r))[y]
    R = np.linalg.cholesky(V.T @ V)
    V = np.linalg.solve(R, V.T).T.astype(dtype)
    contrasts = contrast_matrix(draw_triplets(y, 5, 0), n, dtype)
    spectrum = Spectrum(np.ones(r, dtype=dtype), np.ascontiguousarray(V), "left", None, "", {})
    loss = MarginLoss(LossRows(spectrum, contrasts))
    P = stiefel.random_point(r, d, random)
    E = loss.image(P)
    loss.start(E)
    return loss, P, E


def descend(loss, P, E=None):
    return stiefel.minimize(loss, P, E=E, max_iter=ITERATIONS, tol=0)


def compare(n, r, d, dtype, repeats):
    loss, P, E = problem(n, r, d, dtype)
    literal_loss = LiteralLoss(loss.rows.spectrum.basis, loss.rows.contrasts, loss.margin, loss.active.copy())
    start = loss.active.copy()

    def fast():
        loss.active = start.copy()
        return descend(loss, P, E)

    def literal():
        literal_loss.active = start.copy()
        literal_loss._build()
        return descend(literal_loss, P)

    apart = np.max(np.abs(np.array(fast().values) / literal().values - 1))
    ours, theirs = side_by_side(fast, literal, repeats)
    return theirs / ours, apart


def growth(**sizes):
    """Exponent of the time per iteration as one of n, r, d grows and the others stay."""
    times = {name: [] for name in sizes}
    base = {"n": 16_000, "r": 1_000, "d": 100}
    for name, values in sizes.items():
        for value in values:
            given = problem(**(base | {name: value}), dtype=np.float32)
            times[name].append(min(seconds(lambda given=given: descend(*given)) for _ in range(3)))
    return ", ".join(f"{name}^{exponent(sizes[name], times[name]):.2f}" for name in sizes)


@contextmanager
def taken_core() -> Iterator[None]:
    """Keep one core busy by another process."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        busy.kill()
        busy.wait()


def robustness(repeats=3):
    """Ratio of the time with one core taken to that on free cores, with our threads and with those of BLAS."""
    given = problem(60_000, 780, 100, np.float32)

    def ours():
        with one_blas_thread():
            descend(*given)

    free = side_by_side(ours, lambda: descend(*given), repeats)
    with taken_core():
        taken = side_by_side(ours, lambda: descend(*given), repeats)
    return taken[0] / free[0], taken[1] / free[1], free[0] / free[1]


def rows():
    for n, r, repeats in ((16_000, 3_000, 4), (60_000, 780, 3)):
        for dtype in (np.float64, np.float32):
            ratio, apart = compare(n, r, 100, dtype, repeats)
            yield (
                f"FLRML iteration, n = {n:,}, r = {r:,}, d = 100, {np.dtype(dtype)}",
                "the paper's algorithm with its r × r matrix",
                f"{ratio:.1f}× faster, objective equal to {apart:.0e}",
            )
    ours, blas, alike = robustness()
    yield (
        "FLRML iteration, n = 60,000, r = 780, float32, one core taken by another process",
        "the same on free cores",
        f"{ours:.1f}× the time, with BLAS's own threads {blas:.1f}×; on free cores {alike:.2f}× the time of those",
    )
    found = growth(n=[8_000, 16_000, 32_000], r=[500, 1_000, 2_000], d=[50, 100, 200])
    yield "FLRML iteration as it grows, float32", "n = 16,000, r = 1,000, d = 100", f"time ~ {found}"
