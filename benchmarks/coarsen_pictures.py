"""Pictures of token trees for the documentation: a photo, and the regions of its coarse tokens after some blocks.

`python benchmarks/coarsen_pictures.py --weights FOLDER -o docs/pictures/coarsen.jpg` writes them. The photos are scikit-image's.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from retrofit import normalised, patch_model
from vector_pictures import captioned, save, side_by_side

import pixtree
from pixtree.exports.pictures import boundaries, mean_colours

MODEL, BLOCKS = "deit_tiny_patch16_224", (3, 6, 9, 12)


def squares(size: int = 224) -> torch.Tensor:
    """Photos (3, 3, size, size) uint8."""
    from skimage import data

    crops = (data.astronaut()[:400, 50:450], data.chelsea()[:300, 60:360], data.coffee()[:400, 100:500])
    parts = [torch.from_numpy(crop.copy()).permute(2, 0, 1)[None].to(torch.float32) for crop in crops]
    resized = [torch.nn.functional.interpolate(part, (size, size), mode="bicubic", antialias=True) for part in parts]
    return torch.cat(resized).round().clamp(0, 255).to(torch.uint8)


@torch.inference_mode()
def strip(weights: Path, compute: float) -> np.ndarray:
    """One row per photo: the photo, then its mean colours in the tokens that are left after each of BLOCKS."""
    model, photos = patch_model(MODEL, weights), squares()
    _, tree = pixtree.coarsen(model, compute).forward_tree(normalised(photos, model))
    parts = []
    for number, photo in enumerate(photos):
        picture = np.ascontiguousarray(photo.permute(1, 2, 0).numpy())
        row = [captioned(picture, "photo")]
        for block in BLOCKS:
            labels = tree.maps(block - 1)[number].to(torch.int32).numpy()
            drawn = boundaries(mean_colours(picture, labels), labels, colour=(255, 255, 255))
            row.append(captioned(drawn, f"block {block}: {tree.counts[block - 1]} tokens"))
        parts += row
    return side_by_side(parts, len(BLOCKS) + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--compute", type=float, default=0.5)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    save(strip(options.weights, options.compute), options.output)


if __name__ == "__main__":
    main()
