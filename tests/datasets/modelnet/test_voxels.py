import io

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import ndimage

from flrml.datasets.modelnet import voxels
from flrml.datasets.modelnet.off import parse_off
from flrml.datasets.modelnet.shapes import CLASSES, make_mesh
from flrml.datasets.modelnet.voxels import fit_into_cube, mark_mesh, rotation, surface, turn_grid, voxelize
from flrml.exceptions import DatasetError


def cells_met(triangles, size):
    """Brute force: every triangle against every cell on all thirteen axes that could separate them."""
    grid = np.zeros(size**3, dtype=bool)
    centres = np.stack(np.meshgrid(*[np.arange(size) + 0.5] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    for triangle in triangles:
        edges = triangle - triangle[[1, 2, 0]]
        axes = [*np.eye(3), np.cross(edges[0], edges[1])]
        axes += [np.cross(axis, edge) for axis in np.eye(3) for edge in edges]
        met = np.ones(len(centres), dtype=bool)
        for axis in axes:
            shadow, reach = triangle @ axis, np.abs(axis).sum() / 2 + 1e-9
            met &= (centres @ axis + reach >= shadow.min()) & (centres @ axis - reach <= shadow.max())
        grid |= met
    return grid.reshape(size, size, size)


def mark(triangles, size):
    """Cells that loose triangles meet."""
    return mark_mesh(triangles.reshape(-1, 3), np.arange(3 * len(triangles)).reshape(-1, 3), (size, size, size))


def dense(cells, size):
    grid = np.zeros(size**3, dtype=bool)
    grid[cells] = True
    return grid.reshape(size, size, size)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    size=st.integers(1, 9),
    n=st.integers(1, 5),
    form=st.sampled_from(["any", "tiny", "line", "point", "sliver", "flat"]),
)
def test_cells_are_exactly_those_that_meet_a_triangle(seed, size, n, form):
    rng = np.random.default_rng(seed)
    triangles = rng.uniform(0, size, (n, 3, 3))
    if form == "tiny":
        triangles = triangles[:, :1] + rng.uniform(-0.01, 0.01, (n, 3, 3))
    if form == "line":
        triangles[:, 2] = triangles[:, 0] + rng.random() * (triangles[:, 1] - triangles[:, 0])
    if form == "point":
        triangles[:] = triangles[:, :1]
    if form == "sliver":
        triangles[:, 2] = triangles[:, 1] + rng.uniform(-1e-7, 1e-7, (n, 3))
    if form == "flat":
        triangles[:, :, rng.integers(3)] = rng.uniform(0, size)
    triangles = np.clip(triangles, 0.001, size - 0.001)
    np.testing.assert_array_equal(mark(triangles, size), cells_met(triangles, size))


def test_a_large_triangle_has_no_holes_at_100():
    rng = np.random.default_rng(3)
    triangle = rng.uniform(0, 100, (1, 3, 3))
    grid = mark(triangle, 100)
    weights = rng.dirichlet(np.ones(3), 200_000)
    i, j, k = np.floor(weights @ triangle[0]).astype(int).T
    assert grid[i, j, k].all()


def test_steps_do_not_change_the_result(monkeypatch):
    triangles = np.random.default_rng(0).uniform(0, 20, (30, 3, 3))
    whole = mark(triangles, 20)
    monkeypatch.setattr(voxels, "CELLS_PER_STEP", 100)
    np.testing.assert_array_equal(mark(triangles, 20), whole)


def test_poses_together_are_the_single_ones(monkeypatch):
    mesh = make_mesh("chair", [0])
    together = voxelize(*mesh, 16, 5, "surface")
    monkeypatch.setattr(voxels, "TRIANGLES_TOGETHER", 1)
    for a, b in zip(together, voxelize(*mesh, 16, 5, "surface"), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("size", "n_poses"), [(15, 12), (16, 12), (15, 2), (16, 5)])
@pytest.mark.parametrize("fill", ["surface", "solid"])
def test_a_pose_is_that_of_the_turned_mesh(size, n_poses, fill):
    rng = np.random.default_rng(1)
    vertices, faces = rng.normal(size=(12, 3)), rng.integers(0, 12, (9, 3))
    reach = np.abs(vertices).max(axis=0).max()
    # Isolated corners that give the mesh the same centre in every pose.
    vertices = np.concatenate((vertices, reach * np.array([[2, 0, 1], [-2, 0, -1], [0, 2, 1], [0, -2, -1]])))
    for pose, cells in enumerate(voxelize(vertices, faces, size, n_poses, fill)):
        turned = np.column_stack((vertices[:, :2] @ rotation(pose, n_poses).T, vertices[:, 2]))
        centre, scale = fit_into_cube(vertices)
        grid = mark_mesh(((turned - centre) * scale + 0.5) * size, faces, (size, size, size))
        expected = ndimage.binary_fill_holes(grid) if fill == "solid" else grid
        np.testing.assert_array_equal(dense(cells, size), expected)


def test_a_quarter_turn_of_a_grid_is_that_of_numpy():
    grid = np.random.default_rng(1).random((9, 9, 9)) < 0.3
    for fill in ("surface", "solid"):
        turned = [dense(cells, 13) for cells in turn_grid(grid, 13, 4, fill)]
        for quarter in range(1, 4):
            np.testing.assert_array_equal(turned[quarter], np.rot90(turned[0], quarter, axes=(0, 1)))


def test_rotations_are_exact_at_quarters_and_orthogonal():
    np.testing.assert_array_equal(rotation(3, 12), [[0, -1], [1, 0]])
    for pose in range(7):
        angle = 2 * np.pi * pose / 7
        expected = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        np.testing.assert_allclose(rotation(pose, 7), expected, atol=1e-12)


@given(points=hnp.arrays(np.float64, (5, 3), elements=st.floats(-1e6, 1e6)))
def test_every_pose_fits_with_the_same_margin(points):
    centre, scale = fit_into_cube(points)
    model = (points - centre) * scale
    for pose in range(12):
        turned = np.column_stack((model[:, :2] @ rotation(pose, 12).T, model[:, 2]))
        assert np.abs(turned).max() <= 0.5 - voxels.MARGIN + 1e-9


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10**6), pose=st.integers(0, 11))
def test_turned_grids_take_the_nearest_cell(seed, pose):
    rng = np.random.default_rng(seed)
    grid = ndimage.binary_dilation(rng.random((8, 8, 8)) < 0.01)
    if not grid.any():
        return
    size = 19
    turned = dense(turn_grid(grid, size, 12, "solid")[pose], size)
    full = np.argwhere(grid)
    corners = np.concatenate([full + np.array((a, b, c)) for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    centre, scale = fit_into_cube(corners.astype(float))
    for cell in np.ndindex(size, size, size):
        position = (np.array(cell) + 0.5) / size - 0.5
        angle = -2 * np.pi * pose / 12
        back = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        source = np.append(back @ position[:2], position[2]) / scale + centre
        if np.abs(source - np.round(source)).min() < 1e-9:
            continue  # between two cells
        inside = np.all((source >= 0) & (source < 8))
        assert turned[cell] == (inside and grid[tuple(np.floor(source).astype(int))])


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), n_poses=st.integers(1, 12))
def test_a_coarser_grid_loses_no_cell(seed, n_poses):
    grid = np.zeros((16, 16, 16), dtype=bool)
    single = np.random.default_rng(seed).integers(0, 16, (3, 3))
    grid[tuple(single.T)] = True
    centre, scale = fit_into_cube(np.concatenate((single, single + 1)).astype(float))
    for pose, cells in enumerate(turn_grid(grid, 4, n_poses, "solid")):
        assert 1 <= len(cells) <= 3 * 8
        # Each cell of the fine grid maps to a full cell near its rotated centre.
        middle = (single + 0.5 - centre) * scale
        place = np.column_stack((middle[:, :2] @ rotation(pose, n_poses).T, middle[:, 2]))
        full = (np.argwhere(dense(cells, 4)) + 0.5) / 4 - 0.5
        distance = np.linalg.norm(place[:, None] - full[None], axis=2).min(axis=1)
        assert (distance <= np.sqrt(3) * (0.5 / 4 + scale) + 1e-9).all()


