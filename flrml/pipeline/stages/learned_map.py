"""Store the map that a method has learned."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flrml.exceptions import DamagedFileError
from flrml.files import read_arrays, set_aside, write_arrays
from flrml.metric import LowRankMetric, embed
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
        if not isinstance(estimator, LowRankMetric):
            return cls._of_other(estimator)
        return cls(
            getattr(estimator, "components_", None),
            estimator.metric,
            getattr(estimator, "similarity_", None),
            getattr(estimator, "intercept_", None),
        )

    @classmethod
    def _of_other(cls, estimator: Any) -> "LearnedMap":
        """Return the affine map of a transformer from outside flrml, whose ``transform`` decides what it does."""
        name, L = type(estimator).__name__, np.asarray(getattr(estimator, "components_", None))
        if L.ndim != 2:
            raise TypeError(f"{name} has no matrix components_ after fit; only linear maps are kept")
        probes = np.vstack([np.zeros(L.shape[1]), np.random.RandomState(0).standard_normal((3, L.shape[1]))])
        images = np.asarray(estimator.transform(probes.astype(L.dtype)))
        intercept = images[0]
        if images.shape[1] != len(L) or not np.allclose(images - intercept, probes @ L.T, rtol=1e-3, atol=1e-5):
            raise TypeError(f"transform of {name} is not x ↦ components_ x + constant; only such maps are kept")
        return cls(L, "cosine", None, intercept if intercept.any() else None)

    def embed(self, X: Any) -> Any:
        """Embed rows."""
        if self.components is None:
            return X if is_sparse(X) or is_dask(X) else np.asarray(X)
        return embed(X, self.components, self.intercept)

    @property
    def arrays(self) -> dict[str, NDArray]:
        """The arrays that it consists of, by name."""
        named = {"components": self.components, "W": self.W, "intercept": self.intercept}
        return {name: array for name, array in named.items() if array is not None}

    def save(self, path: str | os.PathLike, meta: dict) -> None:
        """Write to an .npz file, with what made it."""
        write_arrays(path, meta | {"metric": self.metric}, **self.arrays)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "LearnedMap":
        """Read what :meth:`save` wrote; a damaged file is set aside, so that the next run regenerates it."""
        try:
            return cls.of_arrays(path, *read_arrays(path))
        except DamagedFileError:
            set_aside(path)
            raise

    @classmethod
    def of_arrays(cls, path: str | os.PathLike, meta: dict, arrays: dict[str, NDArray]) -> "LearnedMap":
        """Return the map in the arrays of a file; numbers or shapes that no map has raise DamagedFileError."""
        L, W, intercept = (arrays.get(name) for name in ("components", "W", "intercept"))
        sound = all(part is None or np.isfinite(part).all() for part in (L, W, intercept))
        sound &= all(part is None or part.ndim == 2 for part in (L, W)) and "metric" in meta
        if not sound or (intercept is not None and (L is None or intercept.shape != L.shape[:1])):
            raise DamagedFileError(path, ValueError("it holds no finite map"))
        return cls(L, meta["metric"], W, intercept)
