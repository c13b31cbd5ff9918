"""What a file decodes to is limited in bytes and channels, before any of it is decoded."""

import io
import struct
import zlib

import numpy as np
import pytest
import tifffile

from pixtree.images import bounds, checked, tiff
from pixtree.images.rasters import opened
from pixtree.images.reading import larger_images


def tiff_of(shape, **words):
    stream = io.BytesIO()
    tifffile.imwrite(stream, np.zeros(shape, np.uint8), compression="zlib", **words)
    return stream.getvalue()


@pytest.fixture
def undecoded(monkeypatch):
    """A decoder that must not be called."""
    for name in ("TiffPage", "TiffPageSeries"):
        monkeypatch.setattr(getattr(tifffile, name), "asarray", lambda *_, **__: pytest.fail("it was decoded"))


def test_a_tiff_of_thousands_of_channels_is_refused_before_it_is_decoded(undecoded, tmp_path):
    data = tiff_of((8, 8, 4000), planarconfig="contig", photometric="minisblack")
    with pytest.raises(ValueError, match=r"^an image has 1 to 64 channels, got 4000 in the given data; read fewer of them"):
        checked(data)
    (tmp_path / "a.tif").write_bytes(data)
    with pytest.raises(ValueError, match="1 to 64 channels, got 4000"), opened(tmp_path / "a.tif"):
        pytest.fail("it was opened")


def test_a_tiff_whose_pages_are_too_many_channels_is_refused(undecoded):
    stream = io.BytesIO()
    tifffile.imwrite(stream, np.zeros((100, 8, 8), np.uint8), imagej=True, metadata={"axes": "CYX"})
    with pytest.raises(ValueError, match="1 to 64 channels, got 100"):
        checked(stream.getvalue())


def test_a_tiff_above_the_limit_of_bytes_is_refused_and_the_limit_can_be_raised():
    data = tiff_of((50, 40, 8), planarconfig="contig", photometric="minisblack")
    with (
        larger_images(None, 15_999),
        pytest.raises(ValueError, match=r"at most 15999 bytes, got 16000 in the given data; .*--max-bytes on the command line"),
    ):
        checked(data)
    with larger_images(None, 16_000):
        assert checked(data).shape == (8, 50, 40)
    assert bounds.MAX_BYTES == 2**31


def test_a_strip_that_inflates_to_more_than_the_limit_is_refused_before_it_is_decoded(undecoded, monkeypatch):
    stream = io.BytesIO()
    tifffile.imwrite(stream, np.zeros((8, 8, 5), np.uint8), compression="zlib", planarconfig="contig", photometric="minisblack")
    with tifffile.TiffFile(io.BytesIO(stream.getvalue())) as file:
        page = file.pages.first
        place, length = page.tags["StripByteCounts"].valueoffset, len(stream.getvalue())
        offset = page.tags["StripOffsets"].valueoffset
    bomb = zlib.compress(bytes(30_000_000), 9)
    data = bytearray(stream.getvalue()) + bomb
    data[place : place + 4], data[offset : offset + 4] = struct.pack("<I", len(bomb)), struct.pack("<I", length)
    monkeypatch.setattr(tiff, "find_spec", lambda name: name == "tifffile")  # imagecodecs inflates to the size of a strip only
    monkeypatch.setattr(bounds, "MAX_BYTES", 20_000_000)
    with pytest.raises(ValueError, match="may decode to at most 20000000 bytes"):
        checked(bytes(data))
