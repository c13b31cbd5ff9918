"""`pixtree segment`: write the regions of an image to a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pixtree.cli.errors import UsageError, reported
from pixtree.cli.options import (
    BackendName,
    Compactness,
    ImageFile,
    MaskFile,
    PageNumber,
    SimilarityName,
    WindowRange,
    checked_paths,
    parsed_window,
)

if TYPE_CHECKING:
    from torch import Tensor

DEFAULT_TOKENS = 200
OVERLAYS = ("boundaries", "mean", "random")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("segment")(segment)


@reported()
def segment(
    image: ImageFile,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Write the regions to this file: .png, .tif or .npz for a label map, .geojson, .gpkg, .shp or .coco.json.",
            show_default=False,
        ),
    ],
    tokens: Annotated[int | None, typer.Option(help=f"Cut into exactly this many regions (default {DEFAULT_TOKENS}).")] = None,
    criterion: Annotated[
        str | None, typer.Option(help="Let a criterion choose the number of regions: aic, aicc, bic or cic.")
    ] = None,
    at_most: Annotated[
        int | None, typer.Option(help="Let the criterion (aicc by default) choose, but use at most this many regions.")
    ] = None,
    level: Annotated[int | None, typer.Option(help="Use this level of the tree; level 0 has one region per pixel.")] = None,
    relax: Annotated[
        bool, typer.Option("--relax", help="Polish the boundaries; cuts with different counts are then no longer nested.")
    ] = False,
    mask: MaskFile = None,
    window: WindowRange = None,
    page: PageNumber = None,
    similarity: SimilarityName = "likelihood",
    compactness: Compactness = 0.0,
    partitioner: Annotated[
        str | None, typer.Option(help="Use another method, such as grid, quadtree or slic. It takes no other option than --tokens.")
    ] = None,
    backend: BackendName = "auto",
    format: Annotated[
        str | None,
        typer.Option(help="Format of the output: png, tiff, npz, geojson, gpkg, shp or coco. By default the suffix decides."),
    ] = None,
    overlay: Annotated[
        Path | None, typer.Option(help="Also draw the regions over the image and write the picture to this .png file.")
    ] = None,
    overlay_style: Annotated[
        str, typer.Option(help="Content of the overlay: boundaries, mean (colours) or random (colours).")
    ] = "boundaries",
) -> None:
    """Cut an image into connected regions and write them to a file."""
    wanted = {"tokens": tokens, "criterion": criterion, "at_most": at_most, "level": level}
    cut = checked_cut({name: value for name, value in wanted.items() if value is not None})
    shown = parsed_window(window)
    checked_paths(image, mask, output, overlay)
    _check_outputs(output, format, overlay, overlay_style)

    from pixtree.images import checked_inside

    picture, inside = checked_inside(image, mask, window=shown, page=page)
    _check_room(output, format, cut, picture, inside)
    options = {"relax": relax, "similarity": similarity, "compactness": compactness, "backend": backend}
    labels = _labels(picture, cut, inside, partitioner, **options)
    _write(output, format, labels, picture, image)
    if overlay is not None:
        _draw(overlay, overlay_style, picture, labels)
        typer.echo(f"{overlay_style} overlay: {overlay}")


def checked_cut(given: dict[str, Any]) -> dict[str, Any]:
    """The options of the one cut that is asked for; --criterion may name the criterion that --at-most limits."""
    if len(given) > 1 and given.keys() != {"criterion", "at_most"}:
        names = " and ".join(f"--{name.replace('_', '-')}" for name in given)
        raise UsageError(f"a cut is one of --tokens, --criterion, --at-most and --level, got {names}; give one of them")
    return given or {"tokens": DEFAULT_TOKENS}


def _check_outputs(output: Path, format: str | None, overlay: Path | None, style: str) -> None:
    """Refuse outputs that cannot be written, before any work."""
    from pixtree.exports import format_of
    from pixtree.exports.pictures import checked_png
    from pixtree.files import checked_target

    format_of(output, format)
    checked_target(output)
    if style not in OVERLAYS:
        raise ValueError(f"an overlay's style is one of {', '.join(OVERLAYS)}, got {style!r}; choose one of them")
    if overlay is not None:
        checked_target(checked_png(overlay))


def _check_room(output: Path, format: str | None, cut: dict[str, Any], picture: "Tensor", inside: "Tensor | None") -> None:
    """Refuse more labels than the format holds, before any work; how many a criterion chooses is known only after it."""
    from pixtree.exports import check_room

    pixels = int(inside.sum()) if inside is not None else picture.shape[1] * picture.shape[2]
    known = pixels if cut.get("level") == 0 else min(cut.get("tokens", 1), pixels)
    check_room(output, known, format=format, masked=inside is not None and not bool(inside.all()))


def _labels(picture: "Tensor", cut: dict[str, Any], inside: "Tensor | None", partitioner: str | None, **options: Any) -> "Tensor":
    import torch

    from pixtree.tasks.segment import segment as segment_image

    return torch.as_tensor(segment_image(picture, **cut, mask=inside, partitioner=partitioner, **options))


def _write(output: Path, format: str | None, labels: "Tensor", picture: "Tensor", image: Path) -> None:
    """Write the regions, and say how many there are, where, and in which coordinates."""
    from pixtree.exports import POLYGONS, format_of, write
    from pixtree.exports.georeference import coordinates_of, georeference_of

    reference = georeference_of(image) if format_of(output, format) in POLYGONS else None
    write(output, labels, format=format, image=picture, file_name=image.name, reference=reference)
    count = int(labels.max()) + 1
    typer.echo(f"{count} region{'' if count == 1 else 's'}: {output}")
    if format_of(output, format) in POLYGONS:
        typer.echo(f"coordinates: {coordinates_of(image, reference)}")


def _draw(path: Path, style: str, picture: "Tensor", labels: "Tensor") -> None:
    from pixtree.exports import pictures

    match style:
        case "boundaries":
            drawn = pictures.boundaries(picture, labels)
        case "mean":
            drawn = pictures.mean_colours(picture, labels)
        case _:
            drawn = pictures.random_colours(labels)
    pictures.save_png(path, drawn)
