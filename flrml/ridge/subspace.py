"""A small subspace of the features that holds the solutions for every ridge, from products with X alone.

Ridge regression on the classes, with their indicators Y, needs (XᵀX + γ)⁻¹ Xᵀ Y. For every γ this is close to the
block Krylov space span{XᵀY, XᵀX XᵀY, (XᵀX)² XᵀY, …}: the map is sought in an orthonormal basis V of a few blocks.
Random columns beside Y bring in the leading directions.

The ridge term is then γ times the identity, and the data enter through the images E = X V of their rows alone. Of
few columns, the features themselves are the directions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flrml.ridge.scaling import ScaledRows
from flrml.ridge.supervision import Contrasts
from flrml.ridge.tall import Subspace, Tall


@dataclass(frozen=True)
class Shape:
    """Number of Krylov blocks, and of their columns together as a multiple of the directions of a map, at least."""

    blocks: int
    columns: float


# More of either gain nothing on held-out rows.
DISCRIMINANTS = Shape(4, 1.0)
LEADING = Shape(4, 2.0)
TRIPLETS = Shape(6, 1.5)  # for the directions whose contrasts take the place of classes
WIDTH = 10  # columns of a block at least; classes are filled up with random columns
MOST_CLASSES = 150  # of more classes, the leading directions of their means start the blocks


class Krylov:
    """A block Krylov space of XᵀX: blocks of orthonormal directions and the images of the rows in them.

    Parameters
    ----------
    tall : Tall
        The data.

    Attributes
    ----------
    blocks : list
        Blocks, where the data keep them.
    images : list of tall matrices
        X V_j, for all rows.
    columns : list of small matrices
        [V₁ V₂ … V_j]ᵀ XᵀX V_j for the rows that are learned from, where the data keep them.
    """

    def __init__(self, tall: Tall):
        self.tall = tall
        self.blocks: list[Any] = []
        self.images: list[Any] = []
        self.columns: list[Any] = []

    def extend(self, sums: Any, n_blocks: int) -> None:
        """Add a number of blocks that begin with sums Xᵀ B."""
        tall = self.tall
        for number in range(n_blocks):
            if number:
                sums = tall.product_transposed(self.images[-1])
            block = tall.next_block(self.blocks, sums)
            if number:
                self.columns.append(tall.along(block))
            if tall.is_empty(block) and self.blocks:  # the space is complete
                return
            self.blocks.append(block)
            self.images.append(tall.product(block))
        self.columns.append(tall.last_column(self.blocks, self.images))


def build_subspace(
    X: ScaledRows, supervision: Contrasts, rows: NDArray | None, d: int, shape: Shape, random: np.random.RandomState
) -> Subspace:
    """Return the subspace learned from some rows.

    Parameters
    ----------
    X : ScaledRows of shape (n, D)
        The data.
    supervision : Contrasts
        Labels or triplets of the rows to learn from alone.
    rows : ndarray or None
        Their numbers, None for all rows; the others do not take part, but get images.
    d : int
        Number of directions that a map will have.
    shape : Shape
        Number of Krylov blocks and columns.
    random : RandomState
        Draws the seed of the random columns.
    """
    tall = X.tall(rows)
    if tall.is_short:
        images = [tall.dense()]
        return tall.subspace(None, images, [tall.last_column(None, images)])
    krylov = Krylov(tall)
    start, seed = supervision.class_indicators(X.dtype), int(random.randint(2**31))
    if start is None:  # triplets: contrasts of the leading directions take the place of classes
        width = max(WIDTH, int(np.ceil(TRIPLETS.columns * d / TRIPLETS.blocks)))
        krylov.extend(tall.sums(tall.random(width, seed)), TRIPLETS.blocks)
        found = tall.subspace(krylov.blocks, krylov.images, krylov.columns)
        leading = np.linalg.eigh(found.scatter)[1][:, -d:].astype(X.dtype)
        krylov.extend(tall.sums(supervision.contrast(tall.learned(found.images) @ leading)), 2)
    else:
        width = max(WIDTH, int(np.ceil(shape.columns * d / shape.blocks)))
        n_columns = max(width, min(start.shape[1], MOST_CLASSES))
        if start.shape[1] < n_columns:
            start = tall.side_by_side([start, tall.random(n_columns - start.shape[1], seed)])
        sums = tall.sums(start)
        if start.shape[1] > n_columns:
            # Those combinations of many classes along which the class means vary most.
            sums = tall.leading(sums, n_columns)
        krylov.extend(sums, max(DISCRIMINANTS.blocks, shape.blocks * width // n_columns))
    return tall.subspace(krylov.blocks, krylov.images, krylov.columns)
