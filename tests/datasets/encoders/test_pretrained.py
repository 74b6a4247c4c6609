import subprocess
import sys
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flrml.datasets.encoders.pretrained import embed_wordllama

TEXTS = ["", "a", "hello, world", "x" * 5000, "naïve café ☕ 日本語", " \n\t", "word " * 3000, "hello, world"]


def literal(texts):
    """The package's own embeddings, with the files in its wheel."""
    import wordllama
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer
    from wordllama.inference import WordLlamaInference

    folder = Path(wordllama.__file__).parent
    (vectors,) = load_file(folder / "weights/l2_supercat_256.safetensors").values()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizers/l2_supercat_tokenizer_config.json"))
    return WordLlamaInference(vectors, tokenizer).embed(texts, batch_size=3)


def test_embeddings_are_those_of_the_package():
    embedded = embed_wordllama(TEXTS)
    assert embedded.shape == (len(TEXTS), 256)
    assert embedded.dtype == np.float32
    np.testing.assert_allclose(embedded, literal(TEXTS), atol=1e-5)
    assert not embedded[0].any()


@given(st.lists(st.text(max_size=30), max_size=5))
def test_an_embedding_does_not_depend_on_the_other_texts(texts):
    together = embed_wordllama([*texts, "one more"])
    alone = [embed_wordllama([text])[0] for text in texts]
    np.testing.assert_array_equal(together[:-1], np.array(alone).reshape(-1, 256))


def test_blocks_of_texts_make_no_difference(monkeypatch):
    whole = embed_wordllama(TEXTS)
    monkeypatch.setattr("flrml.datasets.encoders.pretrained.TEXTS_PER_BLOCK", 3)
    np.testing.assert_array_equal(embed_wordllama(TEXTS), whole)


def test_no_texts_have_no_embeddings():
    assert embed_wordllama([]).shape == (0, 256)


def test_a_missing_package_is_named_with_the_command_that_installs_it():
    script = """
import sys
sys.modules["wordllama"] = None
from flrml.datasets.encoders.pretrained import embed_wordllama
try:
    embed_wordllama(["text"])
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "encoder wordllama needs wordllama: pip install 'flrml[embeddings]'\n"
