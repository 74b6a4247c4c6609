"""Encode texts by pretrained encoders that packages carry in their wheels; nothing is downloaded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from flrml.datasets.encoders.rows import Blocks, RowsEncoder
from flrml.datasets.encoders.texts import as_texts
from flrml.extras import require

TEXTS_PER_BLOCK = 4096  # whose tokens are held at once


@dataclass(eq=False)
class EmbeddingEncoder(RowsEncoder):
    """Encoder of lists of texts as vectors of a pretrained encoder; it learns nothing from the training part."""

    encoder: str = "wordllama"  # a key of PRETRAINED
    column: str | None = None  # of the texts, if raw input is a table

    kind: ClassVar[str] = "embedding"

    def numbers(self, raw: Any, origin: str = "input") -> NDArray:
        """Return the vectors of texts: a list, an array, or a table with their column."""
        return PRETRAINED[self.encoder](as_texts(raw, origin, self.column))

    def _learn(self, blocks: Blocks, origin: str) -> None:
        self.example = next(blocks())[0]
        self.n_columns = self.numbers([self.example], origin).shape[1]


def embed_wordllama(texts: Sequence[str]) -> NDArray[np.float32]:
    """Embed texts by the static vectors of the package wordllama: the mean vector of a text's tokens.

    A text without tokens becomes zero. A vector does not depend on the other texts. The package's own ``embed``
    gives the same numbers, but pads texts to one length and looks for its tokenizer on the network.

    Parameters
    ----------
    texts : sequence of str
        Texts of any length.

    Returns
    -------
    ndarray of shape (n_texts, 256)
        Vectors, not of unit length.
    """
    tokenizer, vectors = _wordllama()
    embedded = np.zeros((len(texts), vectors.shape[1]), dtype=np.float32)
    for start in range(0, len(texts), TEXTS_PER_BLOCK):
        block = slice(start, start + TEXTS_PER_BLOCK)
        tokens = [text.ids for text in tokenizer.encode_batch_fast(list(texts[block]), add_special_tokens=False)]
        lengths = np.array([len(ids) for ids in tokens])
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        ones = np.ones(bounds[-1], dtype=np.float32)
        occurrences = sp.csr_matrix((ones, np.concatenate(tokens), bounds), shape=(len(tokens), len(vectors)))
        embedded[block] = occurrences @ vectors / np.maximum(lengths, 1)[:, None].astype(np.float32)
    return embedded


@cache
def _wordllama() -> tuple[Any, NDArray[np.float32]]:
    """Load the tokenizer and the vectors of its tokens."""
    needed = {"extra": "embeddings", "needed_by": "encoder wordllama"}
    folder = Path(str(require("wordllama", **needed).__file__)).parent
    tokenizer = require("tokenizers", **needed).Tokenizer.from_file(
        str(folder / "tokenizers/l2_supercat_tokenizer_config.json")
    )
    tokenizer.no_padding()
    tokenizer.no_truncation()
    read = require("safetensors.numpy", **needed).load_file
    (vectors,) = read(folder / "weights/l2_supercat_256.safetensors").values()
    return tokenizer, vectors.astype(np.float32)


PRETRAINED: dict[str, Callable[[Sequence[str]], NDArray]] = {"wordllama": embed_wordllama}
