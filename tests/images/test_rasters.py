"""Rasters: rectangles of files and arrays are those of the whole picture, whoever reads them."""

import numpy as np
import pytest
import tifffile
import torch
from pictures import noise, photo

from pixtree.images import checked, rasters
from pixtree.images.rasters import opened

BOXES = [(0, 0, 96, 112), (5, 7, 60, 101), (90, 100, 96, 112), (31, 31, 33, 34)]
LAYOUTS = {
    "tiles": {"tile": (32, 32), "compression": "zlib"},
    "strips": {"rowsperstrip": 10},
    "one strip": {},
    "planes": {"tile": (32, 48), "planarconfig": "separate"},
}


def picture():
    return photo().permute(1, 2, 0).numpy()


def write(path, array, layout):
    planes = layout.get("planarconfig") == "separate"
    tifffile.imwrite(path, np.moveaxis(array, 2, 0) if planes else array, photometric="rgb", **layout)


@pytest.fixture(params=["rasterio", "tifffile"])
def reader(request, monkeypatch):
    """Only one of the two is installed."""
    found = rasters.find_spec
    monkeypatch.setattr(rasters, "find_spec", lambda name: found(name) if name in ("tifffile", request.param) else None)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_rectangles_of_a_tiff_are_those_of_the_picture(tmp_path, reader, layout, kind):
    array = picture().astype(kind) * (257 if kind == np.uint16 else 1)
    write(tmp_path / "photo.tif", array, LAYOUTS[layout])
    with opened(tmp_path / "photo.tif") as raster:
        assert raster.shape == (96, 112)
        for top, left, bottom, right in BOXES:
            assert torch.equal(raster.read(top, left, bottom, right), checked(array[top:bottom, left:right]))


def test_alpha_is_composited_over_white(tmp_path, reader):
    alpha = noise(96, 112, 1).permute(1, 2, 0).numpy()
    tifffile.imwrite(tmp_path / "a.tif", np.concatenate((picture(), alpha), axis=2), photometric="rgb", extrasamples=["unassalpha"])
    expected = np.rint(picture() * (alpha / 255) + 255 * (1 - alpha / 255)).astype(np.uint8)
    with opened(tmp_path / "a.tif") as raster:
        np.testing.assert_array_equal(raster.read(0, 0, 50, 60).permute(1, 2, 0).numpy(), expected[:50, :60])


def test_arrays_and_npy_files_are_sliced(tmp_path):
    array = np.random.default_rng(0).integers(0, 4000, (70, 80), dtype=np.int32)
    np.save(tmp_path / "a.npy", array)
    for source in (array, tmp_path / "a.npy"):
        with opened(source, window=(0, 4000)) as raster:
            assert torch.equal(raster.read(10, 20, 30, 70), checked(array, window=(0, 4000))[:, 10:30, 20:70])


@pytest.mark.parametrize(
    ("source", "window", "words"),
    [
        ("photo.jpg", None, "tiles are read from TIFF and .npy files"),
        ("torn.tif", None, "an intact image is needed, got '.*torn.tif'"),
        ("palette.tif", None, "tiles of grey and colours are read"),
        ("nowhere.tif", None, "does not exist"),
        (np.zeros(5), None, "an image in tiles is a file or an array"),
        (np.zeros((5, 5)), "auto", 'got "auto"; look at a part of it'),
    ],
)
def test_what_has_no_tiles_is_refused_in_one_sentence(tmp_path, reader, source, window, words):
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8\xff" + bytes(20))
    write(tmp_path / "whole.tif", picture(), {"tile": (32, 32)})
    (tmp_path / "torn.tif").write_bytes((tmp_path / "whole.tif").read_bytes()[:90])
    tifffile.imwrite(tmp_path / "palette.tif", picture()[..., 0], photometric="palette", colormap=np.zeros((3, 256), np.uint16))
    with (
        pytest.raises((ValueError, FileNotFoundError), match=words),
        opened(tmp_path / source if isinstance(source, str) else source, window) as raster,
    ):
        raster.read(0, 0, 5, 5)


SHAPES = [(12,), (), (0,), (0, 5), (5, 0), (5, 5, 0), (5, 5, 65), (2, 3, 4, 5)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_npy_files_and_arrays_that_are_no_image_are_refused_as_they_are_opened(tmp_path, shape):
    np.save(tmp_path / "a.npy", np.zeros(shape, np.uint8))
    for source in (tmp_path / "a.npy", np.zeros(shape, np.uint8)):
        with pytest.raises(ValueError, match=r"an image in tiles .*got .*; (reshape|pass)") as fault, opened(source):
            pass
        assert "\n" not in str(fault.value)


@pytest.mark.parametrize("content", ["", "header", "archive", "objects", "text"])
def test_damaged_npy_files_are_refused_in_one_sentence(tmp_path, content):
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((20, 20), np.uint8))
    match content:
        case "archive":
            with path.open("wb") as file:
                np.savez(file, a=np.zeros((20, 20)))
        case "objects":
            np.save(path, np.array([[{}]], object), allow_pickle=True)
        case "header":
            path.write_bytes(path.read_bytes()[:90])
        case _:
            path.write_text(content)
    with pytest.raises(ValueError, match=r"a\.npy.*; ") as fault, opened(path):
        pass
    assert "\n" not in str(fault.value)


def test_tiles_of_a_file_that_are_bombs_are_refused(tmp_path, reader, monkeypatch):
    import PIL.Image

    write(tmp_path / "photo.tif", picture(), LAYOUTS["one strip"])
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(ValueError, match="may have at most 2000 pixels"), opened(tmp_path / "photo.tif"):
        pass
