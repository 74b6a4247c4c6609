"""Encode raw input as the rows of a model, with what is learned from the training part."""

import os
from importlib import import_module
from pathlib import Path

from flrml.datasets.encoders.rows import FILE, RowsEncoder
from flrml.exceptions import DamagedFileError, DatasetError
from flrml.files import read_arrays

# Module below this package and class of every kind of raw input.
KINDS = {
    "rows": "rows.RowsEncoder",
    "table": "tables.TableEncoder",
    "text": "texts.TextEncoder",
    "embedding": "pretrained.EmbeddingEncoder",
    "image": "images.ImageEncoder",
}


def load_encoder(path: str | os.PathLike) -> RowsEncoder:
    """Load the encoder that made the rows of a prepared data set.

    Parameters
    ----------
    path : path
        Folder of the prepared data set, or its file ``encoder.npz``.

    Returns
    -------
    RowsEncoder
        Its ``transform`` turns raw input into the rows that a model was trained on.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from flrml.datasets import load_encoder, prepare
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     meta = prepare("digits", f"{folder}/digits")
    ...     encoder = load_encoder(f"{folder}/digits")
    >>> rows = encoder.transform(load_digits().data)
    >>> rows.shape, rows.dtype.name, float(np.linalg.norm(rows[0]).round(3))
    ((1797, 64), 'float32', 1.0)
    """
    file = Path(path) / FILE if Path(path).is_dir() else Path(path)
    try:
        meta, arrays = read_arrays(file)
        module, _, name = KINDS[meta.pop("kind")].rpartition(".")
        encoder: RowsEncoder = getattr(import_module(f"{__name__}.{module}"), name)(**meta, **arrays)
        return encoder
    except FileNotFoundError as error:
        raise DatasetError(f"{file}: no such file; prepare the data set again to write it") from error
    except (DamagedFileError, KeyError, TypeError) as error:
        raise DatasetError(f"{file}: damaged or not an encoder; prepare the data set again") from error
