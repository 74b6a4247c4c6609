"""Draw progress bars."""

from typing import Any

from flrml.extras import require


def progress_bar(progress: bool | None, **settings: Any) -> Any:
    """Return a tqdm bar: drawn, hidden, or drawn only on a terminal if ``progress`` is None."""
    tqdm = require("tqdm", extra="data", needed_by="prepare").tqdm
    return tqdm(disable=None if progress is None else not progress, **settings)
