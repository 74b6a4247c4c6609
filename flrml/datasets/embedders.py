"""Embed texts by pretrained encoders that packages carry in their wheels; nothing is downloaded."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from flrml.extras import require

TEXTS_PER_BLOCK = 4096  # tokens held at once
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_WEIGHTS = "weights/l2_supercat_256.safetensors"


def embed_wordllama(texts: Sequence[str]) -> NDArray[np.float32]:
    """Embed texts by the static embeddings of the package wordllama: the mean vector of a text's tokens.

    A text without tokens becomes zero. An embedding does not depend on the other texts. The package's own ``embed``
    gives the same numbers; it pads texts to one length, and looks for its tokenizer on the network.

    Parameters
    ----------
    texts : sequence of str
        Texts of any length.

    Returns
    -------
    ndarray of shape (n_texts, 256)
        Embeddings, not of unit length.
    """
    tokenizer, vectors = _wordllama()
    embedded = np.zeros((len(texts), vectors.shape[1]), dtype=np.float32)
    for start in range(0, len(texts), TEXTS_PER_BLOCK):
        block = list(texts[start : start + TEXTS_PER_BLOCK])
        tokens = [text.ids for text in tokenizer.encode_batch_fast(block, add_special_tokens=False)]
        lengths = np.array([len(ids) for ids in tokens])
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        ones = np.ones(bounds[-1], dtype=np.float32)
        counts = sp.csr_matrix((ones, np.concatenate(tokens), bounds), shape=(len(block), len(vectors)))
        embedded[start : start + len(block)] = counts @ vectors / np.maximum(lengths, 1)[:, None].astype(np.float32)
    return embedded


@cache
def _wordllama() -> tuple[Any, NDArray[np.float32]]:
    """Load the tokenizer and the vectors of its tokens."""
    needed = {"extra": "embeddings", "needed_by": "encoder wordllama"}
    folder = Path(str(require("wordllama", **needed).__file__)).parent
    tokenizer = require("tokenizers", **needed).Tokenizer.from_file(str(folder / _TOKENIZER))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    (vectors,) = require("safetensors.numpy", **needed).load_file(folder / _WEIGHTS).values()
    return tokenizer, vectors.astype(np.float32)
