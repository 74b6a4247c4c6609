"""Load ModelNet: meshes in the official zip or folder layout, or solid grids."""

import math
import zipfile
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath

import numpy as np

from flrml.datasets.fetch import RemoteFile
from flrml.datasets.modelnet.off import parse_off
from flrml.datasets.modelnet.poses import voxel_part
from flrml.datasets.modelnet.voxels import turn_grid, voxelize
from flrml.datasets.parts import Loaded, Part, Request
from flrml.datasets.reading import files_below, open_zip, read_entry, read_npy_header, reading
from flrml.exceptions import DatasetError

CLASSES10 = ["bathtub", "bed", "chair", "desk", "dresser", "monitor", "night_stand", "sofa", "table", "toilet"]


def load_modelnet(request: Request, *, size: int, file: RemoteFile, grids: str | None = None) -> Loaded:
    """Load ModelNet10 or ModelNet40.

    Meshes are read from the zip or its unpacked folder. If the raw-file folder holds neither of them but
    ``grids``, its solid grids are rotated and resampled instead.
    """
    raw = request.raw
    folder = raw.find(file.name.removesuffix(".zip"))
    if folder is not None and folder.is_dir():
        return _load_meshes(request, size, *_list_folder(request, folder))
    if raw.find(file.name) is None and grids is not None and (path := raw.find(grids)) is not None:
        raw.record(path)
        return _load_grids(request, path, size)
    return _load_meshes(request, size, *_list_zip(raw.get(file)))


def _list_folder(request: Request, folder: Path) -> tuple[Path, list[str]]:
    files = [path for path in files_below(folder) if path.suffix == ".off"]
    request.raw.record_folder(folder, files)
    return folder, [path.relative_to(folder).as_posix() for path in files]


def _list_zip(path: Path) -> tuple[Path, list[str]]:
    with open_zip(path) as archive:
        # __MACOSX contains metadata under the names of the meshes.
        names = [name for name in archive.namelist() if name.endswith(".off") and "__MACOSX" not in name]
    return path, [name for name in names if not PurePosixPath(name).name.startswith(".")]


def _load_meshes(request: Request, size: int, container: Path, names: list[str]) -> Loaded:
    """Load meshes whose names end in ``class/train/model.off`` or ``class/test/model.off``."""
    return Loaded(*(_mesh_part(request, size, container, names, split) for split in ("train", "test")))


def _mesh_part(request: Request, size: int, container: Path, names: list[str], split: str) -> Part:
    members = sorted(name for name in names if PurePosixPath(name).parts[-2:-1] == (split,))
    if not members:
        raise DatasetError(f"{container}: no meshes in class/{split}/model.off; use the published layout")
    labels = np.array([PurePosixPath(name).parts[-3] if name.count("/") > 1 else "" for name in members])
    if (labels == "").any():
        raise DatasetError(f"{container}: {members[0]} is in no class folder; use the published layout")

    def read_models(models: np.ndarray) -> Iterator[tuple]:
        return ((container, members[model]) for model in models)

    return voxel_part(labels, _voxelize_member, read_models, request, size, str(container))


def _voxelize_member(container: Path, name: str, size: int, n_poses: int, fill: str) -> list[np.ndarray]:
    if container.is_dir():
        with reading(container / name, "an OFF file"):
            content = (container / name).read_bytes()
    else:
        status = container.stat()
        content = read_entry(_open_once(container, (status.st_ino, status.st_size, status.st_mtime_ns)), name)
    return voxelize(*parse_off(content, f"{container}: {name}"), size, n_poses, fill)


@lru_cache(maxsize=1)
def _open_once(path: Path, version: tuple[int, int, int]) -> zipfile.ZipFile:
    """Open an archive once per process: the directory of ModelNet40.zip takes longer to read than a mesh."""
    return open_zip(path)


def _load_grids(request: Request, path: Path, size: int) -> Loaded:
    parts = (_grid_part(request, path, size, split) for split in ("train", "test"))
    note = f"poses are rotated and resampled from the solid grids of {path.name}, not made from meshes"
    return Loaded(*parts, notes=(note,))


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
