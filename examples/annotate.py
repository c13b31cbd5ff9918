"""Annotate photos by pointing: objects from a few clicks each, written as one COCO file, in out/annotations.json."""

from pathlib import Path

import numpy as np
from skimage import data

import pixtree
from pixtree.exports.regions import coco
from pixtree.files import write_json

# Per photo the marks of its objects by category, and the marks in no object; points are (row, column).
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


def annotated(name: str) -> tuple[np.ndarray, list[str]]:
    """The label map (H, W) of a photo's objects, 0 outside all of them, and their categories in order."""
    objects, outside = PHOTOS[name]
    tree = pixtree.hierarchy(getattr(data, name)())
    inside = dict(enumerate(objects.values(), 1))
    return pixtree.select(tree, inside=inside, outside=outside), list(objects)


def main() -> None:
    """Annotate two photos that scikit-image ships and say what was found."""
    categories = list(dict.fromkeys(category for objects, _ in PHOTOS.values() for category in objects))
    record = {"images": [], "annotations": []}
    for image, name in enumerate(PHOTOS, 1):
        labels, kinds = annotated(name)
        one = coco(labels - 1, file_name=f"{name}.png")  # pixels below 0 belong to no object
        record["images"].append({**one["images"][0], "id": image})
        for annotation in one["annotations"]:
            kind = kinds[annotation["id"] - 1]
            number = len(record["annotations"]) + 1
            record["annotations"].append({**annotation, "id": number, "image_id": image, "category_id": categories.index(kind) + 1})
            print(f"{name}: {kind}, {annotation['area']} pixels, box {annotation['bbox']}")
    record["categories"] = [{"id": number, "name": name, "supercategory": ""} for number, name in enumerate(categories, 1)]
    Path("out").mkdir(exist_ok=True)
    write_json("out/annotations.json", record)


if __name__ == "__main__":
    main()
