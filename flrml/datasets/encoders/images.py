"""Encode images as rows of pixels, all of one size, in colour or gray."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from flrml.datasets.encoders.rows import Blocks, RowsEncoder
from flrml.datasets.reading import reading, require_regular
from flrml.exceptions import DatasetError
from flrml.extras import require

GRAY_MODES = {"1", "L", "LA"}
MODES = {*GRAY_MODES, "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"}  # of at most 8 bits per channel


@dataclass(eq=False)
class ImageEncoder(RowsEncoder):
    """Encoder of lists of images: paths, arrays of bytes (height × width, or with channels), or images of Pillow.

    Images of another size are resized.
    """

    size: list[int] | None = None  # height and width; None takes those of the training images, which must agree
    gray: bool | None = None  # whether images are converted; None converts them if all training images are gray

    kind: ClassVar[str] = "image"

    def numbers(self, raw: Any, origin: str = "input") -> np.ndarray:
        """Return the pixels of images."""
        rows = []
        for name, item in _named(raw, origin):
            with _opened(name, item) as image:
                if self.size and image.width <= 4 < self.size[1] and isinstance(item, np.ndarray | list):
                    raise DatasetError(f"{name}: a row of pixels; give a list of images, also of a single one")
                rows.append(self._pixels(image))
        return np.stack(rows)

    def _pixels(self, image: Any) -> np.ndarray:
        assert self.size is not None
        height, width = self.size
        image = image.convert("L" if self.gray else "RGB")
        if image.size != (width, height):
            image = image.resize((width, height), _pillow().Resampling.BILINEAR)
        return np.asarray(image, dtype=np.float64).ravel()

    def _learn(self, blocks: Blocks, origin: str) -> None:
        first, modes = "", set()
        size = self.size or [0, 0]
        for name, item in (pair for block in blocks() for pair in _named(block, origin)):
            with _opened(name, item) as image:
                modes.add(image.mode)
                found = [image.height, image.width]
                if not first:
                    first, size, self.example = name, self.size or found, np.asarray(image)
            if found != size and self.size is None:
                raise DatasetError(
                    f"{name}: {found[0]} × {found[1]} pixels, but {first} has {size[0]} × {size[1]}; "
                    f"give all images one height and width, for example with `size: [{size[0]}, {size[1]}]`"
                )
        self.size, self.gray = size, modes <= GRAY_MODES if self.gray is None else self.gray
        self.n_columns = size[0] * size[1] * (1 if self.gray else 3)


def _pillow() -> Any:
    return require("PIL.Image", extra="data", needed_by="reading an image")


def _named(raw: Any, origin: str) -> Iterator[tuple[str, Any]]:
    """Iterate over the images of raw input with their names: paths, or the number of the example."""
    if isinstance(raw, str | Path) or (isinstance(raw, np.ndarray) and raw.ndim == 2 and raw.shape[1] > 1):
        raise DatasetError(f"{origin}: a single image; give a list of images")
    for number, item in enumerate(raw.to_numpy().ravel() if hasattr(raw, "to_numpy") else raw):
        yield (str(item) if isinstance(item, str | Path) else f"{origin}: example {number + 1}"), item


@contextmanager
def _opened(name: str, item: Any) -> Iterator[Any]:
    """Open an image by path or array; any failure inside the block names it."""
    pillow = _pillow()
    with reading(name, "an image", "save it as PNG or JPEG"), ExitStack() as stack:
        if isinstance(item, str | Path):
            require_regular(item)
            image = stack.enter_context(pillow.open(item))
            import_module("PIL.ImageOps").exif_transpose(image, in_place=True)  # photographs of a turned camera
        elif isinstance(item, np.ndarray | list):
            pixels = np.asarray(item)
            if pixels.dtype.kind in "iu" and pixels.size and pixels.min() >= 0 and pixels.max() <= 255:
                pixels = pixels.astype(np.uint8)
            if pixels.dtype != np.uint8:
                raise DatasetError(f"{name}: pixels must be integers from 0 to 255, got type {pixels.dtype}")
            image = pillow.fromarray(pixels)
        else:
            image = item
        if image.mode not in MODES:
            raise DatasetError(f"{name}: pixels of mode {image.mode}; save the image with 8 bits per channel")
        yield image
