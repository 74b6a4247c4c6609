"""M-FLRML on row blocks: the client learns, the workers keep the rows.

A mini-batch has a few hundred rows. The client draws them, fetches them from their workers and learns from them as
from rows in memory, so that the result does not depend on blocks and workers.
"""

from collections.abc import Callable
from typing import Any

from flrml.distributed.cluster import active_client, without_work_stealing
from flrml.distributed.remote_rows import RemoteRows, on_client
from flrml.mflrml import MFLRML


def fit_mflrml(
    model: MFLRML,
    X: Any,
    y: Any,
    triplets: Any,
    n_batches: int,
    callback: Callable[[MFLRML], None] | None,
    *,
    reset: bool,
) -> MFLRML:
    """Learn from mini-batches of a dask array, from an empty map if ``reset`` is set; see :meth:`flrml.MFLRML.fit`.

    Labels are gathered on the client. Of blocks from :func:`flrml.distributed.open_split`, only the rows of
    mini-batches are read. docs/scaling.md says what is communicated.
    """
    with without_work_stealing(active_client()):
        rows = RemoteRows.load(X).by_thread()
        rows.check(model, reset=reset)
        model._learn(rows, on_client(y), triplets, n_batches, callback, reset=reset)
    return model
