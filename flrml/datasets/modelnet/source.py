"""Load ModelNet: meshes in the official zip or folder layout, or solid grids."""

import math
import zipfile
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath

import numpy as np

from flrml.datasets.fetch import RemoteFile
from flrml.datasets.modelnet.off import check_off, parse_off
from flrml.datasets.modelnet.poses import voxel_part
from flrml.datasets.modelnet.voxels import turn_grid, voxelize
from flrml.datasets.parts import Loaded, Part, Request
from flrml.datasets.reading import files_below, open_zip, read_entry, read_npy_header, reading
from flrml.exceptions import DatasetError

# Meshes of ModelNet40 by class, for training and for tests, as published.
PUBLISHED = {
    "airplane": (626, 100), "bathtub": (106, 50), "bed": (515, 100), "bench": (173, 20), "bookshelf": (572, 100),
    "bottle": (335, 100), "bowl": (64, 20), "car": (197, 100), "chair": (889, 100), "cone": (167, 20),
    "cup": (79, 20), "curtain": (138, 20), "desk": (200, 86), "door": (109, 20), "dresser": (200, 86),
    "flower_pot": (149, 20), "glass_box": (171, 100), "guitar": (155, 100), "keyboard": (145, 20),
    "lamp": (124, 20), "laptop": (149, 20), "mantel": (284, 100), "monitor": (465, 100), "night_stand": (200, 86),
    "person": (88, 20), "piano": (231, 100), "plant": (240, 100), "radio": (104, 20), "range_hood": (115, 100),
    "sink": (128, 20), "sofa": (680, 100), "stairs": (124, 20), "stool": (90, 20), "table": (392, 100),
    "tent": (163, 20), "toilet": (344, 100), "tv_stand": (267, 100), "vase": (475, 100), "wardrobe": (87, 20),
    "xbox": (103, 20),
}  # fmt: skip
SUFFIXES = (".off", ".ply")  # meshes in another format than OFF are refused, not skipped
CLASSES10 = ["bathtub", "bed", "chair", "desk", "dresser", "monitor", "night_stand", "sofa", "table", "toilet"]


def load_modelnet(
    request: Request, *, size: int, archive: tuple[RemoteFile], folder: tuple[str], grids: tuple[str, ...] = ()
) -> Loaded:
    """Load ModelNet10, for which there may be ``grids``, or ModelNet40.

    Meshes are read from the archive or its unpacked folder. If the raw-file folder holds neither of them but
    ``grids``, its solid grids are rotated and resampled instead.
    """
    raw = request.raw
    unpacked = raw.find(*folder)
    classes = CLASSES10 if grids else list(PUBLISHED)
    if unpacked is not None and unpacked.is_dir():
        files = [path for path in files_below(unpacked) if path.suffix in SUFFIXES]
        names = [path.relative_to(unpacked).as_posix() for path in files]
        loaded = _load_meshes(request, size, unpacked, names, classes)
        raw.record_folder(unpacked, files)
        return loaded
    if raw.find(archive[0].name) is None and grids and (path := raw.find(*grids)) is not None:
        raw.record(path)
        parts = (_grid_part(request, path, size, split) for split in ("train", "test"))
        note = f"poses are rotated and resampled from the solid grids of {path.name}, not made from meshes"
        return Loaded(*parts, notes=(note,))
    path = raw.get(*archive)
    return _load_meshes(request, size, path, _list_zip(path), classes)


def _list_zip(path: Path) -> list[str]:
    with open_zip(path) as archive:
        # __MACOSX contains metadata under the names of the meshes.
        names = [name for name in archive.namelist() if name.endswith(SUFFIXES) and "__MACOSX" not in name]
    return [name for name in names if not PurePosixPath(name).name.startswith(".")]


def _load_meshes(request: Request, size: int, container: Path, names: list[str], classes: list[str]) -> Loaded:
    """Load meshes whose names end in ``class/train/model.off`` or ``class/test/model.off``."""
    members: dict[str, list[str]] = {"train": [], "test": []}
    for name in sorted(names):
        if (split := PurePosixPath(name).parent.name) in members:
            members[split].append(name)
    absent = _count_absent(container, members, classes)
    for name in (*members["train"], *members["test"]):
        check_off(_read_member(container, name), f"{container}: {name}")
    parts = (_mesh_part(request, size, container, members[split]) for split in members)
    return Loaded(*parts, notes=absent)


