"""Partitions and trees as files: label maps, polygons, annotations, pictures."""

from pathlib import Path
from typing import TYPE_CHECKING

from pixtree.exports import labels as maps
from pixtree.exports.labels import LabelsLike, checked_format, format_by_suffix, write_labels
from pixtree.exports.regions import coco, geojson
from pixtree.files import write_json

if TYPE_CHECKING:
    from pixtree.images import Image

SUFFIXES = {**maps.SUFFIXES, ".geojson": "geojson", ".coco.json": "coco"}
FORMATS = tuple(dict.fromkeys(SUFFIXES.values()))


def format_of(path: str | Path, format: str | None = None) -> str:
    """The format of an output: the one that is named, else the one of its suffix."""
    return format_by_suffix(path, SUFFIXES) if format is None else checked_format(format, FORMATS)


def write(
    path: str | Path,
    labels: LabelsLike,
    *,
    format: str | None = None,
    image: "Image | None" = None,
    file_name: str = "",
) -> None:
    """Write one image's regions in any format; polygons get mean colours from `image`, annotations name the `file_name`."""
    match format_of(path, format):
        case "geojson":
            write_json(path, geojson(labels, image))
        case "coco":
            write_json(path, coco(labels, file_name=file_name))
        case label_format:
            write_labels(path, labels, format=label_format)
