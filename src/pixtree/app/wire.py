"""The binary form of answers: a line of JSON that names arrays, a picture, and the arrays' bytes, deflated.

    "pixtree1" | length of the header, uint32 | length of the picture, uint32 | header | picture | zlib stream of the arrays

Numbers are little-endian. The header has the arrays' names, types and shapes in their order, "arrays"; wider types come first, so
that every array starts at a multiple of its width.
"""

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAGIC = b"pixtree1"
TYPES = {"uint8": "u1", "uint16": "<u2", "uint32": "<u4", "float32": "<f4"}
EFFORT = 1  # of zlib: label maps shrink to a fifth in a few milliseconds, and little is left to gain


def packed(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], picture: bytes = b"") -> bytes:
    """Header, picture and arrays as one answer."""
    ordered = sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize)
    listed = [{"name": name, "type": array.dtype.name, "shape": array.shape} for name, array in ordered]
    head = json.dumps({**header, "arrays": listed}, separators=(",", ":")).encode()
    body = zlib.compress(b"".join(array.astype(TYPES[array.dtype.name]).tobytes() for _, array in ordered), EFFORT)
    return MAGIC + struct.pack("<II", len(head), len(picture)) + head + picture + body


def unpacked(content: bytes) -> tuple[dict[str, Any], bytes, dict[str, NDArray[Any]]]:
    """Header, picture and arrays of an answer, for clients in Python."""
    if not content.startswith(MAGIC):
        raise ValueError(f"an answer starts with {MAGIC.decode()}, got {content[:8]!r}; ask a server of this version")
    head, picture = struct.unpack_from("<II", content, len(MAGIC))
    start = len(MAGIC) + 8
    header = json.loads(content[start : start + head])
    body = zlib.decompress(content[start + head + picture :])
    arrays, place = {}, 0
    for part in header.pop("arrays"):
        kind, size = np.dtype(TYPES[part["type"]]), int(np.prod(part["shape"], dtype=np.int64))
        arrays[part["name"]] = np.frombuffer(body, kind, size, place).reshape(part["shape"])
        place += size * kind.itemsize
    return header, content[start + head : start + head + picture], arrays
