"""Regions from your own features: colour with local texture, compared with colour alone in out/texture.png."""

from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter
from skimage import data
from skimage.color import rgb2gray

import pixtree
from pixtree.exports import boundaries, save_png


def texture(photo: np.ndarray) -> np.ndarray:
    """Local contrast at three scales (H, W, 3), in 0..1."""
    grey = rgb2gray(photo)
    deviations = [gaussian_filter((grey - gaussian_filter(grey, scale)) ** 2, scale) ** 0.5 for scale in (2, 4, 8)]
    return np.stack([one / one.max() for one in deviations], axis=-1)


def main() -> None:
    """Segment a photo by colour alone and by colour with texture; any array with channels is an image."""
    photo = data.chelsea()  # Stefan van der Walt, CC0
    both = np.concatenate((photo / 255.0, texture(photo)), axis=-1)  # (H, W, 6)
    plain = pixtree.segment(photo, tokens=60)
    textured = pixtree.segment(both, tokens=60, channel_axis=-1)
    Path("out").mkdir(exist_ok=True)
    save_png(Path("out/texture.png"), np.concatenate((boundaries(photo, plain), boundaries(photo, textured)), axis=1))
    print("out/texture.png: 60 regions by colour, and by colour with texture")


if __name__ == "__main__":
    main()