@given(grid=hnp.arrays(bool, (5, 6, 7)))
def test_the_surface_is_what_erosion_takes_away(grid):
    np.testing.assert_array_equal(surface(grid), grid & ~ndimage.binary_erosion(grid))


def test_a_solid_box_is_filled():
    box = trimesh.creation.box((1, 1, 1))
    hollow, solid = (voxelize(box.vertices, box.faces, 20, 1, fill)[0] for fill in ("surface", "solid"))
    assert set(hollow) < set(solid)
    extent = np.argwhere(dense(solid, 20))
    assert len(solid) == np.prod(np.ptp(extent, axis=0) + 1)


def test_empty_grids_stay_empty():
    assert [len(cells) for cells in turn_grid(np.zeros((4, 4, 4), dtype=bool), 8, 3, "surface")] == [0, 0, 0]


@pytest.mark.parametrize("kind", CLASSES)
def test_shapes_are_sound_meshes(kind):
    for number in range(20):
        vertices, faces = make_mesh(kind, [0, number])
        assert np.isfinite(vertices).all()
        assert faces.max() == len(vertices) - 1
        assert trimesh.Trimesh(vertices, faces).area > 0.1
        assert vertices[:, 2].min() == pytest.approx(0)


def off(mesh):
    return mesh.export(file_type="off").encode()


