"""Mutated files: a reader loads them or raises a DatasetError, nothing else.

`FLRML_FUZZ` sets the number of mutations per file (`make fuzz` raises it), `FLRML_FUZZ_SEED` chooses others.
"""

import bz2
import gzip
import io
import os
import shutil
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from flrml.datasets import download as downloads
from flrml.datasets import open_groups, open_split, prepare
from flrml.datasets.modelnet.off import parse_off
from flrml.datasets.modelnet.shapes import make_mesh
from flrml.datasets.modelnet.source import CLASSES10
from flrml.datasets.modelnet.voxels import voxelize
from flrml.datasets.store import verify
from flrml.datasets.text import parse_tab
from flrml.exceptions import DatasetError

N_MUTATIONS = int(os.environ.get("FLRML_FUZZ", "25"))
SEED = int(os.environ.get("FLRML_FUZZ_SEED", "0"))
NASTY = [
    b"nan",
    b"-1",
    b"inf",
    b"1e999",
    b"99999999999999999999",
    b"0",
    b"",
    b"\x00",
    b"..",
    b"/",
    b"\xff",
    b"2147483648",
]

N = 12
X = np.random.default_rng(0).integers(0, 3, (N, 4)).astype(float)
X[:, 0] += 1
Y = np.arange(N) % 3 + 1


