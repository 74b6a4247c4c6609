"""Get prepared data sets: those in the folder FLRML_PREPARED, others from their raw files."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from flrml.datasets import prepare
from flrml.exceptions import DatasetError
from flrml.pipeline.config import at_hand

HELD_OUT = {"holdout": 0.2}  # of the training file, if that of the test part is missing


@contextmanager
def prepared(name: str) -> Iterator[Path | None]:
    """Give the folder of a data set while it is in use; None, with a line on stderr, if raw files are missing."""
    given = Path(os.environ.get("FLRML_PREPARED", "")) / name
    if (given / "train").is_dir():
        yield given
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        try:
            prepare(
                name, path, options=HELD_OUT if at_hand.missing_files(name, None, None, at_hand.has_file) else {}
            )
        except DatasetError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            yield None
        else:
            yield path
