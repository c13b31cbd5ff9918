"""Files with wrong bytes are read or refused in one line; `benchmarks/fuzz` does the same with a hundred thousand of them."""

import io
import tempfile
import warnings
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import photo

from pixtree.images import checked

FORMATS = {"PNG": ".png", "JPEG": ".jpg", "WEBP": ".webp", "TIFF": ".tif", "BMP": ".bmp", "GIF": ".gif"}


def whole(format):
    stream = io.BytesIO()
    PIL.Image.fromarray(photo(height=16, width=20).permute(1, 2, 0).numpy()).save(stream, format)
    return stream.getvalue()


def outcome(function, image):
    """The picture, or the message of the ValueError that refuses it."""
    try:
        return function(image)
    except ValueError as fault:
        return str(fault)


def is_one_line(message):
    return bool(message) and "\n" not in message


def read_or_refused(data, suffix):
    """What becomes of a file."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / f"picture{suffix}"
        path.write_bytes(data)
        return outcome(checked, path)


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=25, deadline=None)
@given(
    changes=st.lists(st.tuples(st.integers(0, 4000), st.binary(min_size=0, max_size=6), st.integers(0, 40)), min_size=1, max_size=4)
)
def test_changed_bytes_are_read_or_refused(format, changes):
    data = bytearray(whole(format))
    for place, new, removed in changes:
        start = place % len(data) if data else 0
        data[start : start + removed] = new
    found = read_or_refused(bytes(data), FORMATS[format])
    assert is_one_line(found) if isinstance(found, str) else found.ndim == 3


@pytest.mark.parametrize("suffix", FORMATS.values())
@settings(max_examples=10, deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(suffix, data):
    assert is_one_line(read_or_refused(data, suffix))


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(0, 6), max_size=5),
    kind=st.sampled_from(["u1", "u2", "i4", "f4", "f8", "?", "c8", "U3", "O", "M8[s]"]),
    seed=st.integers(0, 99),
)
def test_any_array_is_read_or_refused(shape, kind, seed):
    values = np.random.default_rng(seed).normal(0, 200, shape)
    with np.errstate(invalid="ignore"):
        array = values.astype("i8").astype(kind) if kind == "M8[s]" else values.astype(kind)
    found = outcome(checked, array)
    assert is_one_line(found) if isinstance(found, str) else found.ndim in (3, 4)