def mutate(content: bytes, rng: np.random.Generator) -> bytes:
    """Damage a file in one to three places."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(0, len(data) + 1))
        length = int(rng.integers(1, 9))
        match rng.integers(0, 7):
            case 0:
                del data[at:]
            case 1:
                del data[at : at + length]
            case 2:
                data[at : at + length] = rng.bytes(length)
            case 3:
                if at < len(data):
                    data[at] ^= 1 << int(rng.integers(0, 8))
            case 4:
                data[at:at] = data[at : at + 4 * length]
            case 5:
                data[at : at + length] = NASTY[rng.integers(len(NASTY))]
            case 6:
                tokens = bytes(data).split(b" ")
                tokens[rng.integers(len(tokens))] = NASTY[rng.integers(len(NASTY))]
                data = bytearray(b" ".join(tokens))
    return bytes(data)


def written(write) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def zip_of(entries: dict[str, bytes]) -> bytes:
    def write(file):
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in entries.items():
                archive.writestr(name, content)

    return written(write)


def npy(array) -> bytes:
    return written(lambda file: np.save(file, array))


def off(seed) -> bytes:
    vertices, faces = make_mesh("stool", [seed])
    lines = [" ".join(f"{x:.3f}" for x in row) for row in vertices] + [f"3 {a} {b} {c}" for a, b, c in faces]
    return (f"OFF{len(vertices)} {len(faces)} 0\n" + "\n".join(lines)).encode()


SVM = written(lambda file: dump_svmlight_file(X, Y, file, zero_based=False))
TABLE = pd.DataFrame(X, columns=list("abcd")).assign(kind=Y)
CSV = TABLE.to_csv(index=False).encode()
MAT = {"fea": sp.csc_matrix(X), "gnd": Y.reshape(-1, 1)}
SPARSE = written(lambda file: sp.save_npz(file, sp.csr_matrix(X)))
GRID = np.random.default_rng(0).integers(0, 2, (4, 5, 5, 5), np.int32)
GRIDS = {"X_train": GRID, "y_train": np.arange(4) % 2, "X_test": GRID[:2], "y_test": np.arange(2)}
MESHES = {f"ModelNet10/{k}/{p}/1.off": off(i) for i, k in enumerate(CLASSES10) for p in ("train", "test")}
IMAGES = np.zeros((N, 28, 28), np.uint8)
IMAGES[:, 3:9, 3:9] = 7
IDX = bytes((0, 0, 8, 3)) + b"".join(n.to_bytes(4, "big") for n in IMAGES.shape) + IMAGES.tobytes()
IDX_LABELS = bytes((0, 0, 8, 1)) + N.to_bytes(4, "big") + Y.astype(np.uint8).tobytes()

OWN = {"holdout": 0.3}
FILES: dict[str, tuple[str, bytes, str, dict, dict[str, bytes]]] = {
    # what: file that is mutated, its content, data set, options, files that stay whole
    "svmlight": ("a.svm", SVM, "mine", OWN, {}),
    "svmlight.gz": ("a.svm.gz", gzip.compress(SVM), "mine", OWN, {}),
    "svmlight.bz2": ("a.svm.bz2", bz2.compress(SVM), "mine", OWN, {}),
    "npy": ("a.npy", npy(X), "mine", {**OWN, "labels": "y.npy"}, {"y.npy": npy(Y)}),
    "labels": ("y.npy", npy(Y), "mine", {**OWN, "train": "a.npy", "labels": "y.npy"}, {"a.npy": npy(X)}),
    "npz": ("a.npz", zip_of({"X.npy": npy(X), "y.npy": npy(Y)}), "mine", OWN, {}),
    "sparse npz": ("a.npz", SPARSE, "mine", {**OWN, "labels": "y.npy"}, {"y.npy": npy(Y)}),
    "mat": ("a.mat", written(lambda file: scipy.io.savemat(file, MAT)), "mine", OWN, {}),
    "mat, compressed": (
        "a.mat",
        written(lambda file: scipy.io.savemat(file, MAT, do_compression=True)),
        "mine",
        OWN,
        {},
    ),
    "csv": ("a.csv", CSV, "mine", {**OWN, "target": "kind"}, {}),
    "csv.gz": (
        "a.csv.gz",
        gzip.compress(CSV),
        "mine",
        {**OWN, "target": "kind"},
        {},
    ),
    "parquet": ("a.parquet", written(TABLE.to_parquet), "mine", {**OWN, "target": "kind"}, {}),
    "document": (
        "set/a/1.txt",
        "größer red blue".encode(),
        "mine",
        {**OWN, "format": "folder", "train": "set"},
        {"set/a/2.txt": b"red", "set/b/1.txt": b"green", "set/b/2.txt": b"blue green"},
    ),
    "grids": (
        "modelnet10_32.npz",
        zip_of({f"{k}.npy": npy(v) for k, v in GRIDS.items()}),
        "m10-16",
        {"poses": 1},
        {},
    ),
    "meshes": ("ModelNet10.zip", zip_of(MESHES), "m10-16", {"poses": 1}, {}),
    "images": (
        "train-images-idx3-ubyte.gz",
        gzip.compress(IDX),
        "mnist",
        OWN,
        {"train-labels-idx1-ubyte.gz": gzip.compress(IDX_LABELS)},
    ),
    "idx labels": (
        "train-labels-idx1-ubyte.gz",
        gzip.compress(IDX_LABELS),
        "mnist",
        OWN,
        {"train-images-idx3-ubyte.gz": gzip.compress(IDX)},
    ),
}
RECOMPRESSED = {"csv.gz": gzip, "svmlight.gz": gzip, "svmlight.bz2": bz2, "images": gzip, "idx labels": gzip}


def survives(call) -> bool:
    """Return whether the call succeeds, or False for a DatasetError; let any other exception pass."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except DatasetError:
        return False
    return True


@pytest.mark.parametrize("what", FILES)
def test_mutated_files_give_a_dataset_error_or_a_data_set(tmp_path, what):
    name, content, dataset, options, others = FILES[what]
    raw = tmp_path / "raw"
    for other, whole in {**others, name: content}.items():
        (raw / other).parent.mkdir(parents=True, exist_ok=True)
        (raw / other).write_bytes(whole)
    if dataset == "mine":
        options = {"train": name, **options}

    def run():
        prepare(dataset, tmp_path / "out", options=options, raw_dir=raw)

    run()  # the whole file is fine
    rng = np.random.default_rng([SEED, sum(what.encode())])
    refused = 0
    for number in range(N_MUTATIONS):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        package = RECOMPRESSED.get(what)
        if package is not None and number % 2:
            damaged = package.compress(mutate(package.decompress(content), rng))
        elif content[:2] == b"PK" and number % 2:
            damaged = mutate_entry(content, rng)
        else:
            damaged = mutate(content, rng)
        (raw / name).write_bytes(damaged)
        fine = survives(run)
        refused += not fine
        assert (tmp_path / "out").exists() == fine
        assert not (tmp_path / ".out.partial").exists()
    assert refused