def _class_of(name: str) -> str:
    return PurePosixPath(name).parent.parent.name


def _count_absent(container: Path, members: dict[str, list[str]], classes: list[str]) -> tuple[str, ...]:
    """Return a note on meshes of the published set that are absent; refuse to go on without any of a class."""
    absent: Counter[str] = Counter()
    for column, (split, names) in enumerate(members.items()):
        found = Counter(map(_class_of, names))
        if unknown := found.keys() - set(classes):
            raise DatasetError(f"{container}: {sorted(unknown)[0]!r} is not a class of it; remove the folder")
        for class_ in classes:
            if not found[class_]:
                raise DatasetError(
                    f"{container}: no meshes in {class_}/{split}/model.off; use the published layout"
                )
            absent[class_] += max(0, PUBLISHED[class_][column] - found[class_])
    if not absent.total():
        return ()
    of_each = ", ".join(f"{class_} {count}" for class_, count in absent.most_common() if count)
    published = sum(sum(PUBLISHED[class_]) for class_ in classes)
    return (f"{absent.total()} of the {published:,} published meshes are absent: {of_each}",)


def _mesh_part(request: Request, size: int, container: Path, members: list[str]) -> Part:
    labels = np.array([_class_of(name) for name in members])

    def read_models(models: np.ndarray) -> Iterator[tuple]:
        return ((container, members[model]) for model in models)

    return voxel_part(labels, _voxelize_member, read_models, request, size, str(container))


def _read_member(container: Path, name: str) -> bytes:
    if container.is_dir():
        with reading(container / name, "an OFF file"):
            return (container / name).read_bytes()
    status = container.stat()
    return read_entry(_open_once(container, (status.st_ino, status.st_size, status.st_mtime_ns)), name)


def _voxelize_member(container: Path, name: str, size: int, n_poses: int, fill: str) -> list[np.ndarray]:
    content = _read_member(container, name)
    return voxelize(*parse_off(content, f"{container}: {name}"), size, n_poses, fill)


@lru_cache(maxsize=1)
def _open_once(path: Path, version: tuple[int, int, int]) -> zipfile.ZipFile:
    """Open an archive once per process: the directory of ModelNet40.zip takes longer to read than a mesh."""
    return open_zip(path)


def _grid_part(request: Request, path: Path, size: int, split: str) -> Part:
    with open_zip(path) as archive, reading(path, "an archive of grids"):
        with archive.open(f"y_{split}.npy") as file:
            labels = np.lib.format.read_array(file, allow_pickle=False)
        with archive.open(f"X_{split}.npy") as file:
            shape, fortran, dtype = read_npy_header(file)
    if len(shape) != 4 or len(set(shape[1:])) != 1 or fortran or dtype.kind not in "biu":
        raise DatasetError(f"{path}: X_{split} has shape {shape} and type {dtype}; expected n cubes of integers")
    if labels.shape != shape[:1]:
        raise DatasetError(f"{path}: {labels.size} labels in y_{split} for {shape[0]} grids; give one per grid")
    if labels.dtype.kind not in "biu" or not np.isin(labels, range(len(CLASSES10))).all():
        raise DatasetError(
            f"{path}: labels in y_{split} must be integers from 0 to 9; number the classes alphabetically"
        )
    read_models = partial(_read_grids, path, f"X_{split}.npy")
    return voxel_part(np.array(CLASSES10)[labels], _turn_packed, read_models, request, size, f"{path}: X_{split}")


def _read_grids(path: Path, entry: str, models: np.ndarray) -> Iterator[tuple]:
    """Iterate over grids of an archive, packed to bits, with their shape."""
    wanted = set(models.tolist())
    with open_zip(path) as archive, reading(f"{path}: {entry}", "an array of grids"), archive.open(entry) as file:
        shape, _, dtype = read_npy_header(file)
        n_bytes = math.prod(shape[1:]) * dtype.itemsize
        for model in range(shape[0]):
            content = file.read(n_bytes)
            if len(content) < n_bytes:
                raise ValueError(f"it ends inside grid {model}")
            if model in wanted:
                yield np.packbits(np.frombuffer(content, dtype) != 0), shape[1:]


def _turn_packed(
    packed: np.ndarray, shape: tuple[int, ...], size: int, n_poses: int, fill: str
) -> list[np.ndarray]:
    grid = np.unpackbits(packed, count=math.prod(shape)).astype(bool).reshape(shape)
    return turn_grid(grid, size, n_poses, fill)
