"""Image files in memory: bytes and open files are read like the file that they are the content of."""

import io

import numpy as np
import PIL.Image
import pytest
import torch

from pixtree.images import checked, checked_inside, checked_mask

COLOURS = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)


def content(kind, image=None, **options):
    stream = io.BytesIO()
    (image or PIL.Image.fromarray(COLOURS)).save(stream, kind, **options)
    return stream.getvalue()


def scientific_tiff(**options):
    import tifffile

    stream = io.BytesIO()
    tifffile.imwrite(stream, COLOURS.astype(np.uint16) * 256, **options)
    return stream.getvalue()


def turned_jpeg():
    image = PIL.Image.fromarray(COLOURS)
    image.getexif()[0x0112] = 6
    return content("JPEG", image, exif=image.getexif())


FILES = {
    "png": lambda: content("PNG"),
    "jpg": lambda: turned_jpeg(),
    "webp": lambda: content("WEBP", lossless=True),
    "bmp": lambda: content("BMP"),
    "tif": lambda: content("TIFF"),
    "compressed.tif": lambda: content("TIFF", compression="tiff_deflate"),
    "deep.tif": lambda: scientific_tiff(photometric="rgb"),
}


@pytest.mark.parametrize("name", FILES)
def test_bytes_and_open_files_give_the_pixels_of_the_file(tmp_path, name):
    data, path = FILES[name](), tmp_path / f"image.{name}"
    path.write_bytes(data)
    wanted = checked(path)
    assert torch.equal(checked(data), wanted)
    assert torch.equal(checked(io.BytesIO(data)), wanted)
    with path.open("rb") as stream:
        assert torch.equal(checked(stream), wanted)
    assert torch.equal(checked_inside(data, None)[0], wanted)


def test_no_file_is_written_to_read_bytes(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    assert checked(content("PNG")).shape == (3, 6, 8)
    assert checked(scientific_tiff(photometric="rgb")).shape == (3, 6, 8)


def test_a_page_of_bytes_is_chosen_as_of_a_file():
    data = content("GIF", save_all=True, append_images=[PIL.Image.fromarray(255 - COLOURS)])
    assert checked(data, page=1).shape == (3, 6, 8)
    with pytest.raises(ValueError, match=r"one page of a file, got 2 pages in the given data; choose one, from page=0 on"):
        checked(data)
    with pytest.raises(ValueError, match=r"^the given data has 2 pages, from 0 on, got page=2"):
        checked(data, page=2)


def test_a_mask_may_be_bytes():
    inside = checked_mask(content("PNG", PIL.Image.fromarray(np.eye(4, dtype=np.uint8) * 255)), (4, 4))
    assert inside.sum() == 4


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", r"but the given data is empty; save or download it again"),
        (b"not an image", r"but the given data is none of them, whatever its name; convert it to PNG"),
        (content("PNG")[:60], r"an intact image is needed, got the given data \(.+\); get it again or save it as PNG"),
    ],
)
def test_broken_bytes_are_one_sentence(data, words):
    with pytest.raises(ValueError, match=words):
        checked(data)


def test_errors_name_an_open_file_by_its_name():
    stream = io.BytesIO(b"not an image")
    stream.name = "class_1/cat.jpg"
    with pytest.raises(ValueError, match=r"but 'class_1/cat.jpg' is none of them"):
        checked(stream)
