"""Load folders of the user that contain one folder of files per class: texts or images."""

from functools import partial
from pathlib import Path

from flrml.datasets.encoders.images import ImageEncoder
from flrml.datasets.parts import Loaded, Part, Request, list_part
from flrml.datasets.reading import files_below, reading
from flrml.datasets.text import text_encoder
from flrml.exceptions import DatasetError

IMAGES_PER_BLOCK = 100
IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp"}


def load_texts(request: Request) -> Loaded:
    """Load the user's folders of text files, one folder per class."""
    return Loaded.of_user(request, partial(_part, request, "text"), text_encoder(request.options))


def _part(request: Request, kind: str, folder: Path) -> Part:
    """Build a part from a folder that contains one folder of files per class."""
    if not folder.is_dir():
        raise DatasetError(f"{folder}: no such folder; give one that contains a folder of {kind} files per class")
    found = files_below(folder)
    request.raw.record_folder(folder, found)
    # Files next to the class folders, such as a README, belong to no class.
    files = [file for file in found if file.parent != folder]
    labels = [file.relative_to(folder).parts[0] for file in files]
    classes = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not classes:
        raise DatasetError(f"{folder}: no class folders; create one folder of {kind} files per class")
    empty = sorted(set(classes) - set(labels))
    if empty:
        raise DatasetError(f"{folder / empty[0]}: the class has no {kind} files; add some or remove the folder")
    names = [str(file.relative_to(folder)) for file in files]
    if kind == "text":
        return list_part(list(map(_read_text, files)), labels, str(folder)).described(None, names)
    return list_part(files, labels, str(folder), IMAGES_PER_BLOCK).described(None, names)


def _read_text(file: Path) -> str:
    remedy = "save it as UTF-8"
    if file.suffix.lower() in IMAGE_SUFFIXES:
        remedy = "a folder of images needs `format: images`"
    with reading(file, "UTF-8 text", remedy):
        return file.read_text(encoding="utf-8")


def load_images(request: Request) -> Loaded:
    """Load the user's folders of images, one folder per class; pixels are read when they are encoded."""
    size = request.options["size"]
    sides = [size, size] if isinstance(size, int) else size and list(size)
    encoder = ImageEncoder(size=sides, gray=request.options["gray"])
    return Loaded.of_user(request, partial(_part, request, "image"), encoder)
