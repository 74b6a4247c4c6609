"""Prepare data sets: from raw files to arrays on disk."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from flrml import paper
from flrml.datasets import store
from flrml.datasets.encoders.rows import BINARY_LAYOUTS, FILE, RowsEncoder
from flrml.datasets.fetch import RawFiles, progress_bar
from flrml.datasets.meta import describe
from flrml.datasets.options import resolve
from flrml.datasets.parts import Loaded, Part, Request
from flrml.datasets.registry import Dataset, find_dataset
from flrml.datasets.splitting import has_new_classes, hold_out, split_classes, subsample
from flrml.exceptions import DatasetError
from flrml.extras import require
from flrml.files import write_json

MIN_EXAMPLES_OF_REGRESSION = 10  # fewer may well be of one class each
SPLIT = 0.2  # share of the training part that a split of it holds out


def prepare(
    name: str,
    out: str | os.PathLike,
    *,
    options: Mapping[str, Any] | None = None,
    raw_dir: str | os.PathLike | None = None,
    seed: int = 0,
    n_jobs: int = 1,
) -> dict:
    """Prepare a data set: load or generate the raw data, split, encode as rows, write.

    The folder ``out`` appears complete or not at all. The same arguments give the same bytes.

    Parameters
    ----------
    name : str
        Name in ``REGISTRY``, or any other name if the options describe the user's own data.
    out : path
        Folder to write: ``train``, ``test``, ``meta.json`` and ``encoder.npz``, which `load_encoder` reads.
    options : mapping, optional
        Options of the data set; ``REGISTRY[name].options`` lists them with their defaults.
    raw_dir : path, optional
        Folder that is searched for raw files and receives downloads.
    seed : int, default=0
        Seed of hold-outs, subsamples and procedural models.
    n_jobs : int, default=1
        Number of processes that compute voxels; the result does not depend on it.

    Returns
    -------
    dict
        The content of ``meta.json``.

    Examples
    --------
    >>> import tempfile
    >>> from flrml.datasets import open_split, prepare
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     meta = prepare("digits", f"{folder}/digits")
    ...     X, y = open_split(f"{folder}/digits/train")
    >>> X.shape, meta["n_classes"]
    ((1438, 64), 10)
    """
    # Checked before anything is read, so that a missing extra is reported at once.
    require("pooch", extra="data", needed_by="prepare")
    dataset = find_dataset(name, options)
    resolved = resolve(name, dataset.options, options)
    with store.dataset_folder(out) as folder:
        scratch = folder / "scratch"
        scratch.mkdir()
        raw = RawFiles(raw_dir)
        loaded = dataset.load(Request(raw, resolved, scratch, seed, n_jobs))
        names, selections = _select(name, loaded, resolved, seed)
        encoder = _fit_encoder(loaded, selections["train"], resolved)
        encoder.save(folder / FILE)
        splits = _write(folder, selections, names, encoder)
        shutil.rmtree(scratch)
        meta = describe(
            dataset.name,
            names,
            splits,
            kind=dataset.kind,
            source=dataset.origin,
            raw_sha256=raw.used,
            seed=seed,
            options=resolved,
            notes=(*loaded.notes, *raw.notes()),
        )
        meta["paper"] = _compare(dataset, meta)
        write_json(folder / "meta.json", meta)
    return meta


@dataclass(frozen=True)
class _Selection:
    """Rows of a part that go into a split."""

    part: Part
    rows: np.ndarray
    y: np.ndarray

    def blocks(self) -> Iterator[Any]:
        """Iterate over blocks of the raw input in order."""
        return self.part.blocks(self.rows)

    def encoded(self, encoder: RowsEncoder) -> Iterator[Any]:
        """Iterate over blocks of the encoded rows."""
        done = 0
        for raw in self.blocks():
            # Zeros and ones are stored without their values.
            is_binary = encoder.layout in BINARY_LAYOUTS
            block = raw if is_binary else encoder.encode(raw, self.part.origin, self.rows[done:])
            yield block
            done += block.shape[0]


def _encode(labels: np.ndarray, origin: str) -> np.ndarray:
    """Return labels as integers or strings; refuse any other type."""
    if len(labels) == 0:
        raise DatasetError(f"{origin}: no examples; add some")
    if labels.dtype.kind in "biuf":
        numbers = labels.astype(np.float64)
        whole = np.isfinite(numbers) & (numbers == np.round(numbers)) & (np.abs(numbers) <= 2**53)
        if not whole.all():
            bad = int(np.argmin(whole))
            raise DatasetError(
                f"{origin}: example {bad + 1}: label must be an integer or a name, got {labels[bad]}; regression "
                "is not supported, so group the numbers into classes"
            )
        return labels.astype(np.int64)
    if labels.dtype.kind != "U":
        raise DatasetError(f"{origin}: labels of type {labels.dtype}; give integers or names")
    return labels


def _select(name: str, loaded: Loaded, options: dict, seed: int) -> tuple[list[str], dict[str, _Selection]]:
    """Return the class names, and the rows of the training and the test split."""
    train, test = loaded.train, loaded.test or loaded.train
    classes, y = np.unique(_encode(train.labels, train.origin), return_inverse=True)
    if len(classes) < 2:
        raise DatasetError(
            f"{train.origin}: all examples are of class {classes[0]}; metric learning needs at least two classes"
        )
    if classes.dtype.kind == "i" and len(classes) == len(y) >= MIN_EXAMPLES_OF_REGRESSION:
        raise DatasetError(
            f"{train.origin}: every example has a label of its own, such as {classes[0]}; regression is not "
            "supported, so group the labels into classes"
        )
    split, train_rows = options["split"], np.arange(len(y))
    if options["holdout"] is not None:
        train_rows, test_rows = hold_out(y, train.groups, options["holdout"], [seed, 1])
        test, test_y = train, y
        absent = np.flatnonzero(np.bincount(y[train_rows], minlength=len(classes)) == 0)
        if absent.size:
            raise DatasetError(
                f"{train.origin}: all groups with class {classes[absent[0]]} are held out; change `holdout`, or "
                "give a test part"
            )
    elif loaded.test is not None:
        test_rows, test_y = np.arange(len(test.labels)), _encode_test(classes, test)
        if test.n_columns != train.n_columns:
            raise DatasetError(
                f"{test.origin}: {test.n_columns} columns, but the training part has {train.n_columns}; "
                "give both parts the same columns"
            )
    elif split is None:
        raise DatasetError(f"{name}: no test part; give one, or set `holdout: 0.2` to hold out a fifth")
    if split is not None:
        test, test_y, within = train, y, y[train_rows]
        groups, _ = train.columns_of(train_rows)
        if has_new_classes(split):
            kept, held = split_classes(within, groups, [seed, 5, int(split.partition("-")[2] or 0)])
        else:
            kept, held = hold_out(within, groups, SPLIT, [seed, 4, split])
        train_rows, test_rows = train_rows[kept], train_rows[held]
    train_rows = subsample(train_rows, y, train.groups, options["max_train"], 1, [seed, 2])
    test_rows = subsample(
        test_rows, test_y, test.groups, options["max_test"], 2 * has_new_classes(split), [seed, 3]
    )
    return [str(label) for label in classes], {
        "train": _Selection(train, train_rows, y[train_rows]),
        "test": _Selection(test, test_rows, test_y[test_rows]),
    }


def _encode_test(classes: np.ndarray, test: Part) -> np.ndarray:
    labels = _encode(test.labels, test.origin)
    if (labels.dtype.kind == "U") != (classes.dtype.kind == "U"):
        labels, classes = labels.astype(str), classes.astype(str)
    numbers = {label: number for number, label in enumerate(classes.tolist())}
    y = np.array([numbers.get(label, -1) for label in labels.tolist()])
    bad = int(np.argmin(y))
    if y[bad] < 0:
        raise DatasetError(
            f"{test.origin}: example {bad + 1}: class {labels[bad]} is not in the training part; "
            "remove its examples or add some to the training part"
        )
    return y


def _fit_encoder(loaded: Loaded, train: _Selection, options: dict) -> RowsEncoder:
    """Return the encoder with what it learns from the rows of the training split."""
    settings = {name: options[name] for name in ("weighting", "scale") if options.get(name) is not None}
    if train.part.n_columns is not None:
        settings |= {"n_columns": train.part.n_columns, "layout": train.part.layout}
    return replace(loaded.encoder, **settings).fit(train.blocks, train.part.origin)


def _write(
    folder: Path,
    selections: dict[str, _Selection],
    names: list[str],
    encoder: RowsEncoder,
) -> dict[str, dict]:
    assert encoder.n_columns is not None
    splits = {}
    for split, selection in selections.items():
        bar = progress_bar(total=len(selection.rows), unit=" rows", desc=split)
        with store.SplitWriter(folder / split, encoder.layout, encoder.n_columns) as writer, bar:
            for block in selection.encoded(encoder):
                writer.append(block)
                bar.update(block.shape[0])
            splits[split] = writer.finish(selection.y, *selection.part.columns_of(selection.rows))
        splits[split]["class_counts"] = np.bincount(selection.y, minlength=len(names)).tolist()
    return splits


def _compare(dataset: Dataset, meta: dict) -> dict | None:
    """Compare the shape of a prepared data set with the paper's, and state every difference."""
    if dataset.paper is None:
        return None
    expected = dict(zip(("D", "n", "n_test", "classes"), paper.DATASETS[dataset.paper], strict=True))
    actual, options = _sizes(meta), meta["options"]
    reasons = [
        f"{key}: {options[key]}"
        for key in ("holdout", "max_train", "max_test", "poses", "split")
        if options.get(key) != dataset.options.get(key)
    ]
    differences = [
        f"{key}: paper {expected[key]:,}, here {actual[key]:,}" + (f" ({', '.join(reasons)})" if reasons else "")
        for key in expected
        if expected[key] != actual[key]
    ]
    return {"name": dataset.paper, "expected": expected, "actual": actual, "differences": differences}


def _sizes(meta: Mapping[str, Any]) -> dict[str, int]:
    train, test = (meta["splits"][split]["shape"] for split in ("train", "test"))
    return {"D": train[1], "n": train[0], "n_test": test[0], "classes": meta["n_classes"]}


def paper_table(metas: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tabulate data sets, with the paper's figures and the actual ones.

    Parameters
    ----------
    metas : iterable of dict
        Descriptions of prepared data sets, from `prepare` or `load_meta`.

    Returns
    -------
    list of dict
        One row per data set; the paper's figures are None for a data set that the paper does not use.
    """
    table = []
    for meta in metas:
        printed = meta["paper"] or {"name": None, "expected": {}, "differences": []}
        row: dict[str, Any] = {"dataset": meta["name"], "paper name": printed["name"]}
        for key, value in _sizes(meta).items():
            row[key], row[f"paper {key}"] = value, printed["expected"].get(key)
        stated = printed["differences"] + list(meta["notes"])
        table.append(row | {"differences": "; ".join(stated)})
    return table
