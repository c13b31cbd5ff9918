"""Volumes, pages and channels: what is one image, what is not, and how to choose."""

import io
import struct
import threading
import tracemalloc
import zlib

import numpy as np
import PIL.Image
import pytest
import tifffile
import torch

import pixtree
from pixtree.images import checked

STACK = np.arange(20, dtype=np.uint8)[:, None, None] + np.zeros((20, 8, 9), np.uint8)


@pytest.fixture
def no_tifffile(monkeypatch):
    monkeypatch.setattr("pixtree.images.tiff.find_spec", lambda name: None)


@pytest.fixture(params=["with tifffile", "without"])
def both(request, monkeypatch):
    if request.param == "without":
        monkeypatch.setattr("pixtree.images.tiff.find_spec", lambda name: None)


def saved_frames(path, **options):
    frames = [PIL.Image.fromarray(page * 10) for page in STACK[:3]]
    frames[0].save(path, save_all=True, append_images=frames[1:], **options)
    return path


def test_a_volume_is_no_image():
    with pytest.raises(ValueError) as fault:
        checked(np.zeros((20, 64, 64), np.uint8))
    assert str(fault.value) == (
        "an array is one image, (H, W) or (H, W, C) with at most 4 channels, got shape (20, 64, 64); "
        "pass one slice of a volume, array[10], or name the axis of the channels, channel_axis=-1"
    )
    assert checked(np.zeros((20, 64, 64), np.uint8), channel_axis=0).shape == (20, 64, 64)


def test_channels_in_front_are_named():
    with pytest.raises(ValueError, match=r"or name the axis of the channels, channel_axis=0$"):
        checked(np.zeros((3, 90, 100), np.uint8))


@pytest.mark.usefixtures("both")
def test_a_stack_of_pages_needs_a_page(tmp_path):
    path = tmp_path / "stack.tif"
    tifffile.imwrite(path, STACK)
    with pytest.raises(ValueError) as fault:
        checked(path)
    assert str(fault.value) == f"an image is one page of a file, got 20 pages in '{path}'; choose one, from page=0 on"
    assert (checked(path, page=7) == 7).all()
    with pytest.raises(ValueError) as fault:
        checked(path, page=20)
    assert str(fault.value) == f"'{path}' has 20 pages, from 0 on, got page=20; choose one of them"


@pytest.mark.parametrize("suffix", ["gif", "webp", "png"])
def test_an_animation_needs_a_page(tmp_path, suffix):
    path = saved_frames(tmp_path / f"a.{suffix}", **({"lossless": True} if suffix == "webp" else {}))
    with pytest.raises(ValueError, match=r"an image is one page of a file, got 3 pages in '.*'; choose one, from page=0 on$"):
        checked(path)
    assert checked(path, page=2).float().mean() == 20


def test_a_file_of_one_page_has_no_other(tmp_path):
    path = tmp_path / "a.png"
    PIL.Image.fromarray(STACK[1]).save(path)
    assert torch.equal(checked(path, page=0), checked(path))
    with pytest.raises(ValueError, match=r"has 1 page, from 0 on, got page=1; choose one of them$"):
        checked(path, page=1)


def test_a_photo_with_helpers_of_a_phone_is_one_image(tmp_path):
    path = saved_frames(tmp_path / "a.jpg", format="MPO")
    assert checked(path).shape == (1, 8, 9)


@pytest.mark.usefixtures("both")
def test_smaller_copies_in_a_pyramid_are_no_pages(tmp_path):
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as file:
        file.write(STACK[5], subfiletype=0)
        file.write(STACK[5][::2, ::2].copy(), subfiletype=1)
    assert (checked(path) == 5).all()


def test_a_page_is_chosen_in_files_only():
    with pytest.raises(ValueError, match=r"page= chooses a page of a file, got ndarray and page=3; pass image\[3\]$"):
        checked(STACK, page=3)
    with pytest.raises(ValueError, match=r"got a PIL image and page=3; call image.seek\(3\)$"):
        checked(PIL.Image.fromarray(STACK[0]), page=3)


@pytest.mark.parametrize("planar", ["contig", "separate"])
def test_a_multichannel_tiff_is_read(tmp_path, planar):
    bands = np.random.default_rng(0).integers(0, 256, (7, 8, 9), dtype=np.uint8)
    path = tmp_path / "bands.tif"
    stored = bands if planar == "separate" else np.moveaxis(bands, 0, 2)
    tifffile.imwrite(path, stored, photometric="minisblack", planarconfig=planar)
    assert np.array_equal(checked(path).numpy(), bands)
    assert int(pixtree.segment(path, tokens=5).max()) == 4


