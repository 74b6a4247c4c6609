"""Small raw data of every kind, and models trained and evaluated on them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from PIL import Image
from sklearn.datasets import dump_svmlight_file, load_digits

from flrml.datasets import open_split, prepare
from flrml.pipeline.stages.draw_triplets import draw_for_dataset
from flrml.pipeline.stages.evaluate import evaluate
from flrml.pipeline.stages.train import train
from tests.pipeline.tracked import Folder

ROOT = Path(__file__).parents[2]
TRAINED, HELD_OUT = slice(0, None, 2), slice(1, None, 2)
METHOD = "kissme"


@dataclass
class Kind:
    """Raw input of a kind: options of the data set, the test rows as users have them, and a name for the source."""

    options: dict[str, Any]
    raw: Any
    source: str = "mine"
    file: str = ""  # of the test rows


def table(folder: Path) -> Kind:
    frame = pd.read_csv(ROOT / "workflow/resources/iris.csv")
    frame["garden"] = np.where(np.arange(len(frame)) % 3, "north", "south")
    frame["height"] = [round(10 * height) for height in frame["sepal_length"]]
    frame["plant"] = [f"plant {number}" for number in range(len(frame))]
    frame[TRAINED].to_csv(folder / "train.csv", index=False)
    frame[HELD_OUT].to_csv(folder / "test.csv", index=False)
    options = {"target": "species", "groups": "plant", "names": "plant"}
    return Kind(
        _files(folder, "csv") | options, frame[HELD_OUT][["garden", "height", *frame.columns[:4]]], file="test.csv"
    )


def text(folder: Path) -> Kind:
    random = np.random.RandomState(0)
    words = {"sea": ["wave", "salt", "fish", "wind"], "wood": ["tree", "leaf", "moss", "wind"]}
    kinds = random.choice(list(words), 80)
    texts = [" ".join(random.choice(words[kind], 6)) for kind in kinds]
    frame = pd.DataFrame({"body": texts, "kind": kinds})
    frame[TRAINED].to_csv(folder / "train.csv", index=False)
    frame[HELD_OUT].to_csv(folder / "test.csv", index=False)
    options = {"target": "kind", "text": "body", "weighting": "tfidf"}
    return Kind(_files(folder, "csv") | options, texts[HELD_OUT], file="test.csv")


def embeddings(folder: Path) -> Kind:
    X, y = _digits()
    np.savez(folder / "train.npz", X=X[TRAINED].astype(np.float16), y=y[TRAINED])
    np.savez(folder / "test.npz", X=X[HELD_OUT].astype(np.float16), y=y[HELD_OUT])
    return Kind(_files(folder, "npz"), X[HELD_OUT], file="test.npz")


def svmlight(folder: Path) -> Kind:
    X, y = _digits()
    dump_svmlight_file(X[TRAINED], y[TRAINED], str(folder / "train.svm"), zero_based=False)
    dump_svmlight_file(X[HELD_OUT], y[HELD_OUT], str(folder / "test.svm"), zero_based=False)
    return Kind(_files(folder, "svm"), X[HELD_OUT], file="test.svm")


def image(folder: Path) -> Kind:
    X, y = _digits()
    files = []
    for number, (row, label) in enumerate(zip(X[:120], y[:120], strict=True)):
        part = "test" if number % 2 else "train"
        file = folder / part / f"digit {label}" / f"{number:03}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((15 * row.reshape(8, 8)).astype(np.uint8)).save(file)
        files += [file] if number % 2 else []
    options = {"format": "images", "train": str(folder / "train"), "test": str(folder / "test")}
    return Kind(options, [str(file) for file in sorted(files)], file="test")


def bundled(name: str, **options: Any) -> Any:
    """Return a function that describes a bundled data set, whose test rows are those that are prepared."""
    return lambda folder: Kind(options, None, name)


KINDS = {
    "table": table,
    "text": text,
    "image": image,
    "embeddings": embeddings,
    "svmlight": svmlight,
    "digits": bundled("digits", max_train=200, max_test=50),
    "shapes": bundled("shapes10-16", models=[3, 2], poses=2),
}


def train_kinds(folder: Path) -> tuple[Folder, dict[str, Kind]]:
    """Prepare, train and evaluate a model of every kind, and log all; return the results and the raw input."""
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("MLFLOW_TRACKING_URI", raising=False)  # it wins over an address that is given
        results, kinds = Folder(folder / "results", f"sqlite:///{folder}/mlflow.db"), {}
        for name, make in KINDS.items():
            raw, data = folder / name, folder / "results/data" / name
            raw.mkdir()
            kind = kinds[name] = make(raw)
            prepare(kind.source, data, options=kind.options)
            draw_for_dataset(data, folder / "triplets.npy", n_triplets=5, seed=0)
            run = {"dataset": name, "method": METHOD, "seed": 0, "parameters": {"n_components": 4}}
            limits = {"minutes": 1, "memory_mb": 3000}
            place = results.results / run_of(name)
            train(place, data=data, triplets=folder / "triplets.npy", spectrum=None, run=run, limits=limits)
            evaluate(place, data=data, n_neighbors=3)
            if kind.raw is None:
                kind.raw = open_split(data / "test")[0][:]
        results.ask(*(run_of(name) for name in KINDS))
        results.sync()
    return results, kinds


def run_of(kind: str) -> str:
    """Return the folder of the run of a kind in the results."""
    return f"runs/{kind}/{METHOD}/seed0"


def as_json(raw: Any) -> Any:
    """Return raw input as lists, which a server takes; images as arrays."""
    if isinstance(raw, list) and raw[0].endswith(".png"):
        return [np.asarray(Image.open(file)).tolist() for file in raw]
    if isinstance(raw, pd.DataFrame):
        return raw.to_dict("records")
    return raw if isinstance(raw, list) else (raw.toarray() if sp.issparse(raw) else np.asarray(raw)).tolist()


def _files(folder: Path, suffix: str) -> dict[str, Any]:
    return {"train": str(folder / f"train.{suffix}"), "test": str(folder / f"test.{suffix}")}


def _digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(n_class=4, return_X_y=True)
    return X[:300], y[:300]
