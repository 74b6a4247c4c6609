"""Decompose the training rows of a prepared data set."""

import time
from pathlib import Path

import numpy as np

from flrml.files import PathLike, write_json
from flrml.pipeline.stages.inputs import connection, load_rows
from flrml.pipeline.stages.provenance import provenance
from flrml.reference.centering import SMALLEST_SINGULAR_VALUE, CenteredRows
from flrml.rows import fingerprint
from flrml.spectrum import decompose


def decompose_dataset(
    data: PathLike,
    out: PathLike,
    timing: PathLike,
    *,
    max_rank: int,
    kind: str,
    seed: int,
    scheduler: str | None = None,
) -> dict:
    """Decompose the training rows of a prepared data set; write the spectrum, and the seconds that it took.

    The rows are decomposed as they are ("plain"), or with the mean of each subtracted ("centered").
    """
    X, _ = load_rows(Path(data) / "train")
    start = time.perf_counter()
    operator, smallest = (CenteredRows, SMALLEST_SINGULAR_VALUE) if kind == "centered" else (None, 0.0)
    rows = X if operator is None else operator(X)
    if scheduler is None:
        spectrum = decompose(rows, max_rank, smallest=smallest, random_state=seed)
    else:
        from flrml.distributed import RemoteRows
        from flrml.distributed import decompose as decompose_on_cluster

        with connection(scheduler) as open_rows:
            blocks = RemoteRows.load(open_rows(Path(data) / "train")[0]).through(operator)
            random = np.random.RandomState(seed)
            found = decompose_on_cluster(blocks, max_rank, smallest=smallest, random=random)
            spectrum = found.collect(fingerprint(rows))
    seconds = time.perf_counter() - start
    spectrum.save(out)
    record = {"seconds": seconds, "rank": spectrum.rank, "kind": kind, **spectrum.settings, "made_by": provenance()}
    write_json(timing, record)
    return record
