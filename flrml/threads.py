"""Limit the threads of BLAS, whose waiting threads hold cores that other work needs."""

import functools
from contextlib import AbstractContextManager

from threadpoolctl import ThreadpoolController


@functools.cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # finding them takes as long as a mini-batch


def one_blas_thread() -> AbstractContextManager:
    """Return a context in which BLAS has one thread: for small matrices more are no faster."""
    return _libraries().limit(limits=1, user_api="blas")
