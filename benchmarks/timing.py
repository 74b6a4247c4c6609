"""Time two things in turns, so that a busy machine slows both alike."""

import time
from collections.abc import Callable

import numpy as np


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def side_by_side(one: Callable[[], object], other: Callable[[], object], repeats: int = 3) -> tuple[float, float]:
    """Smallest time of each over several turns."""
    times = [(seconds(one), seconds(other)) for _ in range(repeats)]
    return min(t for t, _ in times), min(t for _, t in times)


def exponent(sizes: list[float], times: list[float]) -> float:
    """Slope of log time against log size."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
