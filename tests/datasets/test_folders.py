"""Folders of files per class: images, and names of the rows."""

import numpy as np
import pytest
from PIL import Image

from flrml.datasets import load_encoder, open_names, open_split, prepare
from flrml.exceptions import DatasetError

RNG = np.random.default_rng(0)
SHAPE = (6, 4)


def write(folder, shape=SHAPE, channels=(3,), n=4, suffix="png"):
    """Write n images per class; return them in the order of their names."""
    arrays = []
    for label in "ab":
        (folder / label).mkdir(parents=True, exist_ok=True)
        for number in range(n):
            arrays.append(RNG.integers(0, 256, (*shape, *channels), dtype=np.uint8))
            Image.fromarray(arrays[-1]).save(folder / label / f"{number}.{suffix}")
    return arrays


def options(folder, **more):
    return {"format": "images", "train": str(folder), "test": str(folder), **more}


def unit(arrays):
    rows = np.array([array.ravel() for array in arrays], dtype=float)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("channels", [(), (3,)])
def test_images_become_rows_of_pixels(tmp_path, channels):
    arrays = write(tmp_path / "set", channels=channels)
    meta = prepare("mine", tmp_path / "out", options=options(tmp_path / "set"))
    assert meta["classes"] == ["a", "b"]
    X, y = open_split(tmp_path / "out/train")
    np.testing.assert_allclose(X, unit(arrays), atol=1e-6)
    assert y.tolist() == [0] * 4 + [1] * 4
    assert open_names(tmp_path / "out/train").tolist() == [f"{c}/{i}.png" for c in "ab" for i in range(4)]
    encoder = load_encoder(tmp_path / "out")
    assert encoder.size == list(SHAPE)
    assert encoder.gray == (not channels)
    paths = sorted((tmp_path / "set").rglob("*.png"))
    images = [Image.open(path) for path in paths]
    for raw in (paths, [str(path) for path in paths], arrays, np.array(arrays), images):
        np.testing.assert_array_equal(encoder.transform(raw), X)
    np.testing.assert_array_equal(encoder.example, arrays[0])


def test_images_are_resized_and_made_gray(tmp_path):
    write(tmp_path / "set", shape=(8, 8), suffix="jpg")
    write(tmp_path / "set", shape=(9, 5), n=1)
    prepare("mine", tmp_path / "out", options=options(tmp_path / "set", size=[4, 3], gray=True))
    X, _ = open_split(tmp_path / "out/train")
    paths = sorted((tmp_path / "set").rglob("*.*"))
    expected = [
        np.asarray(Image.open(path).convert("L").resize((3, 4), Image.Resampling.BILINEAR)) for path in paths
    ]
    np.testing.assert_allclose(X, unit(expected), atol=1e-6)
    np.testing.assert_array_equal(load_encoder(tmp_path / "out").transform(paths), X)


def test_a_photograph_of_a_turned_camera_is_turned(tmp_path):
    arrays = write(tmp_path / "set")
    turned = Image.fromarray(np.rot90(arrays[0]))
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise to display
    turned.save(tmp_path / "set/a/0.png", exif=exif)
    prepare("mine", tmp_path / "out", options=options(tmp_path / "set"))
    X, _ = open_split(tmp_path / "out/train")
    np.testing.assert_allclose(X, unit(arrays), atol=1e-6)


def refusal(tmp_path, **more):
    with pytest.raises(DatasetError) as caught:
        prepare("mine", tmp_path / "out", options=options(tmp_path / "set", **more))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
    return str(caught.value).removeprefix(f"{tmp_path / 'set'}")


def test_images_of_two_sizes_need_a_size(tmp_path):
    write(tmp_path / "set")
    Image.new("RGB", (5, 7)).save(tmp_path / "set/b/9.png")
    message = refusal(tmp_path)
    assert message.startswith(f"/b/9.png: 7 × 5 pixels, but {tmp_path}/set/a/0.png has 6 × 4; give all images one")
    assert message.endswith("for example with `size: [6, 4]`")


def test_a_damaged_image_is_named(tmp_path):
    write(tmp_path / "set", shape=(64, 64))
    whole = (tmp_path / "set/b/1.png").read_bytes()
    for content in (whole[:500], b"not an image", b""):
        (tmp_path / "set/b/1.png").write_bytes(content)
        assert refusal(tmp_path).startswith("/b/1.png: not readable as an image (")


def test_an_image_of_16_bits_is_refused(tmp_path):
    write(tmp_path / "set")
    Image.fromarray(np.zeros(SHAPE, dtype=np.uint16)).save(tmp_path / "set/a/0.png")
    assert refusal(tmp_path) == "/a/0.png: pixels of mode I;16; save the image with 8 bits per channel"


def test_images_read_as_texts_get_a_hint(tmp_path):
    write(tmp_path / "set")
    with pytest.raises(DatasetError, match=r"a/0\.png: not readable as UTF-8 text .*needs `format: images`"):
        prepare("mine", tmp_path / "out", options={**options(tmp_path / "set"), "format": "folder"})


def test_bad_raw_images_are_named(tmp_path):
    arrays = write(tmp_path / "set")
    prepare("mine", tmp_path / "out", options=options(tmp_path / "set"))
    encoder = load_encoder(tmp_path / "out")
    for raw, problem in [
        ("a.png", "input: a single image; give a list of images"),
        (arrays[0][:, :, 0], "input: a single image"),
        ([arrays[0] / 255], "input: example 1: pixels must be integers from 0 to 255, got type float64"),
        (["missing.png"], "missing.png: cannot be read"),
    ]:
        with pytest.raises(DatasetError, match=problem):
            encoder.transform(raw)
