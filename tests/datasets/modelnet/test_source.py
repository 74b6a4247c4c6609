"""ModelNet's layouts and the procedural shapes, through `prepare`."""

import shutil
import zipfile

import numpy as np
import pytest

from flrml import FLRML, MFLRML, RidgeFLRML
from flrml.datasets import open_groups, open_split, prepare
from flrml.datasets.fetch import RawFiles
from flrml.datasets.modelnet.poses import MODELS_PER_PROCESS
from flrml.datasets.modelnet.shapes import make_mesh
from flrml.datasets.modelnet.source import CLASSES10
from flrml.datasets.parts import Request
from flrml.datasets.registry import REGISTRY
from flrml.exceptions import DatasetError
from flrml.reference import ReferenceMFLRML
from flrml.rows.binary import RunRows


def off(kind, seed):
    vertices, faces = make_mesh(kind, seed)
    lines = [" ".join(map(str, row)) for row in vertices] + [f"3 {a} {b} {c}" for a, b, c in faces]
    return f"OFF{len(vertices)} {len(faces)} 0\n" + "\n".join(lines) + "\n"


@pytest.fixture
def modelnet(tmp_path):
    """ModelNet10 in small, as a folder."""
    for kind in CLASSES10:
        for part, numbers in (("train", (1, 2, 3)), ("test", (4,))):
            folder = tmp_path / "raw/ModelNet10" / kind / part
            folder.mkdir(parents=True)
            for number in numbers:
                (folder / f"{kind}_{number:04}.off").write_text(off("chair", [number, CLASSES10.index(kind)]))
    (tmp_path / "raw/ModelNet10/README.txt").write_text("hello")
    return tmp_path / "raw"


def zipped(raw, **more):
    with zipfile.ZipFile(raw / "ModelNet10.zip", "w") as archive:
        for path in (raw / "ModelNet10").rglob("*"):
            archive.write(path, path.relative_to(raw))
        archive.writestr("__MACOSX/ModelNet10/bed/train/._bed_0001.off", "x")
        for name, content in more.items():
            archive.writestr(name.replace("__", "/"), content)
    shutil.rmtree(raw / "ModelNet10")


def test_folder_and_zip_give_the_same(modelnet, tmp_path):
    options = {"poses": 4}
    folder = prepare("m10-16", tmp_path / "a", options=options, raw_dir=modelnet)
    assert list(folder["raw_sha256"]) == ["ModelNet10/ (40 files)"]
    zipped(modelnet)
    archive = prepare("m10-16", tmp_path / "b", options=options, raw_dir=modelnet)
    assert list(archive["raw_sha256"]) == ["ModelNet10.zip"]
    for split in ("train", "test"):
        assert folder["splits"][split] == archive["splits"][split]
    assert folder["classes"] == CLASSES10
    assert folder["splits"]["train"]["shape"] == [120, 4096]
    assert "n: paper 47,892, here 120 (poses: 4)" in folder["paper"]["differences"]
    np.testing.assert_array_equal(open_groups(tmp_path / "a/train"), np.repeat(np.arange(30), 4))
    _, y = open_split(tmp_path / "a/train")
    np.testing.assert_array_equal(y, np.repeat(np.arange(10), 12))


def test_absent_meshes_are_counted_by_class(modelnet, tmp_path):
    meta = prepare("m10-16", tmp_path / "a", options={"poses": 1}, raw_dir=modelnet)
    (note,) = (note for note in meta["notes"] if "absent" in note)
    assert note.startswith("4859 of the 4,899 published meshes are absent: chair 985, sofa 776, ")


@pytest.mark.parametrize(
    ("path", "content", "problem"),
    [
        (
            "toilet/test/toilet_0004.off",
            "ply\nformat ascii 1.0\n",
            r"toilet_0004\.off: .*it is a PLY file; convert it",
        ),
        (
            "toilet/test/toilet_0005.ply",
            "ply\nformat ascii 1.0\n",
            r"toilet_0005\.ply: .*it is a PLY file; convert it",
        ),
        ("toilet/test/toilet_0004.off", "OFF\n3 1 0\n0 0 0\n1 0", r"toilet_0004\.off: .*only 1 present"),
        ("toilet/test/toilet_0004.off", "", r"toilet_0004\.off: .*does not start with OFF"),
        ("toilets/test/toilet_0004.off", "OFF", "'toilets' is not a class of it"),
        ("toilet/test/toilet_0004.off", None, "no meshes in toilet/test/model.off"),
    ],
)
def test_bad_input_is_named_before_anything_is_computed(modelnet, tmp_path, path, content, problem):
    place = modelnet / "ModelNet10" / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    if content is not None:
        place.write_text(content)
    dataset = REGISTRY["m10-16"]
    for pack in (lambda raw: None, zipped):
        pack(modelnet)
        with pytest.raises(DatasetError, match=problem):
            dataset.load(Request(RawFiles(modelnet), dict(dataset.options), tmp_path))


def test_a_mesh_that_only_the_parser_understands_passes(modelnet, tmp_path):
    content = "OFF # a corner\n3 1 0\n0 0 0 1 0 0 0 1 1\n3 0 1 2"
    (modelnet / "ModelNet10/toilet/test/toilet_0004.off").write_text(content)
    assert prepare("m10-16", tmp_path / "a", raw_dir=modelnet)["empty_rows"] == 0


def test_a_hold_out_keeps_poses_together(modelnet, tmp_path):
    prepare("m10-16", tmp_path / "a", options={"poses": 3, "holdout": 0.4}, raw_dir=modelnet)
    train, test = (set(open_groups(tmp_path / "a" / split)) for split in ("train", "test"))
    assert not train & test
    assert len(train) == 18


