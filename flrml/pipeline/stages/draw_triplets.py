"""Draw the triplets of a prepared data set."""

from pathlib import Path

import numpy as np

from flrml.datasets.store import open_split
from flrml.files import PathLike, atomic_write
from flrml.triplets import draw_triplets


def draw_for_dataset(data: PathLike, out: PathLike, *, n_triplets: int, seed: int) -> None:
    """Draw the triplets of a prepared data set."""
    _, y = open_split(Path(data) / "train")
    with atomic_write(out) as temporary, temporary.open("wb") as file:
        np.save(file, draw_triplets(np.array(y), n_triplets, seed))
