"""Describe a prepared data set: the content of its ``meta.json``."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flrml.datasets.reading import require_regular
from flrml.exceptions import DamagedFileError, DatasetError
from flrml.files import read_json

FORMAT_VERSION = 1


def describe(
    name: str,
    classes: Iterable[Any],
    splits: dict[str, dict],
    *,
    kind: str,
    source: str,
    raw_sha256: Mapping[str, str] | None = None,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    notes: Iterable[str] = (),
) -> dict:
    """Build the content of ``meta.json``; ``splits`` maps train and test to the results of `SplitWriter.finish`."""
    names = [str(label) for label in classes]
    return {
        "format_version": FORMAT_VERSION,
        "name": name,
        "kind": kind,
        "source": source,
        "raw_sha256": dict(raw_sha256 or {}),
        "seed": seed,
        "options": {key: _as_json(value) for key, value in (options or {}).items() if value is not None},
        "n_features": splits["train"]["shape"][1],
        "n_classes": len(names),
        "classes": names,
        "splits": splits,
        "empty_rows": sum(split["empty_rows"] for split in splits.values()),
        "fingerprint": splits["train"]["fingerprint"],
        "notes": list(notes),
        "paper": None,
    }


def _as_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value


def load_meta(out: str | os.PathLike) -> dict:
    """Read the description of a prepared data set from its ``meta.json``.

    Parameters
    ----------
    out : path
        Folder of the prepared data set.
    """
    path = Path(out) / "meta.json"
    if path.exists():
        require_regular(path)
    try:
        meta = read_json(path)
        version = meta["format_version"]
    except OSError as error:
        reason = error.strerror or error
        raise DatasetError(f"{path}: no prepared data set ({reason}); prepare it first") from error
    except (DamagedFileError, KeyError, TypeError) as error:
        raise DatasetError(f"{path}: damaged or not a description of a data set; prepare it again") from error
    if version != FORMAT_VERSION:
        raise DatasetError(f"{path}: format version {version}, expected {FORMAT_VERSION}; prepare it again")
    return meta
