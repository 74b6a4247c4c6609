"""A small subspace of the features that holds the solutions for every ridge, from products with X alone.

Let K = X Xᵀ (n × n, never formed), and Y the class indicators. Ridge regression on the classes needs (K + γ)⁻¹ Y.
For every γ this is close to the block Krylov space span{Y, K Y, K² Y, …}: with an orthonormal basis B (n × p) of a
few blocks, the map is sought among the directions Xᵀ B. Random columns beside Y bring in the leading directions.

Coordinates are those of an orthonormal basis of these directions, so that the ridge term is γ times the identity
and the data enter through the images of their rows alone. For a short matrix the whole row space is cheaper.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flrml.ridge.scaling import ScaledRows
from flrml.ridge.supervision import Contrasts
from flrml.ridge.tall import Tall


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
SHORT_SIDE = {"rows": 400, "columns": 200}  # a side up to this length is taken whole
DENSE = 0.1  # share of non-zeros above which rows of few columns are stored dense
SOUND = 100  # lengths below this many units of rounding, relative to the longest, are noise
NOT_SHORT = 1e-6  # squared length of unit columns beside the basis: rounding is magnified a thousand times at most


@dataclass(frozen=True)
class Subspace:
    """Rows of X in p orthonormal directions of the feature space.

    Attributes
    ----------
    images : tall matrix of shape (n, p)
        All rows in these directions, also those that were not learned from.
    tall : Tall
        The data.
    dual : tall matrix with p columns, or None
        The directions are Xᵀ dual, with the rows of X that were learned from; None if they are the features
        themselves.
    scatter : ndarray of shape (p, p)
        EᵀE of the images E of the rows that were learned from.
    """

    images: Any
    tall: Tall
    dual: Any
    scatter: NDArray[np.float64]

    def lift(self, C: NDArray) -> NDArray:
        """Return the map Lᵀ (D × d) on the features of a map C (p × d) on the images."""
        C = C.astype(self.images.dtype)
        return C if self.dual is None else self.tall.product_transposed(self.tall.combine([self.dual], C))


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
    tall, method = X.tall(rows), choose_method(X)
    if method == "columns":
        images = X.toarray()
        learned = tall.learned(images)
        return Subspace(images, tall, None, tall.inner([learned], learned))
    if method == "rows":
        whole = np.arange(X.shape[0]) if rows is None else rows
        return _in_coordinates(tall, [np.eye(len(whole))], [X.gram[:, whole]])
    krylov = _Krylov(tall)
    start, seed = supervision.class_indicators(X.dtype), int(random.randint(2**31))
    if start is None:  # triplets: contrasts of the leading directions take the place of classes
        width = max(WIDTH, int(np.ceil(TRIPLETS.columns * d / TRIPLETS.blocks)))
        krylov.extend(tall.random(width, seed), TRIPLETS.blocks)
        leading = tall.learned(_in_coordinates(tall, krylov.basis, krylov.images).images)[:, -d:]
        krylov.extend(supervision.contrast(leading), 2)
    else:
        if start.shape[1] > MOST_CLASSES:
            # Those combinations of many classes along which the class means vary most.
            varied = np.linalg.eigh(tall.gram_within(start))[1][:, -MOST_CLASSES:]
            start = tall.computed(tall.combine([start], varied))
        n_classes = start.shape[1]
        width = max(WIDTH, int(np.ceil(shape.columns * d / shape.blocks)))
        if width > n_classes:
            start = tall.side_by_side([start, tall.random(width - n_classes, seed)])
        krylov.extend(start, max(DISCRIMINANTS.blocks, shape.blocks * width // max(width, n_classes)))
    return _in_coordinates(tall, krylov.basis, krylov.images)


def choose_method(X: ScaledRows) -> str:
    """Return "rows" or "columns" if the whole row space is cheap by that side of X, else "krylov"."""
    n, n_columns = X.shape
    if n_columns <= SHORT_SIDE["columns"] and X.filled >= DENSE:
        return "columns"
    return "rows" if n <= SHORT_SIDE["rows"] else "krylov"


class _Krylov:
    """Pieces of an orthonormal basis B of block Krylov spaces of K = X Xᵀ, and of its images K B."""

    def __init__(self, tall: Tall):
        self.tall = tall
        self.basis: list[Any] = []
        self.images: list[Any] = []
        self._gram = np.empty((0, 0))  # BᵀB, the identity up to rounding, of all pieces but perhaps the last

    def extend(self, start: Any, n_blocks: int) -> None:
        """Add a number of blocks that begin with the columns of ``start``."""
        block = start
        for _ in range(n_blocks):
            block = self._orthonormal(block)
            if block.shape[1] == 0:  # the space is complete
                return
            self.basis.append(block)
            self.images.append(self.tall.gram_times(block))
            block = self.tall.learned(self.images[-1])

    def _orthonormal(self, block: Any) -> Any:
        """Return an orthonormal basis of what the block adds to the basis.

        One product with the basis and the block itself tells what remains of the block beside the basis: for unit
        columns with the inner products C with the basis B, the Gram matrix of the rest is G − Cᵀ (BᵀB)⁻¹ C. In
        float64 it tells short lengths of a float32 block from noise. Twice is enough: the second pass removes what
        the division by short lengths has brought back. Where no length is very short, once is: the solver needs
        independent columns, and BᵀB is known.
        """
        shortest = max((SOUND * np.finfo(block.dtype).eps) ** 2, SOUND * np.finfo(np.float64).eps)
        for least in (shortest, 0.5):
            C, G = self._measure(block)
            unit = 1 / np.sqrt(np.maximum(np.diag(G), np.finfo(block.dtype).tiny))
            C, G = C * unit, G * np.outer(unit, unit)
            along = np.linalg.solve(self._gram, C)
            squares, R = np.linalg.eigh(G - C.T @ along)
            R = R[:, squares > least] / np.sqrt(squares[squares > least])
            factor = np.vstack((-along @ R, unit[:, None] * R))
            block = self.tall.computed(self.tall.combine([*self.basis, block], factor))
            if squares.min(initial=1) > NOT_SHORT:
                break
        return block

    def _measure(self, block: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the inner products of a block with the basis and with itself, and complete BᵀB meanwhile."""
        known, width = len(self._gram), sum(piece.shape[1] for piece in self.basis)
        others = self.tall.side_by_side([self.basis[-1], block]) if known < width else block
        found = self.tall.inner([*self.basis, block], others)
        if known < width:
            new, found = found[:width, : width - known], found[:, width - known :]
            gram = np.empty((width, width))
            gram[:known, :known], gram[:, known:], gram[known:] = self._gram, new, new.T
            self._gram = gram
        return found[:width], found[width:]


def _in_coordinates(tall: Tall, basis: list[Any], images: list[Any]) -> Subspace:
    """Return the subspace of the directions Xᵀ B in the orthonormal basis Xᵀ B R/√t, with BᵀKB = R diag(t) Rᵀ."""
    learned = tall.learned(tall.side_by_side(images))
    T, G = np.split(tall.inner([*basis, learned], learned), 2)
    t, R = np.linalg.eigh((T + T.T) / 2)
    sound = t > SOUND * np.finfo(images[0].dtype).eps * max(t[-1], 0)
    sound[-1] = True  # rows of zeros have a direction too
    C = R[:, sound] / np.sqrt(np.where(t > 0, t, 1)[sound])
    return Subspace(tall.combine(images, C), tall, tall.combine(basis, C), C.T @ G @ C)
