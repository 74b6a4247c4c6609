import numpy as np
import pytest

from flrml import decompose
from flrml.exceptions import DamagedFileError, SpectrumError
from flrml.pipeline.stages.inputs import bind_spectrum
from flrml.pipeline.stages.learned_map import LearnedMap
from flrml.reference import decompose_centered


def flip(path):
    """Change one byte in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)


def test_each_method_gets_the_spectrum_of_its_kind(tmp_path):
    X = np.random.RandomState(0).rand(20, 8)
    decompose(X).save(tmp_path / "plain.npz")
    decompose_centered(X).save(tmp_path / "centered.npz")
    assert bind_spectrum(tmp_path / "plain.npz", X, "plain").X is X
    assert bind_spectrum(tmp_path / "centered.npz", X, "centered").rank == 7


@pytest.mark.parametrize("other", [False, True], ids=["damaged", "of other data"])
def test_a_spectrum_that_is_damaged_or_of_other_data_is_set_aside(tmp_path, other):
    X, path = np.random.RandomState(0).rand(20, 8), tmp_path / "plain.npz"
    decompose(X).save(path)
    if not other:
        flip(path)
    with pytest.raises(SpectrumError, match=r"plain.npz.*renamed to plain.npz.damaged: run again"):
        bind_spectrum(path, X + other, "plain")
    assert not path.exists()


def test_a_damaged_model_is_set_aside(tmp_path):
    path = tmp_path / "model.npz"
    LearnedMap(np.random.RandomState(0).rand(5, 300), "cosine").save(path, {})
    flip(path)
    with pytest.raises(DamagedFileError, match=r"model.npz is damaged"):
        LearnedMap.load(path)
    assert not path.exists()
