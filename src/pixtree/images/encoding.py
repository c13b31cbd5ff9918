"""Pictures as bytes, for notebooks."""

import io

import numpy as np
from numpy.typing import NDArray


def png(picture: NDArray[np.uint8]) -> bytes:
    """A picture (H, W, 3) or (H, W) uint8 as the bytes of a PNG."""
    import PIL.Image

    stream = io.BytesIO()
    PIL.Image.fromarray(picture).save(stream, "PNG")
    return stream.getvalue()
