"""Pictures of classes that a small model can tell apart: discs and bars in a few colours."""

import numpy as np
from PIL import Image

COLOURS = ((220, 60, 40), (40, 160, 220), (90, 200, 60), (230, 200, 40))


def generated(number, kind, size=40):
    """Picture `number` of a class, (size, size, 3) uint8: a disc or a bar of the class's colour on a little noise."""
    random = np.random.default_rng(1000 * kind + number)
    picture = random.integers(90, 160, 3) + random.integers(-4, 5, (size, size, 3))
    rows, columns = np.mgrid[:size, :size]
    x, y = random.integers(size // 4, 3 * size // 4, 2)
    inside = (rows - y) ** 2 + (columns - x) ** 2 < (size / 4) ** 2 if kind % 2 == 0 else abs(columns - x) < size / 8
    picture[inside] = COLOURS[kind % len(COLOURS)] + random.integers(-20, 20, 3)
    return np.clip(picture, 0, 255).astype(np.uint8)


def class_folders(root, classes, each, held=0, size=40):
    """Write a folder per class, in `train` and, if some are held out, in `val`; returns the root."""
    for part, count, first in (("train", each, 0), ("val", held, each)):
        for kind in range(classes):
            folder = root / part / f"class_{kind}"
            if count:
                folder.mkdir(parents=True)
            for number in range(first, first + count):
                Image.fromarray(generated(number, kind, size)).save(folder / f"{number}.png")
    return root


def label_maps(root, each, held, size=40):
    """Write images and maps of their classes as CamVid has them: the shape is class 1 or 2, the ground 0, and a corner void."""
    for part, numbers in (("train", range(each)), ("val", range(each, each + held))):
        for folder in (root / "images" / part, root / "labels" / part):
            folder.mkdir(parents=True)
        for number in numbers:
            kind = number % 2
            picture = generated(number, kind, size)
            truth = np.where(abs(picture.astype(int) - COLOURS[kind]).max(axis=2) < 40, kind + 1, 0).astype(np.uint8)
            truth[:4, :4] = 11
            Image.fromarray(picture).save(root / "images" / part / f"{number}.png")
            Image.fromarray(truth).save(root / "labels" / part / f"{number}.png")
    return root
