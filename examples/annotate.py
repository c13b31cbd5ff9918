"""Annotate photos by pointing: objects from a few clicks each, written as one COCO file, in out/annotations.json."""

from pathlib import Path

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
KINDS = list(dict.fromkeys(kind for objects, _ in PHOTOS.values() for kind in objects))


def main() -> None:
    """Annotate two photos that scikit-image ships and say what was found."""
    record = {"images": [], "annotations": [], "categories": [{"id": i, "name": name} for i, name in enumerate(KINDS, 1)]}
    for image, (name, (objects, outside)) in enumerate(PHOTOS.items(), 1):
        tree = pixtree.hierarchy(getattr(data, name)())
        labels = pixtree.select(tree, inside=dict(enumerate(objects.values(), 1)), outside=outside)  # 0 is no object
        found = coco(labels - 1, file_name=f"{name}.png")
        record["images"].append({**found["images"][0], "id": image})
        for kind, annotation in zip(objects, found["annotations"], strict=True):
            number = len(record["annotations"]) + 1
            record["annotations"].append({**annotation, "id": number, "image_id": image, "category_id": KINDS.index(kind) + 1})
            print(f"{name}: {kind}, {annotation['area']} pixels, box {annotation['bbox']}")
    Path("out").mkdir(exist_ok=True)
    write_json("out/annotations.json", record)


if __name__ == "__main__":
    main()
