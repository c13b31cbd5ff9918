"""`pixtree segment`: write the regions of images to files."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pixtree.cli.errors import UsageError, reported
from pixtree.cli.jobs import Done, Job, planned, run
from pixtree.cli.options import Files, Growing, ImageFiles, Relax, WithRelax, grouped, parsed_relax, parsed_window, with_examples

if TYPE_CHECKING:
    from torch import Tensor

DEFAULT_TOKENS = 200
OVERLAYS = ("boundaries", "mean", "random")
EXAMPLES = (
    "pixtree segment photo.jpg -o labels.png --tokens 200 --overlay seen.png",
    "pixtree segment scene.tif -o fields.gpkg --criterion aicc --window auto",
    "pixtree segment 'photos/*.jpg' -o labels --format npz",
    "pixtree segment slide.tif -o labels.tif --tokens 20000 --tiles 1024",
)
Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        help="Write the regions to this file: .png, .tif or .npz for a label map, .geojson, .gpkg, .shp or .coco.json. "
        "Or to this folder, for several images.",
        show_default=False,
    ),
]
Tokens = Annotated[
    int | None,
    typer.Option(help=f"Cut into exactly this many regions (default {DEFAULT_TOKENS}, or one per pixel of a smaller image)."),
]
CriterionName = Annotated[str | None, typer.Option(help="Let a criterion choose the number of regions: aic, aicc, bic or cic.")]
AtMostCount = Annotated[
    int | None, typer.Option(help="Let the criterion (aicc by default) choose, but use at most this many regions.")
]
LevelNumber = Annotated[int | None, typer.Option(help="Use this level of the tree; level 0 has one region per pixel.")]
PartitionerName = Annotated[
    str | None, typer.Option(help="Use another method, such as grid, quadtree or slic. It takes --tokens only.")
]
Format = Annotated[
    str | None,
    typer.Option(
        help="Format of the output: png, tiff, npz, geojson, gpkg, shp or coco. By default the suffix decides, and png in a folder."
    ),
]
Overlay = Annotated[
    Path | None, typer.Option(help="Also draw the regions over the image and write the picture to this .png file or folder.")
]
OverlayStyle = Annotated[str, typer.Option(help="Content of the overlay: boundaries, mean (colours) or random (colours).")]


Tiles = Annotated[
    int | None,
    typer.Option(
        help="Cut an image that does not fit into memory in tiles of this side, such as 1024: from a TIFF or .npy file to a .tif "
        "or .npy file, without seams. Only --tokens and --window go with it.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class Cut:
    """Which cut of the tree."""

    tokens: Tokens = None
    criterion: CriterionName = None
    at_most: AtMostCount = None
    level: LevelNumber = None


class Task(NamedTuple):
    """What is done to every image."""

    cut: dict[str, Any]  # empty for the default
    options: dict[str, Any]
    growing: Growing
    files: Files
    format: str
    style: str


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("segment", cls=WithRelax, epilog=with_examples(EXAMPLES))(segment)


@reported()
@grouped
def segment(
    images: ImageFiles,
    output: Output,
    cut: Cut,
    growing: Growing,
    files: Files,
    relax: Relax = None,
    partitioner: PartitionerName = None,
    format: Format = None,
    overlay: Overlay = None,
    overlay_style: OverlayStyle = "boundaries",
    tiles: Tiles = None,
) -> None:
    """Cut images into connected regions and write them to files."""
    if tiles is not None:
        others = (relax, files.page, partitioner, format, overlay)
        if growing != Growing() or cut != Cut(cut.tokens) or others != (None, None, None, None, None):
            raise UsageError("--tiles goes with --tokens and --window alone, got another option as well; leave it out")
        count, window = cut.tokens or DEFAULT_TOKENS, parsed_window(files.window)
        jobs = planned(images, {"output": (output, ".labels.tif")})
        run(jobs, lambda job, stage: _tiled(job, count, tiles, window, stage), files)
        return
    task = Task(
        checked_cut({name: value for name, value in asdict(cut).items() if value is not None}),
        growing.tree | {"relax": parsed_relax(relax), "partitioner": partitioner},
        growing,
        files,
        _checked_format(output, format),
        _checked_style(overlay_style, overlay),
    )
    outputs = {"output": (output, _ending(task.format)), "overlay": (overlay, ".overlay.png")}
    run(planned(images, outputs, growing.mask), lambda job, stage: _segmented(job, task, stage), files)


def _segmented(job: Job, task: Task, stage: Callable[[str], None]) -> Done:
    """One image: read, cut, written."""
    import torch

    from pixtree.exports import check_room
    from pixtree.images import checked_inside
    from pixtree.tasks.segment import segment as segment_image

    stage("reading")
    image, inside = checked_inside(job.source, task.growing.mask, **task.files.reading)
    pixels = int(inside.sum()) if inside is not None else image.shape[1] * image.shape[2]
    cut = task.cut or {"tokens": min(DEFAULT_TOKENS, pixels)}
    known = pixels if cut.get("level") == 0 else min(cut.get("tokens", 1), pixels)
    masked = inside is not None and not bool(inside.all())
    check_room(job.targets["output"], known, format=task.format, masked=masked)  # before any work; a criterion knows later
    stage("cutting")
    labels = torch.as_tensor(segment_image(image, **cut, mask=inside, **task.options))
    stage("writing")
    done = _written(job, task.format, labels, image)
    if "overlay" in job.targets:
        _draw(job.targets["overlay"], task.style, image, labels)
        done.lines.append(f"{task.style} overlay: {job.targets['overlay']}")
        done.facts["overlay"] = str(job.targets["overlay"])
    return done


def _tiled(job: Job, tokens: int, tile: int, window: Any, stage: Callable[[str], None]) -> Done:
    """One image, tile by tile."""
    from pixtree.tasks.segment_tiles import segment_tiles

    output = job.targets["output"]
    segment_tiles(job.source, output, tokens, tile=tile, window=window, tell=lambda done, tiles: stage(f"tile {done} of {tiles}"))
    return Done([f"{tokens} region{'' if tokens == 1 else 's'}: {output}"], {"output": str(output), "regions": tokens})


def checked_cut(given: dict[str, Any]) -> dict[str, Any]:
    """The options of the one cut that is asked for, if any; --criterion may name the criterion that --at-most limits."""
    if len(given) > 1 and given.keys() != {"criterion", "at_most"}:
        names = " and ".join(f"--{name.replace('_', '-')}" for name in given)
        raise UsageError(f"a cut is one of --tokens, --criterion, --at-most and --level, got {names}; give one of them")
    return given


def _checked_format(output: Path, format: str | None) -> str:
    from pixtree.exports import format_of

    return format_of(output, format or ("png" if output.is_dir() else None))


def _ending(format: str) -> str:
    from pixtree.exports import SUFFIXES

    return next(suffix for suffix, name in SUFFIXES.items() if name == format)


def _checked_style(style: str, overlay: Path | None) -> str:
    from pixtree.exports.pictures import checked_png

    if style not in OVERLAYS:
        raise ValueError(f"an overlay's style is one of {', '.join(OVERLAYS)}, got {style!r}; choose one of them")
    if overlay is not None and not overlay.is_dir():
        checked_png(overlay)
    return style


def _written(job: Job, format: str, labels: "Tensor", image: "Tensor") -> Done:
    """Write the regions, and report their number, file and coordinates."""
    from pixtree.exports import POLYGONS, write
    from pixtree.exports.georeference import coordinates_of, georeference_of

    output = job.targets["output"]
    reference = georeference_of(job.source) if format in POLYGONS else None
    write(output, labels, format=format, image=image, file_name=job.source.name, reference=reference)
    count = int(labels.max()) + 1
    done = Done([f"{count} region{'' if count == 1 else 's'}: {output}"], {"output": str(output), "regions": count})
    if format in POLYGONS:
        done.lines.append(f"coordinates: {coordinates_of(job.source, reference)}")
        done.facts["coordinates"] = coordinates_of(job.source, reference)
    return done


def _draw(path: Path, style: str, image: "Tensor", labels: "Tensor") -> None:
    from pixtree.exports import boundaries, mean_colours, random_colours, save_png

    match style:
        case "boundaries":
            drawn = boundaries(image, labels)
        case "mean":
            drawn = mean_colours(image, labels)
        case _:
            drawn = random_colours(labels)
    save_png(path, drawn)
