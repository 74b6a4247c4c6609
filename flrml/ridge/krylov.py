"""Block Krylov spaces: blocks of orthonormal directions, each orthogonal to those before it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flrml.ridge.arrays import combine as combine_arrays
from flrml.ridge.arrays import inner as inner_of_arrays

if TYPE_CHECKING:
    from flrml.ridge.sample_matrices import SampleMatrices

NOISE_UNITS = 100  # eigenvalues and lengths below this many units of rounding are noise


@dataclass(frozen=True)
class Block:
    """Orthonormal directions V_j of the part of sums S = Xᵀ B that is orthogonal to earlier blocks V₁, V₂, ….

    If S = Xᵀ E for the images E of the last block, ``along`` is their scatter.
    """

    directions: Any  # V_j (D × p)
    along: NDArray[np.float64]  # [V₁ V₂ …]ᵀ S


class Krylov:
    """A block Krylov space of XᵀX: blocks of orthonormal directions and the images of the rows in them.

    Blocks and columns are in memory or at workers, as ``matrices`` keeps them.
    """

    def __init__(self, matrices: "SampleMatrices"):
        self.matrices = matrices
        self.blocks: list[Any] = []
        self.images: list[Any] = []  # X V_j for all rows
        self.columns: list[Any] = []  # [V₁ V₂ … V_j]ᵀ XᵀX V_j over the training rows

    def extend(self, sums: Any, n_blocks: int) -> None:
        """Add a number of blocks that begin with sums Xᵀ B."""
        matrices = self.matrices
        for number in range(n_blocks):
            if number:
                sums = matrices.product_transposed(self.images[-1])
            block = matrices.next_block(self.blocks, sums)
            if number:
                self.columns.append(block.along)
            if matrices.is_empty(block) and self.blocks:  # the space is complete
                return
            self.blocks.append(block)
            self.images.append(matrices.product(block))
        self.columns.append(matrices.last_column(self.blocks, self.images))


def next_block(
    blocks: list[Block],
    sums: Any,
    inner: Callable[[list, Any], NDArray[np.float64]] = inner_of_arrays,
    combine: Callable[[list, NDArray], Any] = combine_arrays,
) -> Block:
    """Return an orthonormal basis of the part of sums that is orthogonal to the directions of blocks.

    That part is scaled to unit columns, so that short ones count as well, and made orthonormal by the eigenvectors
    of their inner products. A second pass restores orthogonality after the division by short lengths. ``inner`` and
    ``combine`` are the operations of :mod:`flrml.ridge.arrays` on matrices in another place.
    """
    V, eps, width = [block.directions for block in blocks], np.finfo(sums.dtype).eps, sums.shape[1]
    along, G = np.split(inner([*V, sums], sums), [sum(piece.shape[1] for piece in V)])
    noise = (NOISE_UNITS * eps) ** 2 * np.diag(G)
    rest = combine([*V, sums], np.vstack((-along, np.eye(width)))) if V else sums
    for least in (NOISE_UNITS * eps, 0.5):
        C, G = np.split(inner([*V, rest], rest), [len(along)])
        sound = np.diag(G) > noise
        unit = sound / np.sqrt(np.where(sound, np.diag(G), 1))
        C, G = C * unit, G * np.outer(unit, unit)
        squares, R = np.linalg.eigh(G - C.T @ C)
        kept = squares > least
        scaled = R[:, kept] / np.sqrt(squares[kept])
        # Columns that are orthonormal up to rounding are not mixed, as mixed ones would be less distinct later.
        R = scaled @ R.T if kept.all() and least == 0.5 else scaled
        if not V and R.shape[1] == 0:
            R = np.eye(rest.shape[1], 1)  # rows of zeros have a direction too, of length zero
        rest = combine([*V, rest], np.vstack((-C @ R, unit[:, None] * R)))
        if squares.min(initial=1) > 0.01:  # rounding is magnified by at most ten
            break
        noise = np.zeros(rest.shape[1])
    return Block(rest, along)
