"""Pictures of drawings for the documentation: a photo beside its drawings with enlarged parts, and a photo at 500 to 5,000 paths.

`python benchmarks/vectors.py pictures` writes them. The photos are scikit-image's, free to be shown.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pixtree.evaluation.vectors import at_size, vtracer_method
from pixtree.files import replacing
from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.tasks.vectorize import rendered, vectorize

GAP, LINE = 8, 26  # pixels between parts, and of a line of text


def with_inset(picture: np.ndarray, text: str | None, box: tuple[int, int, int, int], zoom: int) -> np.ndarray:
    """A picture, or a drawing of its size, and below it a `box` (top, left, height, width) of it, enlarged to the full width."""
    height, width = picture.shape[:2]
    top, left, tall, wide = box
    if text is None:
        whole, close = picture.copy(), np.kron(picture, np.ones((zoom, zoom, 1), np.uint8))
    else:
        whole, close = at_size(text, (height, width)), at_size(text, (height * zoom, width * zoom))
    close = close[top * zoom : (top + tall) * zoom, left * zoom : (left + wide) * zoom]
    frame = np.zeros(whole.shape[:2], bool)
    frame[top - 2 : top + tall + 2, left - 2 : left + wide + 2] = True
    frame[top : -(height - top - tall), left : -(width - left - wide)] = False
    whole[frame] = 255
    return np.vstack((whole, np.full((GAP, width, 3), 255, np.uint8), close))


def captioned(picture: np.ndarray, words: str) -> np.ndarray:
    """The picture with a line of text above it."""
    from PIL import Image, ImageDraw, ImageFont

    strip = Image.new("RGB", (picture.shape[1], LINE), "white")
    ImageDraw.Draw(strip).text((0, 2), words, "black", ImageFont.load_default(17))
    return np.vstack((np.array(strip), picture))


def side_by_side(pictures: Sequence[np.ndarray], across: int) -> np.ndarray:
    """Pictures of one size in rows, with white between them."""
    edge = GAP // 2
    padded = [np.pad(picture, ((edge, edge), (edge, edge), (0, 0)), constant_values=255) for picture in pictures]
    return np.vstack([np.hstack(padded[start : start + across]) for start in range(0, len(padded), across)])


def save(picture: np.ndarray, path: Path) -> None:
    from PIL.Image import fromarray

    with replacing(path) as temporary:
        fromarray(picture).save(temporary, quality=84, optimize=True, progressive=True)


def described(name: str, text: str, picture: np.ndarray) -> str:
    quality = psnr(mean_squared_error(rendered(text), picture))
    return f"{name}, {len(text.encode()) / 1000:,.0f} kB, {quality:.1f} dB"


def pictures(folder: Path) -> None:
    """A photo beside its drawings with enlarged parts, and a photo at 500 to 5,000 paths."""
    from skimage import data

    photo, box, zoom = data.chelsea()[:, 10:440], (84, 108, 60, 86), 5
    rival = vtracer_method("polygon")
    theirs = rival.convert(rival.prepare(photo))
    ours = str(vectorize(photo, bytes=len(theirs.encode())))
    columns = [("photo", None), (described("pixtree", ours, photo), ours), (described("vtracer, polygons", theirs, photo), theirs)]
    shown_parts = [captioned(with_inset(photo, text, box, zoom), words) for words, text in columns]
    save(side_by_side(shown_parts, 3), folder / "vectors_beside_vtracer.jpg")
    photo = data.coffee()
    steps = []
    for count in (500, 1000, 2000, 5000):
        text = str(vectorize(photo, paths=count))
        steps.append(captioned(at_size(text, photo.shape[:2]), described(f"{count:,} paths", text, photo)))
    save(side_by_side(steps, 2), folder / "vectors_500_to_5000.jpg")
