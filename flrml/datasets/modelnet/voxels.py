"""Compute voxel grids of meshes and of other grids, rotated about the vertical axis.

Faster than trimesh on the same meshes (`python -m benchmarks voxels` measures it). Grids are cubes of cells; axis
2 is vertical. A grid is returned as the flat indices of its cells, ascending.
"""

import numpy as np

# Fraction of the cube's side that stays free around every object, in every pose.
MARGIN = 1 / 32
# Number of cells that one step of the voxeliser tests, which bounds its memory.
CELLS_PER_STEP = 2_000_000
# Poses are batched until they have this number of triangles.
TRIANGLES_TOGETHER = 10_000


def rotation(pose: int, n_poses: int) -> np.ndarray:
    """Return the 2 × 2 matrix of a rotation by pose/n_poses of a full turn; exact at quarter turns."""
    quarters, rest = divmod(4 * pose, n_poses)
    angle = rest / n_poses * np.pi / 2
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return turn @ np.linalg.matrix_power(np.array([[0.0, -1.0], [1.0, 0.0]]), quarters)


def fit_into_cube(points: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the centre and scale that fit the points into the unit cube about 0 in every pose, with a margin."""
    low, high = points.min(axis=0), points.max(axis=0)
    centre = low / 2 + high / 2
    reach = max(float(np.hypot(*(points[:, :2] - centre[:2]).T).max()), float(high[2] - centre[2]))
    return centre, (0.5 - MARGIN) / reach if reach > 1e-100 else 1.0


def voxelize(vertices: np.ndarray, faces: np.ndarray, size: int, n_poses: int, fill: str) -> list[np.ndarray]:
    """Return the cells that a mesh occupies in each of the poses, which are evenly spread over a full turn.

    These are the cells that its surface intersects and, if ``fill`` is ``solid``, those that it encloses. Poses a
    quarter turn apart have the same cells, permuted, and are computed once.
    """
    centre, scale = fit_into_cube(vertices)
    model = (vertices - centre) * scale
    same: dict[int, int] = {}  # the first of the poses that are quarter turns of one another
    for pose in range(n_poses):
        same.setdefault(4 * pose % n_poses, pose)
    first_poses, grids = list(same.values()), {}
    # Several poses of a coarse mesh share one long row of cubes: fewer and larger steps.
    n_together = max(1, TRIANGLES_TOGETHER // len(faces))
    for first in range(0, len(first_poses), n_together):
        poses = first_poses[first : first + n_together]
        turned = [np.column_stack((model[:, :2] @ rotation(pose, n_poses).T, model[:, 2])) for pose in poses]
        corners = (np.stack(turned) + 0.5) * size
        corners[:, :, 0] += size * np.arange(len(poses))[:, None]
        offsets = len(vertices) * np.arange(len(poses))[:, None, None]
        shape = (len(poses) * size, size, size)
        row = mark_mesh(corners.reshape(-1, 3), (faces + offsets).reshape(-1, 3), shape)
        for pose, grid in zip(poses, row.reshape(len(poses), size, size, size), strict=True):
            grids[pose] = fill_enclosed(grid) if fill == "solid" else grid
    cells = []
    for pose in range(n_poses):
        first = same[4 * pose % n_poses]
        cells.append(cells_of(np.rot90(grids[first], 4 * pose // n_poses - 4 * first // n_poses)))
    return cells


def fill_enclosed(grid: np.ndarray) -> np.ndarray:
    """Return a grid with the cells that it encloses: those from which no empty cells lead out of the cube."""
    from scipy import ndimage  # slow to import

    regions, _ = ndimage.label(~np.pad(grid, 1))  # a third of the time of binary_fill_holes
    return (regions != regions[0, 0, 0])[1:-1, 1:-1, 1:-1]


def cells_of(grid: np.ndarray) -> np.ndarray:
    """Return the ascending flat indices of the marked cells."""
    return np.flatnonzero(grid).astype(np.int32)


def mark_mesh(vertices: np.ndarray, faces: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Mark the cells that a mesh intersects; cell (i, j, k) extends from (i, j, k) to (i + 1, j + 1, k + 1).

    A triangle and a cell overlap unless an axis separates them: a coordinate axis, the triangle's normal, or
    the cross product of one of its edges with a coordinate axis. The normal's largest coordinate is called
    depth; over every column of cells the triangle spans few cells in depth, and only these are tested.
    """
    grid = np.zeros(shape, dtype=bool)
    last = np.array(shape) - 1
    home = np.ravel_multi_index(tuple(np.clip(np.floor(vertices), 0, last).astype(np.intp).T), shape)[faces]
    grid.reshape(-1)[home] = True
    # Most triangles of a fine mesh lie inside one cell or two neighbours and need no test.
    leaving = np.flatnonzero((home[:, 0] != home[:, 1]) | (home[:, 0] != home[:, 2]))
    triangles = vertices[faces[leaving]]
    low, high = _extent(triangles)
    triangles = triangles[(np.floor(high) - np.floor(low)) @ np.ones(3) > 1]
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    depth = np.argmax(np.abs(normals), axis=1)
    for axis in range(3):
        # Make the depth the last coordinate.
        order = [(axis + 1) % 3, (axis + 2) % 3, axis]
        turned = triangles[depth == axis][:, :, order]
        low, high = _extent(turned)
        spans = np.floor(high) - np.floor(low) + 1
        steps = np.cumsum(3 * spans[:, 0] * spans[:, 1]) // CELLS_PER_STEP
        for part in np.split(turned, np.flatnonzero(np.diff(steps)) + 1):
            i, j, k = np.clip(_cells_met(part), 0, last[order]).T
            grid.transpose(order)[i, j, k] = True
    return grid


def _extent(triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and largest coordinates of each triangle, faster than reductions over three corners."""
    a, b, c = triangles[:, 0], triangles[:, 1], triangles[:, 2]
    return np.minimum(np.minimum(a, b), c), np.maximum(np.maximum(a, b), c)


def _spread(first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return row and cell indices of all cells between the positions ``first`` and ``last``, row by row."""
    first, last = np.floor(first).astype(np.int64), np.floor(last).astype(np.int64)
    lengths = np.maximum(last - first + 1, 0)
    rows = np.repeat(np.arange(len(first)), lengths)
    starts = np.cumsum(lengths) - lengths
    return rows, np.arange(len(rows)) - np.repeat(starts - first, lengths)


def _cells_met(triangles: np.ndarray) -> np.ndarray:
    """Return the cells that triangles intersect; the normals have their largest coordinate last."""
    # Strips: triangle × i. In each, the triangle covers an interval of the second coordinate.
    low, high = _extent(triangles)
    owner, i = _spread(low[:, 0], high[:, 0])
    first, last = _interval_in_strips(triangles, owner, i)
    # Columns: triangle × i × j. In each, the plane of the triangle covers an interval of depth.
    strip, j = _spread(first, last)
    owner, i = owner[strip], i[strip]
    first, last = _interval_in_columns(triangles, owner, i, j)
    column, k = _spread(first, last)
    owner, cells = owner[column], np.column_stack((i[column], j[column], k))
    # The only cell of a column is intersected; the others are tested on the remaining axes.
    is_doubtful = np.bincount(column, minlength=len(i))[column] > 1
    met = ~is_doubtful
    met[is_doubtful] = _projections_overlap(triangles, owner[is_doubtful], cells[is_doubtful])
    return cells[met]


def _interval_in_strips(triangles: np.ndarray, owner: np.ndarray, i: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and largest second coordinate of a triangle between first coordinates i and i + 1."""
    first, last = np.full(len(i), np.inf), np.full(len(i), -np.inf)
    for corner in range(3):
        x, y = triangles[owner, corner, 0], triangles[owner, corner, 1]
        end_x, end_y = triangles[owner, (corner + 1) % 3, 0], triangles[owner, (corner + 1) % 3, 1]
        low, high = np.minimum(x, end_x), np.maximum(x, end_x)
        touches = (low <= i + 1) & (high >= i)
        sloping = touches & (low < high)
        for cut in (np.maximum(low, i), np.minimum(high, i + 1)):
            # An edge along the strip has no crossing; its first corner counts, the other one in its own turn.
            share = np.divide(cut - x, end_x - x, out=np.zeros_like(x), where=sloping)
            value = y + np.clip(share, 0, 1) * (end_y - y)
            np.minimum(first, value, out=first, where=touches)
            np.maximum(last, value, out=last, where=touches)
    return first, last


def _interval_in_columns(
    triangles: np.ndarray, owner: np.ndarray, i: np.ndarray, j: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the depth interval of a triangle's plane in a column, clipped at its lowest and highest corner."""
    a, b, c = triangles[:, 0], triangles[:, 1], triangles[:, 2]
    normal = np.cross(b - a, c - a)
    # The normal of a triangle with next to no area is noise: any depth between its corners is possible.
    low, high = _extent(triangles)
    sides = high - low
    flat = np.abs(normal[:, 2]) <= 1e-9 * np.einsum("ij,ij->i", sides, sides)
    down = np.where(flat, 1, normal[:, 2])
    slope_x, slope_y = -normal[:, 0] / down, -normal[:, 1] / down
    low, high = low[:, 2], high[:, 2]
    at_origin = a[:, 2] - slope_x * a[:, 0] - slope_y * a[:, 1]
    reach = np.where(flat, np.inf, (np.abs(slope_x) + np.abs(slope_y)) / 2)
    middle = at_origin[owner] + slope_x[owner] * (i + 0.5) + slope_y[owner] * (j + 0.5)
    return (
        np.minimum(np.maximum(middle - reach[owner], low[owner]), high[owner]),
        np.maximum(np.minimum(middle + reach[owner], high[owner]), low[owner]),
    )


def _projections_overlap(triangles: np.ndarray, owner: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Check whether the projections of triangle and cell overlap on both planes along the depth."""
    overlap = np.ones(len(cells), dtype=bool)
    for across in (0, 1):
        u, z = triangles[:, :, across], triangles[:, :, 2]
        centre_u, centre_z = cells[:, across] + 0.5, cells[:, 2] + 0.5
        for corner in range(3):
            following, opposite = (corner + 1) % 3, (corner + 2) % 3
            # Perpendicular to the edge; both its corners have the same projection on it.
            along_u, along_z = z[:, corner] - z[:, following], u[:, following] - u[:, corner]
            edge = along_u * u[:, corner] + along_z * z[:, corner]
            tip = along_u * u[:, opposite] + along_z * z[:, opposite]
            reach = (np.abs(along_u) + np.abs(along_z)) * (0.5 + 1e-9)
            projection = along_u[owner] * centre_u + along_z[owner] * centre_z
            overlap &= projection >= (np.minimum(edge, tip) - reach)[owner]
            overlap &= projection <= (np.maximum(edge, tip) + reach)[owner]
    return overlap


def turn_grid(grid: np.ndarray, size: int, n_poses: int, fill: str) -> list[np.ndarray]:
    """Return the cells of a solid grid in every pose, resampled to another size.

    A finer grid takes the nearest cell; a cell of a coarser one is full if the solid reaches into it.
    """
    full = np.argwhere(grid)
    if len(full) == 0:
        return [np.empty(0, dtype=np.int32)] * n_poses
    # Corners of cells, so that whole cells stay inside the cube.
    corners = np.concatenate([full + np.array(shift) for shift in ((0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 1))])
    centre, scale = fit_into_cube(corners.astype(np.float64))
    # Samples at most 1/√2 of a cell of the grid apart, so that no cell is missed in any pose.
    n_samples = max(1, int(np.ceil(np.sqrt(2) / (scale * size))))
    ticks = (np.arange(n_samples * size) + 0.5) / (n_samples * size) - 0.5
    padded = np.pad(grid, 1)  # cells outside the grid are empty
    levels = padded[:, :, _nearest(ticks / scale + centre[2], grid.shape[2])]
    # A cell is full if one of its samples is.
    levels = np.logical_or.reduce(levels.reshape(*levels.shape[:2], size, n_samples), axis=3)
    plane = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2)
    grids = []
    for pose in range(n_poses):
        # The inverse of a rotation is its transpose, so rows times the matrix rotate backward.
        x, y = (plane @ rotation(pose, n_poses) / scale + centre[:2]).T
        turned = levels[_nearest(x, grid.shape[0]), _nearest(y, grid.shape[1])]
        turned = turned.reshape(size, n_samples, size, n_samples, size).any(axis=(1, 3))
        grids.append(cells_of(turned if fill == "solid" else surface(turned)))
    return grids


def _nearest(position: np.ndarray, size: int) -> np.ndarray:
    """Return the index of the cell that contains a position, from 1; 0 and size + 1 are outside."""
    return np.clip(np.floor(position).astype(np.int64) + 1, 0, size + 1)


def surface(grid: np.ndarray) -> np.ndarray:
    """Return the cells of a solid grid that have an empty neighbour across a face, or are on the cube's face."""
    padded = np.pad(grid, 1)
    inner = padded.copy()
    for axis in range(3):
        inner &= np.roll(padded, 1, axis) & np.roll(padded, -1, axis)
    return grid & ~inner[1:-1, 1:-1, 1:-1]
