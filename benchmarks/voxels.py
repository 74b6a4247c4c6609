"""Voxel grids per second compared with trimesh, and rows stored as runs compared with column numbers."""

import time

import numpy as np
import trimesh

from benchmarks.timing import side_by_side
from flrml import rows as walk
from flrml.datasets.modelnet.shapes import CLASSES, Mesh, make_mesh
from flrml.datasets.modelnet.voxels import fit_into_cube, rotation, voxelize
from flrml.rows.binary import BinaryRows, RunRows, find_runs

POSES = 4


def _trimesh_grids(vertices: np.ndarray, faces: np.ndarray, size: int) -> list[np.ndarray]:
    """Flat numbers of the cells that trimesh marks, for every pose."""
    centre, scale = fit_into_cube(vertices)
    model = (vertices - centre) * scale
    grids = []
    for pose in range(POSES):
        turned = np.column_stack((model[:, :2] @ rotation(pose, POSES).T, model[:, 2]))
        # trimesh's cells have their centres, not their corners, at whole numbers.
        mesh = trimesh.Trimesh((turned + 0.5) * size - 0.5, faces, process=False)
        i, j, k = np.rint(mesh.voxelized(1.0).points).astype(np.int64).T
        grids.append((i * size + j) * size + k)
    return grids


def _measure(size: int, meshes: list[Mesh]) -> tuple[float, float, float, float]:
    """Seconds of flrml and of trimesh, share of its cells that flrml has too, ratio of their numbers."""
    seconds = {"flrml": 0.0, "trimesh": 0.0}
    shared = ours = theirs = 0
    for vertices, faces in meshes:
        start = time.perf_counter()
        ours = voxelize(vertices, faces, size, POSES, "surface")
        middle = time.perf_counter()
        other = _trimesh_grids(vertices, faces, size)
        seconds["flrml"] += middle - start
        seconds["trimesh"] += time.perf_counter() - middle
        for a, b in zip(ours, other, strict=True):
            shared += len(np.intersect1d(a, b))
            ours, theirs = ours + len(a), theirs + len(b)
    return seconds["flrml"], seconds["trimesh"], shared / theirs, ours / theirs


def _compare_runs() -> list[tuple[str, str, str]]:
    """Compare solid furniture at 100³ as runs with the same rows as column numbers."""
    size, d = 100, 100
    meshes = [make_mesh(kind, [seed]) for kind in CLASSES for seed in range(5)]
    cells = [grid for mesh in meshes for grid in voxelize(*mesh, size, 12, "solid")]
    indptr, indices = np.cumsum([0, *map(len, cells)]), np.concatenate(cells)
    numbers, bounds = find_runs(indices, indptr)
    one_by_one, runs = BinaryRows(indptr, indices, size**3), RunRows(bounds, numbers, size**3)
    rng = np.random.default_rng(0)
    B, R = rng.standard_normal((size**3, d), "f4"), rng.standard_normal((len(cells), d), "f4")
    exact = (one_by_one[:5].astype(np.float64) @ B.astype(np.float64)).ravel()
    errors = [np.abs(walk.product(X, B)[:5].ravel() - exact).max() for X in (runs, one_by_one)]
    table = [("bytes", f"{indices.nbytes / numbers.nbytes:.0f}× smaller")]
    for what, work in (
        ("X B", lambda X: walk.product(X, B)),
        ("Xᵀ R", lambda X: walk.product_transposed(X, R)),
        ("rows as CSR", lambda X: X[:]),
    ):
        fast, slow = side_by_side(lambda w=work: w(runs), lambda w=work: w(one_by_one), 1)
        text = f"{slow / fast:.1f}× the speed"
        table.append((what, text + (f", errors {errors[0]:.0e} and {errors[1]:.0e}" if what == "X B" else "")))
    what = f"{len(cells)} rows of solid voxels, {size}³, as runs"
    return [(f"{what}: {name}", "column numbers", text) for name, text in table]


def rows() -> list[tuple[str, str, str]]:
    """Yield what is measured, against what, and the ratio."""
    table = []
    furniture = [make_mesh(kind, [1]) for kind in CLASSES]
    sphere = trimesh.creation.icosphere(6)
    fine: list[Mesh] = [(np.asarray(sphere.vertices), np.asarray(sphere.faces))]
    cases = [
        (16, "furniture", furniture),
        (100, "furniture", furniture[3:6]),
        (16, "a sphere of 81,920 triangles", fine),
        (100, "a sphere of 81,920 triangles", fine),
    ]
    for size, what, meshes in cases:
        flrml, other, share, more = _measure(size, meshes)
        text = (
            f"{other / flrml:.1f}× the grids per second, {100 * share:.2f} % of its cells and {more:.2f}× as many"
        )
        table.append((f"voxelize, {size}³, {what} in {POSES} poses", "trimesh voxelized", text))
    return table + _compare_runs()


if __name__ == "__main__":
    for what, against, ratio in rows():
        print(f"{what} | {against} | {ratio}")
