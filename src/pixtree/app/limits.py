"""Limits of the server: what a stranger may send, and how much memory and time an answer may take."""

from dataclasses import dataclass

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Limits:
    """All limits of one server.

    side: pictures are reduced to this many pixels on their longer side. regions: of the finest cut that the page can draw.
    upload_bytes, upload_pixels: of one file. intake_bytes: of all files that are being received or wait for their tree.
    session_bytes: of all trees that are kept; the least recently used ones are forgotten first.
    waiting: requests for computations that may wait or run at once. json_bytes: of a request that is no file.
    header_seconds, upload_seconds, answer_seconds: for the head of a request, for its body, and for the computation.
    """

    side: int = 1024
    regions: int = 4096
    upload_bytes: int = 32 * MEBIBYTE
    upload_pixels: int = 50_000_000
    intake_bytes: int = 256 * MEBIBYTE
    session_bytes: int = 512 * MEBIBYTE
    waiting: int = 64
    json_bytes: int = MEBIBYTE
    header_seconds: float = 10.0
    upload_seconds: float = 30.0
    answer_seconds: float = 60.0