def test_a_bad_mesh_is_named_whatever_the_number_of_workers(modelnet, tmp_path):
    (modelnet / "ModelNet10/chair/train/chair_0002.off").write_text("OFF\n3 1 0\n0 0 0\n")
    for n_jobs in (1, 2):
        with pytest.raises(DatasetError, match=r"chair_0002\.off: .*only 1 present"):
            prepare("m10-16", tmp_path / "a", raw_dir=modelnet, n_jobs=n_jobs)
    assert not (tmp_path / "a").exists()


def test_a_zip_with_an_unsafe_path_is_refused(modelnet, tmp_path):
    zipped(modelnet, **{"../evil.off": "x"})
    with pytest.raises(DatasetError, match=r"unsafe path in archive: '\.\./evil\.off'"):
        prepare("m10-16", tmp_path / "a", raw_dir=modelnet)


def test_a_truncated_zip_is_refused(modelnet, tmp_path):
    zipped(modelnet)
    content = (modelnet / "ModelNet10.zip").read_bytes()
    (modelnet / "ModelNet10.zip").write_bytes(content[:-500])
    with pytest.raises(DatasetError, match=r"ModelNet10\.zip"):
        prepare("m10-16", tmp_path / "a", raw_dir=modelnet)


@pytest.fixture
def grids(tmp_path):
    """Ready-made grids in small."""
    rng = np.random.default_rng(0)
    arrays = {"X_train": rng.integers(0, 2, (40, 8, 8, 8), np.int32), "y_train": np.arange(40) % 4}
    arrays |= {"X_test": rng.integers(0, 2, (8, 8, 8, 8), np.int32), "y_test": np.arange(8) % 4}
    (tmp_path / "raw").mkdir()
    np.savez_compressed(tmp_path / "raw/modelnet10_32.npz", **arrays)
    return tmp_path / "raw", arrays


def test_grids_replace_meshes_and_it_is_said(grids, tmp_path):
    meta = prepare("m10-16", tmp_path / "a", raw_dir=grids[0])
    assert meta["splits"]["train"]["shape"] == [480, 4096]
    assert "modelnet10_32.npz" in meta["notes"][0]
    assert meta["classes"] == ["bathtub", "bed", "chair", "desk"]


def test_solid_voxels_are_the_default_and_kept_as_runs(grids, tmp_path):
    solid = prepare("m10-16", tmp_path / "solid", raw_dir=grids[0])
    surface = prepare("m10-16", tmp_path / "surface", options={"fill": "surface"}, raw_dir=grids[0])
    assert solid["options"]["fill"] == "solid"
    assert [solid["splits"]["train"]["layout"], surface["splits"]["train"]["layout"]] == ["runs", "binary"]
    enclosed, met = (open_split(tmp_path / fill / "train")[0][:] > 0 for fill in ("solid", "surface"))
    assert (enclosed.multiply(met) != met).nnz == 0
    assert enclosed.nnz > met.nnz


def test_the_layout_of_the_rows_does_not_change_what_is_learned(grids, tmp_path):
    prepare("m10-16", tmp_path / "a", raw_dir=grids[0])
    X, y = open_split(tmp_path / "a/train")
    held, _ = open_split(tmp_path / "a/test")
    assert isinstance(X, RunRows)
    for method in (FLRML, MFLRML, ReferenceMFLRML, RidgeFLRML):
        runs, csr = (method(5, random_state=0).fit(rows, y) for rows in (X, X[:]))
        np.testing.assert_allclose(cosines(runs.transform(held)), cosines(csr.transform(held[:])), atol=2e-3)


def cosines(Y):
    unit = Y / np.linalg.norm(Y, axis=1, keepdims=True)
    return unit @ unit.T


def test_bad_grids_are_refused(grids, tmp_path):
    raw, arrays = grids
    for change, problem in (
        ({"y_train": np.arange(39)}, "39 labels in y_train for 40 grids"),
        ({"X_train": arrays["X_train"][:, :7]}, "expected n cubes"),
        ({"X_train": arrays["X_train"] * 0.5}, "expected n cubes"),
        ({"y_test": np.arange(8)}, "class dresser is not in the training part"),
        ({"y_test": np.arange(8) + 5}, "must be integers from 0 to 9"),
    ):
        np.savez(raw / "modelnet10_32.npz", **(arrays | change))
        with pytest.raises(DatasetError, match=problem):
            prepare("m10-16", tmp_path / "a", raw_dir=raw)
    np.savez(raw / "modelnet10_32.npz", X_train=arrays["X_train"])
    with pytest.raises(DatasetError, match=r"modelnet10_32\.npz"):
        prepare("m10-16", tmp_path / "a", raw_dir=raw)


def test_any_number_of_workers_gives_the_same_bytes(tmp_path):
    models = MODELS_PER_PROCESS // 5  # more than one round of work
    for n_jobs in (1, 2):
        options = {"models": [models, 1], "poses": 3}
        prepare("shapes10-16", tmp_path / str(n_jobs), options=options, n_jobs=n_jobs)
    for file in (path.relative_to(tmp_path / "1") for path in (tmp_path / "1").rglob("*.*")):
        assert (tmp_path / "1" / file).read_bytes() == (tmp_path / "2" / file).read_bytes()


def test_shapes_depend_on_the_seed_and_parts_differ(tmp_path):
    options = {"models": [2, 2], "poses": 1}
    a, b = (prepare("shapes10-16", tmp_path / "a", options=options, seed=seed) for seed in (0, 1))
    assert a["fingerprint"] != b["fingerprint"]
    assert a["splits"]["train"]["fingerprint"] != a["splits"]["test"]["fingerprint"]
    assert a["classes"][0] == "bed"
    assert a["empty_rows"] == 0
