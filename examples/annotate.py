"""Annotate photos with a few clicks per object, and write one COCO file, out/annotations.json."""

import json
from pathlib import Path

from skimage import data

import pixtree
from pixtree.exports import coco

# For each photo: marks inside each object, by category, and marks on the background; points are (row, column).
PHOTOS = {
    "astronaut": (
        {"person": [(60, 230), (110, 220), (350, 250), (400, 120), (450, 400)]},
        [(60, 60), (250, 40), (100, 380), (250, 470)],
    ),
    "coffee": (
        {
            "cup": [(150, 300), (60, 300), (230, 280), (280, 215), (215, 205)],
            "spoon": [(290, 365), (90, 412)],
            "saucer": [(200, 120), (340, 250), (200, 440)],
        },
        [(40, 60), (380, 40), (60, 560), (300, 540)],
    ),
}
KINDS = list(dict.fromkeys(kind for objects, _ in PHOTOS.values() for kind in objects))


def main() -> None:
    """Annotate two photos that ship with scikit-image and print the objects."""
    record = {"images": [], "annotations": [], "categories": [{"id": i, "name": name} for i, name in enumerate(KINDS, 1)]}
    for image, (name, (objects, outside)) in enumerate(PHOTOS.items(), 1):
        tree = pixtree.hierarchy(getattr(data, name)())
        labels = pixtree.select(tree, inside=dict(enumerate(objects.values(), 1)), outside=outside)  # 0 is the background
        found = coco(labels - 1, file_name=f"{name}.png")
        record["images"].append({**found["images"][0], "id": image})
        for kind, annotation in zip(objects, found["annotations"], strict=True):
            number = len(record["annotations"]) + 1
            record["annotations"].append({**annotation, "id": number, "image_id": image, "category_id": KINDS.index(kind) + 1})
            print(f"{name}: {kind}, {annotation['area']} pixels, box {annotation['bbox']}")
    Path("out").mkdir(exist_ok=True)
    Path("out/annotations.json").write_text(json.dumps(record), encoding="utf-8")


if __name__ == "__main__":
    main()
