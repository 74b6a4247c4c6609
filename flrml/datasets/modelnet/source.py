"""Load ModelNet: meshes in the official zip or folder layout, or solid grids."""

import zipfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath

import numpy as np

from flrml.datasets.fetch import RemoteFile
from flrml.datasets.modelnet.off import parse_off
from flrml.datasets.modelnet.poses import Task, voxel_part
from flrml.datasets.modelnet.voxels import turn_grid, voxelize
from flrml.datasets.parts import Loaded, Request
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
    parts = {}
    for split in ("train", "test"):
        members = sorted(name for name in names if PurePosixPath(name).parts[-2:-1] == (split,))
        if not members:
            raise DatasetError(f"{container}: no meshes in class/{split}/model.off; use the published layout")
        labels = np.array([PurePosixPath(name).parts[-3] if name.count("/") > 1 else "" for name in members])
        if (labels == "").any():
            raise DatasetError(f"{container}: {members[0]} is in no class folder; use the published layout")
        parts[split] = voxel_part(
            labels, _mesh_tasks(container, members, size, request), request, size, str(container)
        )
    return Loaded(parts["train"], parts["test"])


def _mesh_tasks(
    container: Path, members: list[str], size: int, request: Request
) -> Callable[[np.ndarray], Iterator[Task]]:
    settings = (size, request.options["poses"], request.options["fill"])

    def tasks(models: np.ndarray) -> Iterator[Task]:
        return ((_voxelize_member, (container, members[model], *settings)) for model in models)

    return tasks


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
    parts = []
    for split in ("train", "test"):
        with open_zip(path) as archive, reading(path, "an archive of grids"):
            with archive.open(f"y_{split}.npy") as file:
                labels = np.lib.format.read_array(file, allow_pickle=False)
            with archive.open(f"X_{split}.npy") as file:
                shape, fortran, dtype = read_npy_header(file)
        if len(shape) != 4 or len(set(shape[1:])) != 1 or fortran or dtype.kind not in "biu":
            raise DatasetError(
                f"{path}: X_{split} has shape {shape} and type {dtype}; expected n cubes of integers"
            )
        if labels.shape != shape[:1]:
            raise DatasetError(f"{path}: {labels.size} labels in y_{split} for {shape[0]} grids; give one per grid")
        if labels.dtype.kind not in "biu" or not np.isin(labels, range(len(CLASSES10))).all():
            raise DatasetError(
                f"{path}: labels in y_{split} must be integers from 0 to 9; number the classes alphabetically"
            )
        tasks = _grid_tasks(path, f"X_{split}.npy", size, request)
        parts.append(voxel_part(np.array(CLASSES10)[labels], tasks, request, size, f"{path}: X_{split}"))
    note = f"poses are rotated and resampled from the solid grids of {path.name}, not made from meshes"
    return Loaded(parts[0], parts[1], (note,))


def _grid_tasks(path: Path, entry: str, size: int, request: Request) -> Callable[[np.ndarray], Iterator[Task]]:
    settings = (size, request.options["poses"], request.options["fill"])

    def tasks(models: np.ndarray) -> Iterator[Task]:
        wanted = set(models.tolist())
        with (
            open_zip(path) as archive,
            reading(f"{path}: {entry}", "an array of grids"),
            archive.open(entry) as file,
        ):
            shape, _, dtype = read_npy_header(file)
            n_cells = int(np.prod(shape[1:]))
            for model in range(shape[0]):
                content = file.read(n_cells * dtype.itemsize)
                if len(content) < n_cells * dtype.itemsize:
                    raise ValueError(f"it ends inside grid {model}")
                if model in wanted:
                    yield _turn_packed, (np.packbits(np.frombuffer(content, dtype) != 0), shape[1:], *settings)

    return tasks


def _turn_packed(
    packed: np.ndarray, shape: tuple[int, ...], size: int, n_poses: int, fill: str
) -> list[np.ndarray]:
    grid = np.unpackbits(packed, count=int(np.prod(shape))).astype(bool).reshape(shape)
    return turn_grid(grid, size, n_poses, fill)
