"""Generate furniture: ten classes of meshes with random proportions, legs, backs and shelves.

The classes overlap on purpose: a desk is a table with drawers, a low dresser looks like a night stand, a
bench with a back looks like a narrow sofa.
"""

from collections.abc import Callable, Iterator

import numpy as np

from flrml.datasets.modelnet.poses import voxel_part
from flrml.datasets.modelnet.voxels import voxelize
from flrml.datasets.parts import Loaded, Part, Request

Mesh = tuple[np.ndarray, np.ndarray]
_CORNERS = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=np.float64)
_SIDES = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
_BOX_FACES = np.array([face for a, b, c, d in _SIDES for face in ((a, b, c), (a, c, d))])
_TILT = np.radians(12)


class Builder:
    """Builder of a mesh from boxes and cylinders, with random choices."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self._pieces: list[Mesh] = []

    def between(self, low: float, high: float) -> float:
        """Draw a number."""
        return float(self.rng.uniform(low, high))

    def maybe(self, probability: float) -> bool:
        """Draw a decision."""
        return bool(self.rng.random() < probability)

    def box(self, low: tuple[float, float, float], high: tuple[float, float, float]) -> None:
        """Add a box between two corners."""
        corners = np.array(low) + _CORNERS * (np.array(high) - np.array(low))
        self._pieces.append((corners, _BOX_FACES))

    def cylinder(self, x: float, y: float, radius: float, bottom: float, top: float, sides: int = 12) -> None:
        """Add an upright cylinder."""
        angle = 2 * np.pi * np.arange(sides) / sides
        ring = np.column_stack((x + radius * np.cos(angle), y + radius * np.sin(angle)))
        low, high = (np.column_stack((ring, np.full(sides, z))) for z in (bottom, top))
        here, there = np.arange(sides), (np.arange(sides) + 1) % sides
        walls = [(here, there, there + sides), (here, there + sides, here + sides)]
        caps = [(np.full(sides, 2 * sides + i), here + i * sides, there + i * sides) for i in (0, 1)]
        faces = np.concatenate([np.column_stack(corners) for corners in walls + caps])
        self._pieces.append((np.concatenate((low, high, [[x, y, bottom], [x, y, top]])), faces))

    def legs(self, width: float, depth: float, height: float) -> None:
        """Add four legs, round or square, at the corners or set in."""
        thickness, inset, is_round = self.between(0.03, 0.1), self.between(0, 0.12), self.maybe(0.4)
        for x in (inset, width - inset - thickness):
            for y in (inset, depth - inset - thickness):
                if is_round:
                    self.cylinder(x + thickness / 2, y + thickness / 2, thickness / 2, 0, height, 8)
                else:
                    self.box((x, y, 0), (x + thickness, y + thickness, height))

    def slab(self, width: float, depth: float, bottom: float, top: float) -> None:
        """Add a board of full width and depth."""
        self.box((0, 0, bottom), (width, depth, top))

    def mesh(self) -> Mesh:
        """Return the vertices and faces of all pieces, rotated a little about the vertical axis."""
        vertices = np.concatenate([piece for piece, _ in self._pieces])
        offsets = np.cumsum([0] + [len(piece) for piece, _ in self._pieces[:-1]])
        faces = np.concatenate([piece + offset for (_, piece), offset in zip(self._pieces, offsets, strict=True)])
        angle = self.between(-_TILT, _TILT)
        turn = np.array([[np.cos(angle), np.sin(angle), 0], [-np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
        return vertices @ turn, faces


def _table(b: Builder) -> None:
    width, depth, height = b.between(0.8, 2.0), b.between(0.6, 1.1), b.between(0.4, 0.8)
    top = b.between(0.03, 0.08)
    if b.maybe(0.25):
        b.cylinder(0, 0, depth / 2, height, height + top, 16)
        b.cylinder(0, 0, b.between(0.04, 0.1), 0, height)
        b.cylinder(0, 0, b.between(0.15, 0.3), 0, 0.04)
        return
    b.legs(width, depth, height)
    b.slab(width, depth, height, height + top)
    if b.maybe(0.3):
        b.slab(width, depth, 0.3 * height, 0.3 * height + 0.03)


def _desk(b: Builder) -> None:
    width, depth, height = b.between(0.9, 1.9), b.between(0.5, 0.9), b.between(0.65, 0.8)
    b.slab(width, depth, height, height + b.between(0.03, 0.06))
    drawers, bottom = b.between(0.2, 0.45), b.between(0, 0.4) * height
    b.box((0, 0, bottom), (drawers, depth, height))
    if b.maybe(0.4):
        b.box((width - drawers, 0, bottom), (width, depth, height))
    if bottom > 0.1 or b.maybe(0.5):
        b.legs(width, depth, height)
    else:
        b.box((width - 0.05, 0, 0), (width, depth, height))
    if b.maybe(0.4):
        b.box(
            (0, depth - 0.04, 0.4 * height),
            (width, depth, height + (b.between(0.1, 0.5) if b.maybe(0.4) else 0)),
        )


def _chair(b: Builder) -> None:
    width, depth, seat = b.between(0.38, 0.6), b.between(0.38, 0.6), b.between(0.35, 0.55)
    thick, back = b.between(0.03, 0.12), b.between(0.25, 0.65)
    b.slab(width, depth, seat, seat + thick)
    if b.maybe(0.2):
        b.cylinder(width / 2, depth / 2, 0.04, 0, seat)
        b.cylinder(width / 2, depth / 2, 0.4 * width, 0, 0.05)
    else:
        b.legs(width, depth, seat)
    if b.maybe(0.6):
        b.box((0, depth - b.between(0.03, 0.1), seat), (width, depth, seat + back))
    else:
        for x in np.linspace(0, width - 0.04, int(b.rng.integers(2, 5))):
            b.box((x, depth - 0.04, seat), (x + 0.04, depth, seat + back))
        b.box((0, depth - 0.04, seat + back - 0.08), (width, depth, seat + back))
    if b.maybe(0.3):
        for x in (0.0, width - 0.05):
            b.box((x, 0, seat + 0.18), (x + 0.05, depth, seat + 0.23))


def _stool(b: Builder) -> None:
    width, height = b.between(0.3, 0.55), b.between(0.35, 0.8)
    depth = width * b.between(0.8, 1.2)
    if b.maybe(0.4):
        b.cylinder(width / 2, depth / 2, width / 2, height, height + b.between(0.03, 0.12), 14)
    else:
        b.slab(width, depth, height, height + b.between(0.03, 0.12))
    if b.maybe(0.3):
        b.cylinder(width / 2, depth / 2, 0.04, 0, height)
        b.cylinder(width / 2, depth / 2, 0.4 * width, 0, 0.04)
    else:
        b.legs(width, depth, height)
    if b.maybe(0.2):
        b.box((0, depth - 0.05, height), (width, depth, height + b.between(0.08, 0.2)))


def _bench(b: Builder) -> None:
    width, depth, seat = b.between(0.9, 1.9), b.between(0.3, 0.6), b.between(0.35, 0.5)
    b.slab(width, depth, seat, seat + b.between(0.04, 0.12))
    if b.maybe(0.6):
        b.legs(width, depth, seat)
    else:
        for x in (0.1, width - 0.18):
            b.box((x, 0, 0), (x + 0.08, depth, seat))
    if b.maybe(0.5):
        b.box((0, depth - 0.06, seat + b.between(0, 0.15)), (width, depth, seat + b.between(0.2, 0.5)))
    if b.maybe(0.3):
        for x in (0.0, width - 0.06):
            b.box((x, 0, seat), (x + 0.06, depth, seat + 0.25))


def _sofa(b: Builder) -> None:
    width, depth, seat = b.between(0.9, 2.2), b.between(0.6, 1.0), b.between(0.3, 0.45)
    bottom, arm = b.between(0.05, 0.15) if b.maybe(0.6) else 0.0, b.between(0.08, 0.25)
    b.slab(width, depth, bottom, seat)
    b.box((0, depth - b.between(0.12, 0.3), bottom), (width, depth, seat + b.between(0.2, 0.5)))
    if b.maybe(0.85):
        tall = seat + b.between(0.08, 0.3)
        b.box((0, 0, bottom), (arm, depth, tall))
        b.box((width - arm, 0, bottom), (width, depth, tall))
    if b.maybe(0.2):
        b.box((0, -b.between(0.4, 0.8), bottom), (0.45 * width, 0.1, seat))
    if bottom:
        b.legs(width, depth, bottom)


def _bed(b: Builder) -> None:
    width, depth, height = b.between(0.9, 1.9), b.between(1.8, 2.2), b.between(0.25, 0.6)
    frame = b.between(0.08, 0.25)
    b.slab(width, depth, height - frame, height)
    if b.maybe(0.7):
        b.legs(width, depth, height - frame)
    else:
        b.slab(width, depth, 0, height - frame)
    if b.maybe(0.85):
        b.box((0, depth - b.between(0.04, 0.12), 0), (width, depth, height + b.between(0.2, 0.7)))
    if b.maybe(0.4):
        b.box((0, 0, 0), (width, 0.06, height + b.between(0.02, 0.3)))
    if b.maybe(0.6):
        b.box((0.1 * width, depth - 0.5, height), (0.9 * width, depth - 0.15, height + 0.12))


def _cupboard(
    b: Builder, width: float, depth: float, height: float, rows: int, columns: int, is_open: float
) -> None:
    """Add a case with boards and uprights, open or closed in front, with or without legs."""
    board, bottom = b.between(0.02, 0.05), b.between(0.05, 0.25) if b.maybe(0.4) else 0.0
    if bottom:
        b.legs(width, depth, bottom)
    for z in np.linspace(bottom, bottom + height, rows + 1):
        b.slab(width, depth, float(z), float(z) + board)
    for x in np.linspace(0, width - board, columns + 1):
        b.box((float(x), 0, bottom), (float(x) + board, depth, bottom + height))
    if b.maybe(0.8):
        b.box((0, depth - board, bottom), (width, depth, bottom + height))
    if not b.maybe(is_open):
        b.box((0, 0, bottom), (width, board, bottom + height * b.between(0.5, 1)))


def _bookcase(b: Builder) -> None:
    rows, columns = int(b.rng.integers(2, 7)), int(b.rng.integers(1, 4))
    _cupboard(b, b.between(0.5, 1.5), b.between(0.22, 0.45), b.between(0.7, 2.1), rows, columns, 0.85)


def _dresser(b: Builder) -> None:
    rows, columns = int(b.rng.integers(2, 6)), int(b.rng.integers(1, 4))
    _cupboard(b, b.between(0.6, 1.6), b.between(0.38, 0.6), b.between(0.6, 1.3), rows, columns, 0.25)


def _night_stand(b: Builder) -> None:
    width = b.between(0.35, 0.65)
    _cupboard(b, width, width * b.between(0.7, 1.1), b.between(0.4, 0.8), int(b.rng.integers(1, 4)), 1, 0.45)


CLASSES: dict[str, Callable[[Builder], None]] = {
    build.__name__.removeprefix("_"): build
    for build in (_bed, _bench, _bookcase, _chair, _desk, _dresser, _night_stand, _sofa, _stool, _table)
}


def make_mesh(kind: str, seed: list[int]) -> Mesh:
    """Return the vertices and faces of a random piece of furniture."""
    builder = Builder(np.random.default_rng(seed))
    CLASSES[kind](builder)
    return builder.mesh()


def _voxelize_shape(kind: str, seed: list[int], size: int, n_poses: int, fill: str) -> list[np.ndarray]:
    return voxelize(*make_mesh(kind, seed), size, n_poses, fill)


def load_shapes(request: Request, *, size: int) -> Loaded:
    """Generate a training and a test part with ``models`` pieces per class; no piece is in both."""
    train, test = request.options["models"]
    return Loaded(_part(request, size, 0, train), _part(request, size, 1, test))


def _part(request: Request, size: int, split: int, per_class: int) -> Part:
    labels = np.repeat(list(CLASSES), per_class)
    shapes = [(str(label), [request.seed, split, number]) for number, label in enumerate(labels)]

    def read_models(models: np.ndarray) -> Iterator[tuple]:
        return (shapes[model] for model in models)

    return voxel_part(labels, _voxelize_shape, read_models, request, size, "procedural shapes")
