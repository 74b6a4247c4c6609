"""A small subspace of the features that contains the solutions for every ridge, from products with X only.

Ridge regression on the classes, with their indicators Y, needs (XᵀX + γ)⁻¹ Xᵀ Y. For every γ this is close to the
block Krylov space span{XᵀY, XᵀX XᵀY, (XᵀX)² XᵀY, …}: the map is sought in an orthonormal basis V of a few blocks.
Random columns in addition to Y add the leading directions.

The ridge term is then γ times the identity, and the data enter only through the images E = X V of their rows. If X
has few columns, the features themselves are the directions.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flrml.ridge.krylov import NOISE_UNITS, Krylov
from flrml.ridge.supervision import Contrasts

if TYPE_CHECKING:
    from flrml.ridge.sample_matrices import SampleMatrices
    from flrml.ridge.scaling import ScaledRows


@dataclass(frozen=True)
class Shape:
    """Number of Krylov blocks, and the least total number of their columns as a multiple of that of a map."""

    blocks: int
    columns: float


# More blocks or columns do not improve the accuracy on validation rows.
DISCRIMINANT_SHAPE = Shape(4, 1.0)
LEADING_SHAPE = Shape(4, 2.0)
TRIPLET_SHAPE = Shape(6, 1.5)  # for the leading directions, whose contrasts replace the classes
MIN_BLOCK_COLUMNS = 10  # random columns are added to fewer classes
MAX_START_COLUMNS = 150  # with more classes, blocks start from the leading directions of their means
CLASS_ITERATIONS = 2  # to find these


@dataclass(frozen=True)
class Subspace:
    """Rows of X in p orthonormal directions of the feature space."""

    images: Any  # a sample matrix (n × p): all rows in these directions, not only the training rows
    matrices: "SampleMatrices"
    columns: list[Any]  # block columns of the upper triangle of the scatter, in memory or at workers
    blocks: Any  # the directions; None if they are the features themselves

    @cached_property
    def scatter(self) -> NDArray[np.float64]:
        """The scatter EᵀE of the images of the training rows."""
        return assemble(self.matrices.gather(self.columns))

    def lift(self, C: NDArray) -> NDArray:
        """Return the map Lᵀ (D × d) on the features of a map C (p × d) on the images."""
        return self.matrices.lift(self.blocks, C.astype(self.images.dtype))


def build_subspace(
    X: "ScaledRows",
    supervision: Contrasts,
    rows: NDArray | None,
    d: int,
    shape: Shape,
    random: np.random.RandomState,
) -> Subspace:
    """Return the subspace of the training rows, for maps of d directions.

    ``rows`` are the numbers of the training rows, None for all; the others only get images. ``supervision`` is that
    of the training rows only.
    """
    width = max(MIN_BLOCK_COLUMNS, int(np.ceil(shape.columns * d / shape.blocks)))
    n_columns = max(width, min(supervision.n_classes, MAX_START_COLUMNS))
    n_blocks = max(DISCRIMINANT_SHAPE.blocks, shape.blocks * width // n_columns)
    matrices = X.matrices(rows, n_blocks * n_columns)
    if matrices.is_narrow:
        images = [matrices.dense()]
        return matrices.subspace(None, images, [matrices.last_column(None, images)])
    krylov, seed = Krylov(matrices), int(random.randint(2**31))
    if supervision.n_classes:
        Q = leading_classes(matrices, supervision, n_columns, seed)
        start = supervision.combine_classes(Q.astype(X.dtype))
        if Q.shape[1] < n_columns:
            start = matrices.side_by_side([start, matrices.random(n_columns - Q.shape[1], seed)])
        krylov.extend(matrices.sums(start), n_blocks)
    else:  # triplets: contrasts of the leading directions replace the classes
        width = max(MIN_BLOCK_COLUMNS, int(np.ceil(TRIPLET_SHAPE.columns * d / TRIPLET_SHAPE.blocks)))
        krylov.extend(matrices.sums(matrices.random(width, seed)), TRIPLET_SHAPE.blocks)
        found = matrices.subspace(krylov.blocks, krylov.images, krylov.columns)
        leading = np.linalg.eigh(found.scatter)[1][:, -d:].astype(X.dtype)
        krylov.extend(matrices.sums(supervision.contrast(matrices.train_rows(found.images) @ leading)), 2)
    return matrices.subspace(krylov.blocks, krylov.images, krylov.columns)


def leading_classes(
    matrices: "SampleMatrices", supervision: Contrasts, number: int, seed: int
) -> NDArray[np.float64]:
    """Return orthonormal combinations of the classes (C × number) along which the class means vary most.

    They are the leading right singular vectors of the sums XᵀZ of the classes Z, found by subspace iteration from
    random combinations, so that neither these sums nor products of their size are formed. Few classes are returned
    as they are.
    """
    n_classes = supervision.n_classes
    if n_classes <= number:
        return np.eye(n_classes)
    Q = np.random.RandomState(seed).standard_normal((n_classes, number))
    for _ in range(CLASS_ITERATIONS):
        sums = matrices.sums(supervision.combine_classes(Q.astype(matrices.X.dtype)))
        images = matrices.product(matrices.next_block([], sums))
        Q = np.linalg.qr(supervision.class_means(matrices.train_rows(images)))[0]
    return Q


def assemble(columns: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return a symmetric matrix from the block columns of its upper triangle."""
    out = np.zeros((len(columns[-1]), len(columns[-1])))
    start = 0
    for column in columns:
        stop = start + column.shape[1]
        out[:stop, start:stop] = column
        out[start:stop, :start] = column[:start].T
        start = stop
    return (out + out.T) / 2


def orthonormal_coordinates(columns: list[NDArray[np.float64]], dtype: Any) -> NDArray[np.float64]:
    """Return R/√t for AᵀKA = R diag(t) Rᵀ, given by block columns of its upper triangle."""
    t, R = np.linalg.eigh(assemble(columns))
    sound = t > NOISE_UNITS * np.finfo(dtype).eps * max(t[-1], 0)
    sound[-1] = True  # rows of zeros have a direction too
    return R[:, sound] / np.sqrt(np.where(t > 0, t, 1)[sound])