def test_channels_that_are_pages_are_one_image(tmp_path):
    bands = np.random.default_rng(0).integers(0, 4096, (3, 8, 9), dtype=np.uint16)
    tifffile.imwrite(tmp_path / "c.ome.tif", bands, metadata={"axes": "CYX"})
    assert np.allclose(checked(tmp_path / "c.ome.tif", window=(0, 4095)).numpy(), bands / 4095)
    tifffile.imwrite(tmp_path / "z.ome.tif", bands, metadata={"axes": "ZYX"})
    with pytest.raises(ValueError, match="got 3 pages"):
        checked(tmp_path / "z.ome.tif")


def test_16_bit_colours_and_float_colours_of_a_tiff_are_read_in_full(tmp_path):
    deep = np.full((4, 4, 3), 0x1234, np.uint16)
    tifffile.imwrite(tmp_path / "deep.tif", deep, photometric="rgb")
    tifffile.imwrite(tmp_path / "float.tif", (deep / 65535).astype(np.float32), photometric="rgb")
    for name in ("deep.tif", "float.tif"):
        assert torch.allclose(checked(tmp_path / name), torch.full((3, 4, 4), 0x1234 / 65535))


def test_alpha_of_a_deep_tiff_is_composited_over_white(tmp_path):
    pixels = np.zeros((2, 2, 4), np.uint16)
    pixels[0] = (10000, 20000, 30000, 65535)
    tifffile.imwrite(tmp_path / "a.tif", pixels, photometric="rgb", extrasamples=["unassalpha"])
    image = checked(tmp_path / "a.tif")
    assert torch.allclose(image[:, 0, 0], torch.tensor([10000, 20000, 30000]) / 65535)
    assert image[:, 1, 0].tolist() == [1.0, 1.0, 1.0]


def test_a_deep_tiff_is_turned_upright_as_a_png_is(tmp_path):
    stored = np.arange(12, dtype=np.uint8).reshape(3, 4)
    for orientation in range(1, 9):
        exif = PIL.Image.Exif()
        exif[274] = orientation
        PIL.Image.fromarray(stored).save(tmp_path / "byte.png", exif=exif)
        tifffile.imwrite(tmp_path / "deep.tif", stored.astype(np.int16), extratags=[(274, "H", 1, orientation, True)])
        assert torch.allclose(checked(tmp_path / "deep.tif", window=(0, 255)) * 255, checked(tmp_path / "byte.png").float())


def test_a_tiff_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((10, 10), np.int16))
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 20)
    with pytest.raises(ValueError, match=r"at most 40 pixels, got more in .*--max-pixels on the command line"):
        checked(tmp_path / "a.tif", window="auto")


@pytest.mark.usefixtures("no_tifffile")
def test_a_tiff_that_pillow_cannot_read_names_the_extra(tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.zeros((4, 4, 7), np.uint8), photometric="minisblack", planarconfig="contig")
    with pytest.raises(ValueError) as fault:
        checked(path)
    assert str(fault.value) == (
        f"a readable PNG, JPEG, WebP or TIFF is needed, but '{path}' is a TIFF that Pillow cannot read; "
        "run pip install 'pixtree[tiff]', or read it with another program and pass the array"
    )


def test_a_window_refuses_colours_that_pillow_rounds(tmp_path):
    from test_images import png_bytes

    path = tmp_path / "a.png"
    path.write_bytes(png_bytes(2, np.full((2, 2, 3), 0x1234, np.uint16)))
    with pytest.raises(ValueError) as fault:
        checked(path, window=(0, 4095))
    assert str(fault.value) == (
        f"a window needs the exact values of '{path}', but Pillow reads 16-bit colours as 8 bit; "
        "save it as TIFF (run pip install 'pixtree[tiff]'), or pass an array"
    )


def test_pages_that_lead_in_a_circle_are_refused(tmp_path):
    path = tmp_path / "circle.tif"
    tags = [
        (256, 4, 16),
        (257, 4, 16),
        (258, 3, 16),
        (259, 3, 1),
        (262, 3, 1),
        (273, 4, 8),
        (277, 3, 3),
        (278, 4, 16),
        (279, 4, 1536),
    ]
    entries = b"".join(struct.pack("<HHII", code, kind, 1, value) for code, kind, value in tags)
    path.write_bytes(struct.pack("<4sIH", b"II*\0", 8, len(tags)) + entries + struct.pack("<I", 8) + bytes(1600))
    # In a thread that the test need not wait for, for the fault was to go on for ever.
    faults = []

    def read():
        try:
            checked(path)
        except ValueError as fault:
            faults.append(str(fault))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(300)
    (fault,) = faults
    assert "an intact image is needed" in fault
    assert "its pages lead in a circle" in fault


def test_an_animation_takes_memory_for_no_frame_that_it_only_claims():
    stream = io.BytesIO()
    PIL.Image.new("L", (4, 4)).save(stream, "PNG")
    content, claim = stream.getvalue(), b"acTL" + struct.pack(">II", 3_000_000, 0)
    chunk = struct.pack(">I", 8) + claim + struct.pack(">I", zlib.crc32(claim))
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"got 300000[01] pages"):
        checked(content[:33] + chunk + content[33:])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000
