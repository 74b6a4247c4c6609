"""Load questions and the intents behind them: BANKING77 and CLINC150."""

import csv
import json
from pathlib import Path

from flrml.datasets.fetch import RemoteFile
from flrml.datasets.parts import Loaded, Request
from flrml.datasets.reading import reading
from flrml.datasets.text import Documents, documents_part, text_encoder


def load_banking77(request: Request, *, files: tuple[RemoteFile, ...]) -> Loaded:
    """Load CSV files with the columns ``text`` and ``category``: the training and the test part."""
    paths = [request.raw.get(file) for file in (files if request.options["holdout"] is None else files[:1])]
    parts = [documents_part(_read_csv(path), str(path)) for path in paths]
    return Loaded(*parts, encoder=text_encoder(request.options))


def _read_csv(path: Path) -> Documents:
    with reading(path, "a CSV file of texts and categories"), path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
        return [row["category"] for row in rows], [row["text"] for row in rows]


def load_clinc150(request: Request, *, files: tuple[RemoteFile]) -> Loaded:
    """Load a JSON file with lists of text and intent; the validation part belongs to the training part."""
    path = request.raw.get(*files)
    with reading(path, "a JSON file of texts and intents"):
        content = json.loads(path.read_text(encoding="utf-8"))
        outside = ("oos_",) if request.options["out_of_scope"] else ()
        parts = []
        for names in (("train", "val"), ("test",)):
            found = [pair for prefix in ("", *outside) for name in names for pair in content[prefix + name]]
            parts.append(documents_part(([label for _, label in found], [text for text, _ in found]), str(path)))
    return Loaded(*parts, encoder=text_encoder(request.options))
