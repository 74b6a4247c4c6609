"""Store the map that a method has learned."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flrml.exceptions import DamagedFileError
from flrml.files import read_arrays, set_aside, write_arrays
from flrml.metric import embed
from flrml.rows import is_dask, is_sparse


@dataclass(frozen=True)
class LearnedMap:
    """A map (None: the data as they are), the metric of its neighbours, a bilinear similarity, and an intercept."""

    components: NDArray | None
    metric: str
    W: NDArray | None = None
    intercept: NDArray | None = None

    @classmethod
    def of(cls, estimator: Any) -> "LearnedMap":
        """Return what a fitted estimator has learned."""
        return cls(
            getattr(estimator, "components_", None),
            estimator.metric,
            getattr(estimator, "similarity_", None),
            getattr(estimator, "intercept_", None),
        )

    def embed(self, X: Any) -> Any:
        """Embed rows."""
        if self.components is None:
            return X if is_sparse(X) or is_dask(X) else np.asarray(X)
        return embed(X, self.components, self.intercept)

    def save(self, path: str | os.PathLike, meta: dict) -> None:
        """Write to an .npz file, with what made it."""
        arrays = {"components": self.components, "W": self.W, "intercept": self.intercept}
        write_arrays(path, meta | {"metric": self.metric}, **{k: v for k, v in arrays.items() if v is not None})

    @classmethod
    def load(cls, path: str | os.PathLike) -> "LearnedMap":
        """Read what :meth:`save` wrote; a damaged file is set aside, so that the next run regenerates it."""
        try:
            meta, arrays = read_arrays(path)
        except DamagedFileError:
            set_aside(path)
            raise
        return cls(arrays.get("components"), meta["metric"], arrays.get("W"), arrays.get("intercept"))
