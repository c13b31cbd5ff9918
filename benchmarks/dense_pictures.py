"""Pictures of salient objects and correspondences: `python benchmarks/dense_pictures.py --data $PIXTREE_DATA -o docs/pictures`.

Photos are those of scikit-image and of dht_testimgs; the folder has weights/ with DeiT-Tiny.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from retrofit import patch_model
from skimage import data

import pixtree
from pixtree.files import replacing
from pixtree.tasks import correspondence, correspondence_picture

MODEL, HEIGHT = "deit_tiny_patch16_224", 300


def shown(photo: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The photo, pale outside the mask and with a line around it."""
    pale = (0.25 * photo + 0.75 * 255).astype(np.uint8)
    picture = np.where(mask[..., None], photo, pale)
    edge = np.zeros_like(mask)
    for axis in (0, 1):
        edge |= mask != np.roll(mask, 1, axis)
    picture[edge] = (224, 64, 32)
    return picture


def resized(photo: np.ndarray) -> np.ndarray:
    width = round(photo.shape[1] * HEIGHT / photo.shape[0])
    return np.array(Image.fromarray(photo).resize((width, HEIGHT), Image.Resampling.LANCZOS))


def save(path: Path, picture: np.ndarray) -> None:
    with replacing(path) as temporary:
        Image.fromarray(picture).save(temporary, quality=88)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    model = patch_model(MODEL, asked.data / "weights")
    photos = [resized(photo) for photo in (data.astronaut(), data.chelsea(), data.coffee())]
    ways = ({"tokens": None, "refine": None}, {"tokens": None, "refine": "snap"}, {"tokens": 196, "refine": None})
    rows = [
        np.concatenate([photo, *(shown(photo, pixtree.salient(photo, model, **way)) for way in ways)], axis=1) for photo in photos
    ]
    widest = max(row.shape[1] for row in rows)
    rows = [np.pad(row, ((0, 8), (0, widest - row.shape[1]), (0, 0)), constant_values=255) for row in rows]
    save(asked.output / "salient.jpg", np.concatenate(rows))
    first, second = (resized(np.array(Image.open(asked.data / "dht_testimgs" / f"{name}.jpg").convert("RGB"))) for name in PAIR)
    likeness = correspondence(first, POINT, second, model)
    save(asked.output / "correspondence.jpg", correspondence_picture(first, POINT, second, likeness))


PAIR, POINT = ("umbrellagirl", "berlinergirls"), (135, 143)

if __name__ == "__main__":
    main()
