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
        """Number of rows that this process can take at most."""

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
        """Take some rows to this process."""

    @abstractmethod
    def nearest(self, train: Any, test: Any, n_neighbors: int) -> tuple[NDArray, NDArray]:
        """Find neighbours by cosine among rows of this process, where these rows are."""

    @abstractmethod
    def sample(self, rows: NDArray) -> Any:
        """Return some rows, in ascending order, to search parameters with: here, or where they are."""
