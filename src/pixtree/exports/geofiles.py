"""Regions for geographic information systems: GeoPackage and shapefile, written by geopandas, an extra."""

import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pixtree.exports.georeference import INSTALL, Georeference
from pixtree.files import checked_target, replacing

SUFFIXES = {".gpkg": "gpkg", ".shp": "shp"}
DRIVERS = {"gpkg": "GPKG", "shp": "ESRI Shapefile"}


def check_geopandas() -> None:
    """Refuse to start where there is no geopandas."""
    if find_spec("geopandas") is None:
        raise ImportError(f"a GeoPackage or shapefile needs geopandas, found none; {INSTALL}, or write .geojson")


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
        # A shapefile is several files; the one that is named comes last, so that it is there only if all are.
        for part in sorted(Path(folder).iterdir(), key=lambda file: file.suffix == made.suffix):
            with replacing(target.with_suffix(part.suffix) if part != made else target) as temporary:
                shutil.move(part, temporary)


def _columns(properties: dict[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in properties.items() if name != "mean_color"}
    return plain | dict(zip(("red", "green", "blue"), properties.get("mean_color", ()), strict=False))
