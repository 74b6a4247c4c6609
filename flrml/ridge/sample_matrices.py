"""Operations on sample matrices, which have one row per row of X, and on directions, which have one per feature.

The solver accesses X only through the operations of :class:`SampleMatrices`. On a
cluster (:mod:`flrml.distributed.remote_matrices`) the rows of sample matrices stay where the rows of X are.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flrml.ridge.arrays import combine, inner, random_columns
from flrml.ridge.krylov import Block, next_block
from flrml.ridge.subspace import Subspace, orthonormal_coordinates

if TYPE_CHECKING:
    from flrml.ridge.scaling import ScaledRows


class SampleMatrices:
    """Operations on sample matrices and directions, in memory.

    ``rows`` numbers the training rows, None for all. If ``is_narrow``, the features themselves serve as directions.
    """

    def __init__(self, X: "ScaledRows", rows: NDArray | None, is_narrow: bool):
        self.X, self.rows, self.is_narrow = X, rows, is_narrow

    def dense(self) -> Any:
        """Return X as a sample matrix."""
        return self.X.toarray()

    def random(self, width: int, seed: int) -> Any:
        """Return random columns for the training rows; they depend only on row numbers and seed."""
        n = self.X.shape[0] if self.rows is None else len(self.rows)
        return random_columns(seed, 0, n, width).astype(self.X.dtype)

    def side_by_side(self, pieces: list[Any]) -> Any:
        """Return [P₁ P₂ …]."""
        return np.hstack(pieces)

    def train_rows(self, E: Any) -> Any:
        """Return the training rows of a sample matrix."""
        return E if self.rows is None else E[self.rows]

    def sums(self, B: Any) -> Any:
        """Return Xᵀ B for a matrix with the training rows only."""
        return self.X.product_transposed(self._for_all_rows(B))

    def next_block(self, blocks: list[Any], sums: Any) -> Any:
        """Return the block that sums add; see :func:`flrml.ridge.krylov.next_block`."""
        return next_block(blocks, sums)

    def is_empty(self, block: Any) -> bool:
        """Return whether a block is known to have no directions."""
        return block.directions.shape[1] == 0

    def product(self, block: Any) -> Any:
        """Return X V for the directions V of a block, for all rows."""
        return self.X.product(block.directions)

    def product_transposed(self, E: Any) -> Any:
        """Return Xᵀ E over the training rows."""
        return self.sums(self.train_rows(E))

    def last_column(self, blocks: list[Any] | None, images: list[Any]) -> Any:
        """Return the last block column of the scatter of the images."""
        train = [self.train_rows(piece) for piece in images]
        return inner(train, train[-1])

    def gather(self, matrices: list[Any]) -> list[NDArray[np.float64]]:
        """Return small matrices in the memory of this process."""
        return matrices

    def subspace(self, blocks: list[Any] | None, images: list[Any], columns: list[Any]) -> Subspace:
        """Return the subspace of blocks, or the whole row space, with block columns of the scatter."""
        return Subspace(self.side_by_side(images), self, columns, blocks)

    def lift(self, blocks: Any, C: NDArray) -> NDArray:
        """Return [V₁ V₂ …] C (D × d), for the directions of blocks or for the features themselves."""
        return C if blocks is None else combine([block.directions for block in blocks], C)

    def _for_all_rows(self, B: NDArray) -> NDArray:
        """Return B with zeros for the other rows."""
        if self.rows is None:
            return B
        found = np.zeros((self.X.shape[0], B.shape[1]), dtype=B.dtype)
        found[self.rows] = B
        return found


class DualSampleMatrices(SampleMatrices):
    """Sample matrices for fewer rows than columns: directions Xᵀ A are represented by A, a sample matrix.

    Blocks have orthonormal A, and images K A with K = X Xᵀ. With AᵀKA = R diag(t) Rᵀ, the directions Xᵀ A R/√t are
    orthonormal. ``whole`` uses all directions; ``formed`` forms K.
    """

    def __init__(self, X: "ScaledRows", rows: NDArray | None, whole: bool, formed: bool):
        super().__init__(X, rows, whole)
        K = X.gram[:, slice(None) if rows is None else rows] if whole or formed else None
        self._K = K if whole or K is None else K.astype(X.dtype)

    def dense(self) -> Any:
        """Return K, the images for an A of unit columns."""
        return self._K

    def sums(self, B: NDArray) -> NDArray:
        """Return B, which represents Xᵀ B."""
        return B

    def product(self, block: Block) -> NDArray:
        """Return K A for all rows."""
        if self._K is not None:
            return self._K @ block.directions
        return self.X.gram_times(self._for_all_rows(block.directions))

    def product_transposed(self, E: NDArray) -> NDArray:
        """Return the training rows of E, which represent Xᵀ E."""
        return self.train_rows(E)

    def last_column(self, blocks: list[Block] | None, images: list[NDArray]) -> NDArray[np.float64]:
        """Return [A₁ A₂ …]ᵀ K A_j for the last block."""
        last = self.train_rows(images[-1])
        return last if blocks is None else inner([block.directions for block in blocks], last)

    def subspace(self, blocks: list[Block] | None, images: list[NDArray], columns: list[NDArray]) -> Subspace:
        C = orthonormal_coordinates(columns, images[0].dtype)
        E = combine(images, C)
        train = self.train_rows(E)
        dual = C if blocks is None else combine([block.directions for block in blocks], C)
        return Subspace(E, self, [inner([train], train)], dual)

    def lift(self, blocks: Any, C: NDArray) -> NDArray:
        """Return Xᵀ A C; ``blocks`` is A."""
        return super().sums((blocks @ C).astype(self.X.dtype))
