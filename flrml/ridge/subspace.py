"""A small subspace of the features that holds the solutions for every ridge, from products with X alone.

Let K = X Xᵀ (n × n, never formed), and Y the class indicators. Ridge regression on the classes needs (K + γ)⁻¹ Y.
For every γ this is close to the block Krylov space span{Y, K Y, K² Y, …}: with an orthonormal basis B (n × p) of a
few blocks, the map is sought among the directions Xᵀ B. Random columns beside Y bring in the leading directions.

Coordinates are those of an orthonormal basis of these directions, so that the ridge term is γ times the identity
and the data enter through the images of their rows alone. For a short matrix the whole row space is cheaper.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flrml.ridge.scaling import ScaledRows
from flrml.ridge.supervision import Supervision
from flrml.rows import is_sparse


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
MANY_COLUMNS = 50  # per row: from here on, products with X Xᵀ itself are cheaper than two with X
GRAM_ROWS = 2000  # up to which it is formed: those whose folds are held out in turn
SOUND = 100  # lengths below this many units of rounding, relative to the longest, are noise


@dataclass(frozen=True)
class Subspace:
    """Rows of X in p orthonormal directions of the feature space.

    Attributes
    ----------
    images : ndarray of shape (n, p)
        All rows in these directions, also those that were not learned from.
    X : ScaledRows of shape (n, D)
        The data.
    dual : ndarray of shape (n, p) or None
        The directions are Xᵀ dual; None if they are the features themselves.
    """

    images: NDArray
    X: ScaledRows
    dual: NDArray | None

    def lift(self, C: NDArray) -> NDArray:
        """Return the map Lᵀ (D × d) on the features of a map C (p × d) on the images."""
        C = C.astype(self.images.dtype)
        return C if self.dual is None else self.X.product_transposed(self.dual @ C)


def build_subspace(
    X: ScaledRows, supervision: Supervision, rows: NDArray, d: int, shape: Shape, random: np.random.RandomState
) -> Subspace:
    """Return the subspace learned from some rows.

    Parameters
    ----------
    X : ScaledRows of shape (n, D)
        The data.
    supervision : Supervision
        Labels or triplets of the rows to learn from alone.
    rows : ndarray
        Their numbers; the others do not take part, but get images.
    d : int
        Number of directions that a map will have.
    shape : Shape
        Number of Krylov blocks and columns.
    random : RandomState
        Draws the random columns.
    """
    method = choose_method(X)
    if method == "columns":
        return Subspace(X.toarray(), X, None)
    if method == "rows":
        basis = np.eye(X.shape[0])[:, rows]
        return _in_coordinates(X, basis, X.gram[:, rows], rows)
    krylov = _Krylov(X, rows)
    start = supervision.class_indicators()
    if start is None:  # triplets: contrasts of the leading directions take the place of classes
        width = max(WIDTH, int(np.ceil(TRIPLETS.columns * d / TRIPLETS.blocks)))
        krylov.extend(random.standard_normal((len(rows), width)), TRIPLETS.blocks)
        leading = _in_coordinates(X, *krylov.basis_and_images(), rows).images[rows][:, -d:]
        krylov.extend(supervision.contrast(leading), 2)
    else:
        if start.shape[1] > MOST_CLASSES:
            start = _leading_classes(X, start, rows)
        width = max(WIDTH, int(np.ceil(shape.columns * d / shape.blocks)))
        start = np.hstack((start, random.standard_normal((len(rows), max(0, width - start.shape[1])))))
        krylov.extend(start, max(DISCRIMINANTS.blocks, shape.blocks * width // start.shape[1]))
    return _in_coordinates(X, *krylov.basis_and_images(), rows)


def choose_method(X: ScaledRows) -> str:
    """Return "rows" or "columns" if the whole row space is cheap by that side of X, else "krylov"."""
    n, n_columns = X.shape
    if n_columns <= SHORT_SIDE["columns"] and (not is_sparse(X.X) or X.X.nnz >= DENSE * n * n_columns):
        return "columns"
    return "rows" if n <= SHORT_SIDE["rows"] else "krylov"


def _leading_classes(X: ScaledRows, indicators: NDArray, rows: NDArray) -> NDArray:
    """Combine the indicators of many classes to those along which the class means vary most."""
    sums = X.product_transposed(_scatter_rows(indicators.astype(X.dtype), rows, X))
    return indicators @ np.linalg.eigh(sums.T @ sums)[1][:, -MOST_CLASSES:]


class _Krylov:
    """An orthonormal basis B of block Krylov spaces of K = X Xᵀ, restricted to some rows, and its images K B."""

    def __init__(self, X: ScaledRows, rows: NDArray):
        self.X, self.rows = X, rows
        self._basis = np.empty((len(rows), 0), dtype=X.dtype)
        self._images: list[NDArray] = []
        n, n_columns = X.shape
        wide = n <= GRAM_ROWS and n_columns >= MANY_COLUMNS * n
        self._K = X.gram[:, rows].astype(X.dtype) if wide else None

    def extend(self, start: NDArray, n_blocks: int) -> None:
        """Add a number of blocks that begin with the columns of ``start``, given for the rows alone."""
        block = start
        for _ in range(n_blocks):
            block = self._orthonormal(block.astype(self.X.dtype))
            if block.shape[1] == 0:  # the space is complete
                return
            self._basis = np.hstack((self._basis, block))
            self._images.append(self._product(block))
            block = self._images[-1][self.rows]

    def _product(self, block: NDArray) -> NDArray:
        """Return K times a block."""
        if self._K is not None:
            return self._K @ block
        return self.X.product(self.X.product_transposed(_scatter_rows(block, self.rows, self.X)))

    def basis_and_images(self) -> tuple[NDArray, NDArray]:
        """Return B with zeros for rows that take no part, and K B."""
        return _scatter_rows(self._basis, self.rows, self.X), np.hstack(self._images)

    def _orthonormal(self, block: NDArray) -> NDArray:
        """Return an orthonormal basis of what the block adds to the basis.

        Twice is enough: the second pass removes what the division by short lengths has brought back.
        """
        block = block / np.maximum(np.linalg.norm(block, axis=0), np.finfo(block.dtype).tiny)
        # The Gram matrix holds squared lengths; in float64 it tells the short ones of a float32 block from noise.
        shortest = max((SOUND * np.finfo(block.dtype).eps) ** 2, SOUND * np.finfo(np.float64).eps)
        for least in (shortest, 0.5):
            block = block - self._basis @ (self._basis.T @ block)
            squares, R = np.linalg.eigh(block.T.astype(np.float64) @ block)
            sound = squares > least
            block = block @ (R[:, sound] / np.sqrt(squares[sound])).astype(block.dtype)
        return block


def _scatter_rows(block: NDArray, rows: NDArray, X: ScaledRows) -> NDArray:
    """Return the block with rows of zeros where ``rows`` has none."""
    if len(rows) == X.shape[0]:
        return block
    out = np.zeros((X.shape[0], block.shape[1]), dtype=block.dtype)
    out[rows] = block
    return out


def _in_coordinates(X: ScaledRows, B: NDArray, KB: NDArray, rows: NDArray) -> Subspace:
    """Return the subspace of the directions Xᵀ B in the orthonormal basis Xᵀ B R/√t, with BᵀKB = R diag(t) Rᵀ."""
    T = (B[rows].T @ KB[rows]).astype(np.float64)
    t, R = np.linalg.eigh((T + T.T) / 2)
    sound = t > SOUND * np.finfo(KB.dtype).eps * max(t[-1], 0)
    C = (R[:, sound] / np.sqrt(t[sound])).astype(KB.dtype)
    return Subspace(KB @ C, X, B @ C)
