"""Share work over threads, without BLAS threads that spin while idle."""

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from threadpoolctl import ThreadpoolController

Piece = TypeVar("Piece")
Outcome = TypeVar("Outcome")

_state = threading.local()


@functools.cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # the search takes as long as a mini-batch


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Give BLAS one thread: more do not speed up small matrices, and threads share the rows of large products."""
    outside = has_one_blas_thread()
    with _libraries().limit(limits=1, user_api="blas"):
        _state.one = True
        try:
            yield
        finally:
            _state.one = outside


def has_one_blas_thread() -> bool:
    """Return whether this thread is inside :func:`one_blas_thread`."""
    return getattr(_state, "one", False)


def n_threads() -> int:
    """Return the number of threads that share products: OMP_NUM_THREADS, or the cores of this process."""
    setting = os.environ.get("OMP_NUM_THREADS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(setting) if setting.isdigit() and int(setting) > 0 else cores


def one_ahead(work: Callable[[Piece], Outcome], items: Iterable[Piece]) -> Iterator[Outcome]:
    """Yield the result of the work on each item, while a thread works on the next one."""
    if n_threads() == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(1) as pool:
        started = None
        for item in items:
            coming = pool.submit(work, item)
            if started is not None:
                yield started.result()
            started = coming
        if started is not None:
            yield started.result()


def in_threads(work: Callable[[Piece], None], pieces: Iterable[Piece]) -> None:
    """Run the pieces of work in threads; products of SciPy and NumPy release the interpreter lock."""
    if n_threads() > 1 and len(pieces := list(pieces)) > 1:
        with ThreadPoolExecutor(n_threads()) as pool:
            list(pool.map(work, pieces))
    else:
        for piece in pieces:
            work(piece)


def share(n: int) -> int:
    """Return the length of pieces of n: four per thread, so that one on a busy core does not delay all."""
    return max(1, -(-n // (4 * n_threads())))


def slices(n: int, step: int) -> list[slice]:
    """Return slices of n, each of that length but perhaps the last."""
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
