"""The interface of rows that other processes hold, for RidgeFLRML."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from flrml.ridge.scaling import ScaledRows


class RemoteRows(ABC):
    """Rows that other processes hold, for RidgeFLRML."""

    shape: tuple[int, int]
    dtype: np.dtype

    @property
    @abstractmethod
    def sample_rows(self) -> int:
        """Largest number of rows that this process can hold."""

    @property
    @abstractmethod
    def filled(self) -> float:
        """Share of values that are stored."""

    @abstractmethod
    def squares(self) -> NDArray[np.float64]:
        """Return the mean square of each feature."""

    @abstractmethod
    def scaled(self, weights: NDArray, constant: float, scale: float, mean_square: float) -> "ScaledRows":
        """Return these rows scaled; for the arguments see :class:`ScaledRows`."""

    @abstractmethod
    def __getitem__(self, rows: NDArray) -> Any:
        """Return some rows in the memory of this process."""

    @abstractmethod
    def nearest(self, train: Any, test: Any, n_neighbors: int) -> tuple[NDArray, NDArray]:
        """Find neighbours by cosine among rows of this process; the other processes do the work."""

    @abstractmethod
    def sample(self, rows: NDArray) -> Any:
        """Return some rows, in ascending order, to search parameters with: in memory, or remote ones."""