@pytest.mark.parametrize("kind", ["chair", "table"])
def test_off_files_agree_with_trimesh(kind):
    content = off(trimesh.Trimesh(*make_mesh(kind, [1]), process=False))
    expected = trimesh.load(io.BytesIO(content), file_type="off", process=False)
    vertices, faces = parse_off(content, "mesh.off")
    np.testing.assert_allclose(vertices, expected.vertices)
    np.testing.assert_array_equal(faces, expected.faces)
    glued = content.replace(b"OFF\n", b"OFF", 1)
    assert glued[3:4].isdigit()
    for variant in (glued, content.replace(b"\n", b"\r\n"), content.replace(b"\n", b" # note\n")):
        np.testing.assert_array_equal(parse_off(variant, "mesh.off")[0], vertices)
        np.testing.assert_array_equal(parse_off(variant, "mesh.off")[1], faces)


def test_large_faces_become_fans_and_colours_are_left_out():
    _, faces = parse_off(b"OFF\n4 1 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n4 0 1 2 3 255 0 0\n", "mesh.off")
    np.testing.assert_array_equal(faces, [[0, 1, 2], [0, 2, 3]])


GOOD = b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "start with OFF"),
        (b"PLY\n", "start with OFF"),
        (b"OFF\n0 0 0\n", "0 vertices"),
        (GOOD[:20], "only 1 present"),
        (GOOD.replace(b"3 0 1 2", b"3 0 1 3"), r"vertices \[0, 1, 3\] of 3"),
        (GOOD.replace(b"3 0 1 2", b"3 0 1 -1"), r"\[0, 1, -1\]"),
        (GOOD.replace(b"3 0 1 2", b"4 0 1 2"), "3 corners, 4"),
        (GOOD.replace(b"3 0 1 2", b"2 0 1"), "2 corners"),
        (GOOD.replace(b"1 0 0", b"nan 0 0"), "not finite"),
        (GOOD.replace(b"1 0 0", b"x 0 0"), "float"),
        (GOOD.replace(b"1 0 0", b"1e200 0 0"), "exceeds 1e100"),
        (GOOD.replace(b"3 1 0\n", b"3 9 0\n"), "only 1 lines"),
    ],
)
def test_bad_off_files_are_named(content, problem):
    with pytest.raises(DatasetError, match=f"mesh.off: .*{problem}"):
        parse_off(content, "mesh.off")