def mutate_entry(content: bytes, rng: np.random.Generator) -> bytes:
    """Damage one entry of a zip archive or its name, and keep the archive intact."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    name = sorted(entries)[rng.integers(len(entries))]
    damaged = mutate(entries.pop(name), rng)
    if rng.random() < 0.1:
        name = mutate(name.encode(), rng).decode(errors="replace").replace("\x00", "") or "x"
    return zip_of({**entries, name: damaged})


def test_mutated_meshes():
    rng, content = np.random.default_rng(SEED), off(0)
    for _ in range(N_MUTATIONS):
        damaged = mutate(content, rng)
        survives(lambda damaged=damaged: voxelize(*parse_off(damaged, "mesh.off"), 8, 2, "surface"))


def test_mutated_documents():
    rng = np.random.default_rng(SEED)
    content = b"Category\tText\nd\tstring\nclass\t\n" + b"".join(
        b"c%d\tred %d blue\n" % (i % 3, i) for i in range(20)
    )
    for _ in range(N_MUTATIONS):
        damaged = mutate(content, rng)
        survives(lambda damaged=damaged: parse_tab(damaged, "a.tab"))


@pytest.mark.parametrize("name", ["digits", "mine", "shapes10-16"])
def test_mutated_stores(tmp_path, name):
    (tmp_path / "a.svm").write_bytes(SVM)
    options = {"mine": {"train": "a.svm", "holdout": 0.3}, "shapes10-16": {"models": [1, 1], "poses": 1}}
    prepare(name, tmp_path / "out", options=options.get(name), raw_dir=tmp_path)
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and "test" not in path.parts]
    rng = np.random.default_rng(SEED)

    def run():
        data, y = open_split(tmp_path / "out/train")
        open_groups(tmp_path / "out/train")
        assert data.shape[0] == len(y)
        rows = data[:]  # from here on, scipy trusts every number
        assert np.isfinite(rows.T @ np.ones((len(y), 3))).all()
        assert np.isfinite(rows @ np.ones((data.shape[1], 3))).all()

    for _ in range(2 * N_MUTATIONS):
        path = files[rng.integers(len(files))]
        content = path.read_bytes()
        path.write_bytes(mutate(content, rng))
        survives(run)
        survives(lambda: verify(tmp_path / "out"))
        path.write_bytes(content)
    assert survives(run)


def special_file(kind, path):
    """Replace a file by something that is not a regular file."""
    path.unlink()
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
        case "dangling link":
            path.symlink_to(path.with_name("nowhere"))


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "dangling link"])
@pytest.mark.parametrize("what", FILES)
def test_special_files_give_a_dataset_error(tmp_path, monkeypatch, what, kind):
    monkeypatch.setattr(downloads, "FIRST_PAUSE", 0.0)  # between attempts to fetch what a link does not lead to
    if (what, kind) == ("document", "folder"):
        pytest.skip("a folder among documents is allowed")
    name, content, dataset, options, others = FILES[what]
    for other, whole in {**others, name: content}.items():
        (tmp_path / other).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / other).write_bytes(whole)
    special_file(kind, tmp_path / name)
    if dataset == "mine":
        options = {"train": name, **options}
    fine = survives(lambda: prepare(dataset, tmp_path / "out", options=options, raw_dir=tmp_path))
    assert not fine
