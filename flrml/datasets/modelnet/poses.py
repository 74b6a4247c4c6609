"""Turn models into rows: one row per model and pose, made in parallel."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp

from flrml.datasets.parts import Part, Request

MODELS_PER_PROCESS = 16


def voxel_part(
    labels: np.ndarray,
    make_grids: Callable[..., list[np.ndarray]],
    read_models: Callable[[np.ndarray], Iterator[tuple]],
    request: Request,
    size: int,
    origin: str,
) -> Part:
    """Build a part with one row per model and pose.

    A worker process calls ``make_grids(*model, size, n_poses, fill)`` for each model that ``read_models`` yields.
    """
    n_poses, fill = request.options["poses"], request.options["fill"]

    def blocks(rows: np.ndarray) -> Iterator[Any]:
        models = read_models(np.unique(rows // n_poses))
        tasks = (joblib.delayed(make_grids)(*model, size, n_poses, fill) for model in models)
        for grids in _in_parallel(tasks, request.n_jobs):
            bounds = np.cumsum([0] + [len(cells) for cells in grids])
            yield sp.csr_matrix(
                (np.ones(bounds[-1], dtype=bool), np.concatenate(grids), bounds), shape=(n_poses, size**3)
            )

    groups = np.repeat(np.arange(len(labels)), n_poses)
    layout = "runs" if fill == "solid" else "binary"
    return Part(np.repeat(labels, n_poses), blocks, origin, size**3, layout, groups)


def _in_parallel(tasks: Iterator[Any], n_jobs: int) -> Iterator[list[np.ndarray]]:
    """Yield the results of the tasks in order, with a few models per process in memory at a time."""
    n_jobs = joblib.effective_n_jobs(n_jobs)
    with joblib.Parallel(n_jobs=n_jobs) as parallel:
        while some := list(itertools.islice(tasks, MODELS_PER_PROCESS * n_jobs)):
            yield from parallel(some)
