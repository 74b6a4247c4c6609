"""Turn models into rows: one row per model and pose, made in parallel."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp

from flrml.datasets.parts import Part, Request

MODELS_PER_PROCESS = 16
# The function that makes the grids of a model, and its arguments: what is sent to a worker process.
Task = tuple[Callable[..., list[np.ndarray]], tuple]


def voxel_part(
    labels: np.ndarray,
    tasks: Callable[[np.ndarray], Iterator[Task]],
    request: Request,
    size: int,
    origin: str,
) -> Part:
    """Build a part with one row per model and pose; ``tasks`` yields the task of each of some ascending models."""
    n_poses = request.options["poses"]

    def blocks(rows: np.ndarray) -> Iterator[Any]:
        models = np.unique(rows // n_poses)
        for grids in _in_parallel(tasks(models), request.n_jobs):
            bounds = np.cumsum([0] + [len(cells) for cells in grids])
            yield sp.csr_matrix(
                (np.ones(bounds[-1], dtype=bool), np.concatenate(grids), bounds), shape=(n_poses, size**3)
            )

    groups = np.repeat(np.arange(len(labels)), n_poses)
    layout = "runs" if request.options["fill"] == "solid" else "binary"
    return Part(np.repeat(labels, n_poses), blocks, size**3, origin, layout, groups)


def _in_parallel(tasks: Iterator[Task], n_jobs: int) -> Iterator[list[np.ndarray]]:
    """Yield the results of the tasks in order, with a few models per process in memory at a time."""
    n_jobs = joblib.effective_n_jobs(n_jobs)
    with joblib.Parallel(n_jobs=n_jobs) as parallel:
        while some := list(itertools.islice(tasks, MODELS_PER_PROCESS * n_jobs)):
            yield from parallel(joblib.delayed(work)(*arguments) for work, arguments in some)
