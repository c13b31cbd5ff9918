"""Mutated image files: input number i is a function of the seed and i alone, so that a run can be divided, resumed and repeated."""

import io
import struct
import zlib
from collections.abc import Callable

import numpy as np
import PIL.Image
from numpy.typing import NDArray
from skimage import data, draw, transform

FORMATS = {"png": ".png", "jpeg": ".jpg", "webp": ".webp", "tiff": ".tif", "bmp": ".bmp", "gif": ".gif"}
PHOTOS = ("astronaut", "coffee", "chelsea", "rocket", "camera", "page", "coins", "text")
SIDES = (16, 24, 32, 48)
EXTREMES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def drawing(side: int) -> NDArray[np.uint8]:
    """Flat shapes, as of an icon."""
    canvas = np.full((side, side, 3), 240, np.uint8)
    canvas[draw.disk((side // 3, side // 3), side // 4, shape=canvas.shape[:2])] = (200, 30, 30)
    canvas[draw.rectangle((side // 2, side // 2), end=(side - 3, side - 2), shape=canvas.shape[:2])] = (20, 40, 180)
    return canvas


def pictures() -> list[PIL.Image.Image]:
    """Small photos of scikit-image and drawings, in the modes that files have."""
    found = []
    for index, name in enumerate(PHOTOS):
        side = SIDES[index % len(SIDES)]
        array = getattr(data, name)()
        shrunk = transform.resize(array, (side, side + index % 3, *array.shape[2:]), anti_aliasing=True)
        found.append(PIL.Image.fromarray((shrunk * 255).round().astype(np.uint8)))
    drawings = [PIL.Image.fromarray(drawing(side)) for side in SIDES]
    alpha = drawings[1].convert("RGBA")
    alpha.putalpha(found[0].resize(alpha.size).convert("L"))
    deep = PIL.Image.fromarray(np.asarray(found[4].convert("L")).astype(np.uint16) * 257)
    more = [alpha, deep, drawings[2].convert("P"), drawings[0].convert("1"), found[4].convert("LA"), found[0].convert("CMYK")]
    return found + drawings + more


SETTINGS: dict[str, tuple[dict[str, object], ...]] = {
    "png": ({}, {"optimize": True}),
    "jpeg": ({"quality": 80}, {"quality": 60, "progressive": True}),
    "webp": ({"quality": 70}, {"lossless": True}),
    "tiff": ({}, *({"compression": name} for name in ("tiff_lzw", "tiff_adobe_deflate", "jpeg", "packbits"))),
    "bmp": ({},),
    "gif": ({}, {"interlace": 0}),
}  # fmt: skip


def originals() -> list[tuple[str, bytes]]:
    """Whole files, with their formats: every picture in every format that can hold it, and a few of several frames."""
    files = []
    for picture in pictures():
        for format, settings in SETTINGS.items():
            for words in settings:
                stream = io.BytesIO()
                try:
                    picture.save(stream, format, **words)
                except (OSError, ValueError, KeyError):  # a mode that the format does not have
                    continue
                files.append((format, stream.getvalue()))
    frames = [PIL.Image.fromarray(drawing(24)).rotate(30 * turn) for turn in range(3)]
    for format in ("gif", "png", "webp", "tiff"):
        stream = io.BytesIO()
        frames[0].save(stream, format, save_all=True, append_images=frames[1:])
        files.append((format, stream.getvalue()))
    return files


Mutation = Callable[[bytearray, np.random.Generator, bytes], bytearray]


def _flip_bits(file: bytearray, random: np.random.Generator, _: bytes) -> bytearray:
    for place in random.integers(len(file), size=int(random.integers(1, 9))):
        file[place] ^= 1 << int(random.integers(8))
    return file


def _set_bytes(file: bytearray, random: np.random.Generator, _: bytes) -> bytearray:
    for place in random.integers(len(file), size=int(random.integers(1, 9))):
        file[place] = int(random.integers(256))
    return file


def _set_number(file: bytearray, random: np.random.Generator, _: bytes) -> bytearray:
    """A number of one to four bytes, mostly near the beginning, where sizes are, becomes an extreme."""
    reach = len(file) if random.random() < 0.3 else min(len(file), 64)
    width, place = int(random.choice([1, 2, 4])), int(random.integers(reach))
    value = int(random.choice(EXTREMES)) & ((1 << 8 * width) - 1)
    file[place : place + width] = value.to_bytes(width, "big" if random.random() < 0.5 else "little")
    return file


def _cut_off(file: bytearray, random: np.random.Generator, _: bytes) -> bytearray:
    return file[: int(random.integers(len(file)))]


def _remove(file: bytearray, random: np.random.Generator, _: bytes) -> bytearray:
    start = int(random.integers(len(file)))
    del file[start : start + int(random.integers(1, 65))]
    return file


def _repeat(file: bytearray, random: np.random.Generator, _: bytes) -> bytearray:
    start, length = int(random.integers(len(file))), int(random.integers(1, 129))
    file[start:start] = file[start : start + length] * int(random.integers(1, 5))
    return file


def _insert(file: bytearray, random: np.random.Generator, _: bytes) -> bytearray:
    place = int(random.integers(len(file)))
    file[place:place] = random.bytes(int(random.integers(1, 65)))
    return file


def _splice(file: bytearray, random: np.random.Generator, other: bytes) -> bytearray:
    return file[: int(random.integers(len(file)))] + bytearray(other[int(random.integers(len(other))) :])


def _zero(file: bytearray, random: np.random.Generator, _: bytes) -> bytearray:
    start = int(random.integers(len(file)))
    end = min(start + int(random.integers(1, 257)), len(file))
    file[start:end] = bytes(end - start)
    return file


MUTATIONS: tuple[Mutation, ...] = (_flip_bits, _set_bytes, _set_number, _cut_off, _remove, _repeat, _insert, _splice, _zero)


def with_right_sums(file: bytes) -> bytes:
    """A PNG whose checksums are right again, so that what was changed reaches the decoder."""
    if not file.startswith(PNG_SIGNATURE):
        return file
    out, place = bytearray(PNG_SIGNATURE), len(PNG_SIGNATURE)
    while place + 12 <= len(file):
        length = struct.unpack(">I", file[place : place + 4])[0]
        body = file[place + 4 : place + 8 + length]
        if place + 12 + length > len(file):
            break
        out += file[place : place + 4] + body + struct.pack(">I", zlib.crc32(body))
        place += 12 + length
    return bytes(out) + file[place:]


def mutated(files: list[tuple[str, bytes]], seed: int, index: int) -> tuple[str, bytes]:
    """Input number `index` of a run: its format and its bytes, one to three mutations of an original."""
    random = np.random.default_rng([seed, index])
    format, original = files[int(random.integers(len(files)))]
    other = files[int(random.integers(len(files)))][1]
    file = bytearray(original)
    for _ in range(int(random.integers(1, 4))):
        if file:
            file = MUTATIONS[int(random.integers(len(MUTATIONS)))](file, random, other)
    changed = bytes(file)
    return format, with_right_sums(changed) if format == "png" and random.random() < 0.7 else changed
