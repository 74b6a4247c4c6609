"""Store the map that a method has learned."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flrml.exceptions import DamagedFileError
from flrml.files import read_arrays, write_arrays
from flrml.metric import embed
from flrml.rows import is_dask, is_sparse


@dataclass(frozen=True)
class LearnedMap:
    """A map (None: the data as they are), the metric of its neighbours, a bilinear similarity, and an offset."""

    components: NDArray | None
    metric: str
    W: NDArray | None = None
    offset: NDArray | None = None

    @classmethod
    def of(cls, estimator: Any) -> "LearnedMap":
        """Return what a fitted estimator has learned."""
        return cls(
            getattr(estimator, "components_", None),
            estimator.neighbor_metric,
            getattr(estimator, "similarity_", None),
            getattr(estimator, "offset_", None),
        )

    def embed(self, X: Any) -> Any:
        """Embed rows."""
        if self.components is None:
            return X if is_sparse(X) or is_dask(X) else np.asarray(X)
        return embed(X, self.components, self.offset)

    def save(self, path: str | os.PathLike, meta: dict) -> None:
        """Write to an .npz file, with what made it."""
        arrays = {"components": self.components, "W": self.W, "offset": self.offset}
        write_arrays(path, meta | {"metric": self.metric}, **{k: v for k, v in arrays.items() if v is not None})

    @classmethod
    def load(cls, path: str | os.PathLike) -> "LearnedMap":
        """Read what :meth:`save` wrote; a damaged file is deleted, so that the next run makes it again."""
        try:
            meta, arrays = read_arrays(path)
        except DamagedFileError:
            Path(path).unlink(missing_ok=True)
            raise
        return cls(arrays.get("components"), meta["metric"], arrays.get("W"), arrays.get("offset"))
