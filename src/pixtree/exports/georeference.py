"""Georeference: where on Earth the pixels of an image lie, read by rasterio; and GeoPackages and shapefiles, written by geopandas.

Both packages are extras.
"""

import os
import shutil
import tempfile
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from pixtree.files import checked_target, replacing

INSTALL = "run pip install 'pixtree[geo]'"
PIXELS = "pixel corners (x, y), y down"
GEO_TAGS = (33550, 33922, 34264, 34735)  # of a TIFF: pixel scale, tie points, transformation, keys of the coordinate system
GEO_SUFFIXES = {".gpkg": "gpkg", ".shp": "shp"}
DRIVERS = {"gpkg": "GPKG", "shp": "ESRI Shapefile"}


@dataclass(frozen=True)
class Georeference:
    """From pixel corners to coordinates: x = a · column + b · row + c, y = d · column + e · row + f.

    crs: the coordinate reference system, such as "EPSG:32633", or as WKT; None where the file names none.

    >>> from pixtree.exports import Georeference
    >>> north_up = Georeference((10.0, 0.0, 500000.0, 0.0, -10.0, 5000000.0), "EPSG:32633")
    >>> north_up.placed([[0, 0], [2, 1]])
    [[500000.0, 5000000.0], [500020.0, 4999990.0]]
    """

    transform: tuple[float, float, float, float, float, float]
    crs: str | None = None

    @property
    def mirrors(self) -> bool:
        """Whether the axes change their sense of rotation, as they do where rows run down and y runs up."""
        a, b, _, d, e, _ = self.transform
        return a * e - b * d < 0

    def placed(self, corners: Any) -> list[list[float]]:
        """Pixel corners (N, 2) as (x, y) in the coordinates of the file."""
        a, b, c, d, e, f = self.transform
        column, row = np.asarray(corners, np.float64).T
        points: list[list[float]] = np.stack((a * column + b * row + c, d * column + e * row + f), axis=1).tolist()
        return points

    def __str__(self) -> str:
        name = self.crs if self.crs is not None and self.crs.startswith("EPSG:") else "its own"
        return f"coordinates (x, y) of the file, y up, {name if self.crs else 'an unknown'} reference system"


def georeference_of(path: str | os.PathLike[str]) -> Georeference | None:
    """The georeference of an image file, or of its world file; None if there is none, or if rasterio is not installed."""
    if find_spec("rasterio") is None:
        return None
    import rasterio
    from rasterio.errors import NotGeoreferencedWarning, RasterioIOError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotGeoreferencedWarning)
            with rasterio.open(path) as file:
                transform, crs = tuple(file.transform)[:6], file.crs
    except RasterioIOError:  # a format that only Pillow reads
        return None
    if transform == (1.0, 0.0, 0.0, 0.0, 1.0, 0.0):
        return None
    if crs is None:
        return Georeference(transform)
    code = crs.to_epsg()
    return Georeference(transform, crs.to_wkt() if code is None else f"EPSG:{code}")


def coordinates_of(path: str | os.PathLike[str], found: Georeference | None) -> str:
    """A clause for users: the coordinates that polygons of this file have, and why."""
    if found is not None:
        return str(found)
    if find_spec("rasterio") is None and _has_geo_tags(Path(path)):
        return f"{PIXELS}; the file is georeferenced: {INSTALL} for its coordinates"
    return f"{PIXELS}; the file has no georeference"


def _has_geo_tags(path: Path) -> bool:
    import PIL.Image

    try:
        with PIL.Image.open(path) as image:
            tags = getattr(image, "tag_v2", {})
            return any(tag in tags for tag in GEO_TAGS)
    except (OSError, SyntaxError):
        return False


def check_geopandas() -> None:
    """Raise an error unless geopandas is installed."""
    if find_spec("geopandas") is None:
        raise ImportError(f"a GeoPackage or shapefile needs geopandas, which is not installed; {INSTALL}, or write .geojson")


def write_geofile(path: str | Path, collection: dict[str, Any], format: str, reference: Georeference | None) -> None:
    """Write a GeoJSON FeatureCollection as GeoPackage or shapefile; mean colours become the columns red, green and blue."""
    check_geopandas()
    import geopandas

    rows = [feature | {"properties": _columns(feature["properties"])} for feature in collection["features"]]
    frame = geopandas.GeoDataFrame.from_features(rows, crs=None if reference is None else reference.crs)
    target = checked_target(path)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".pixtree-") as folder:
        made = Path(folder) / f"{target.stem}.{format}"
        frame.to_file(made, driver=DRIVERS[format])
        # A shapefile is several files: the named one comes last, so that it exists only if all others do.
        for part in sorted(Path(folder).iterdir(), key=lambda file: file.suffix == made.suffix):
            with replacing(target.with_suffix(part.suffix) if part != made else target) as temporary:
                shutil.move(part, temporary)


def _columns(properties: dict[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in properties.items() if name != "mean_color"}
    return plain | dict(zip(("red", "green", "blue"), properties.get("mean_color", ()), strict=False))
