"""Partitions and trees as files, pictures and data for other programs."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pixtree.exports import labels as maps
from pixtree.exports.georeference import DRIVERS, GEO_SUFFIXES, Georeference, check_geopandas, georeference_of, write_geofile
from pixtree.exports.labels import LabelsLike, check_values, checked_format, format_by_suffix, write_labels
from pixtree.exports.levels import level_stack
from pixtree.exports.pictures import boundaries, contour_map, displayed, mean_colours, random_colours, save_png
from pixtree.exports.regions import coco, geojson, region_graph, skimage_rag
from pixtree.files import write_json

if TYPE_CHECKING:
    from pixtree.images import Image

__all__ = [
    "FORMATS",
    "Georeference",
    "boundaries",
    "coco",
    "contour_map",
    "geojson",
    "georeference_of",
    "level_stack",
    "mean_colours",
    "random_colours",
    "region_graph",
    "save_png",
    "skimage_rag",
    "write",
]

SUFFIXES = {**maps.SUFFIXES, ".geojson": "geojson", ".coco.json": "coco", **GEO_SUFFIXES}
FORMATS = tuple(dict.fromkeys(SUFFIXES.values()))
POLYGONS = ("geojson", *GEO_SUFFIXES.values())  # formats with coordinates


def format_of(path: str | Path, format: str | None = None) -> str:
    """The format of an output: the given one, else that of its suffix; an error if a package for it is missing."""
    found = format_by_suffix(path, SUFFIXES) if format is None else checked_format(format, FORMATS)
    if found in DRIVERS:
        check_geopandas()
    return found


def check_room(path: str | Path, regions: int, *, format: str | None = None, masked: bool = False) -> None:
    """Raise an error for more regions than the format can number, before they are made."""
    if format_of(path, format) == "png":
        check_values(regions - 1 + masked)


def write(
    path: str | Path,
    labels: LabelsLike,
    *,
    format: str | None = None,
    image: "Image | None" = None,
    file_name: str = "",
    reference: Georeference | None = None,
    **reading: Any,
) -> None:
    """Write one image's regions in any format; polygons get mean colours from `image`, annotations name the `file_name`.

    Polygons have the coordinates of `reference`, or of the image where it is a georeferenced file; see `geojson`.
    reading: window= and page= of the image.
    """
    chosen = format_of(path, format)
    if chosen in POLYGONS and image is not None:
        if reference is None and isinstance(image, str | os.PathLike):
            reference = georeference_of(image)
        image = displayed(image, **reading)
    match chosen:
        case "geojson":
            write_json(path, geojson(labels, image, reference))
        case "gpkg" | "shp" as geographic:
            write_geofile(path, geojson(labels, image, reference), geographic, reference)
        case "coco":
            write_json(path, coco(labels, file_name=file_name))
        case label_format:
            write_labels(path, labels, format=label_format)
