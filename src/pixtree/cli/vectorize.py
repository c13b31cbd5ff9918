"""`pixtree vectorize`: images as SVG files."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from pixtree.cli.errors import UsageError, reported
from pixtree.cli.jobs import Done, Job, planned, run
from pixtree.cli.options import Files, ImageFiles, grouped, with_examples
from pixtree.vector.presets import ABOUT

EXAMPLES = (
    "pixtree vectorize photo.jpg",
    "pixtree vectorize logo.png -o logo.svg --preset icon",
    "pixtree vectorize 'photos/*.jpg' -o drawings --bytes 50000",
    "pixtree vectorize photo.jpg --editable --layer hat=hat.png",
)
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="An .svg or .svgz file, or a folder. By default drawings are next to their images."),
]
Compress = Annotated[bool, typer.Option("--compress", help="Write .svgz instead of .svg by default.")]


@dataclass(frozen=True)
class Options:
    """The options of the function `vectorize`."""

    paths: Annotated[int | None, typer.Option(help="Draw at most this many paths; 1000 if no budget is given.")] = None
    bytes: Annotated[int | None, typer.Option(help="Write at most this many bytes of SVG.")] = None
    psnr: Annotated[float | None, typer.Option(help="Reach this PSNR in decibels with few paths.")] = None
    points: Annotated[int | None, typer.Option(help="Use at most this many points (nodes and handles) in all paths.")] = None
    colors: Annotated[int | None, typer.Option(help="Use at most this many colours.")] = None
    preset: Annotated[str | None, typer.Option(help="One of photo, poster, icon, lineart and sketch; see below.")] = None
    style: Annotated[str | None, typer.Option(help="One of polyline, smooth, polygon and paper (runs potrace).")] = None
    tolerance: Annotated[float | None, typer.Option(help="Smooth curves deviate by at most this many pixels.")] = None
    artwork: Annotated[
        bool | None,
        typer.Option("--artwork/--photograph", help="Trace as flat artwork or as a photograph; by default detected."),
    ] = None
    fast: Annotated[bool, typer.Option("--fast", help="Faster and rougher: whole pixels, no colour refit.")] = False
    transparency: Annotated[
        bool | None, typer.Option(help="Keep transparency (the default where there is any), or put the image on white.")
    ] = None
    groups: Annotated[int | None, typer.Option(help="Nest the paths in this many groups, which follow the tree.")] = None
    ids: Annotated[bool, typer.Option("--ids", help="Give every path an id.")] = False
    passes: Annotated[
        str | None, typer.Option(help="One of double (photographs), single (artwork; no <use> elements) and crisp.")
    ] = None
    editable: Annotated[
        bool, typer.Option("--editable", help="For editors: plain paths with ids, in groups within groups that follow the tree.")
    ] = False
    layers: Annotated[
        list[str] | None,
        typer.Option("--layer", help="NAME=MASK: the shapes inside a mask become a layer of that name; repeatable."),
    ] = None


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    presets = ["Presets:", *(f"{name}: {about}" for name, about in ABOUT.items())]
    app.command("vectorize", epilog=with_examples(EXAMPLES, *presets))(vectorize)


@reported()
@grouped
def vectorize(images: ImageFiles, options: Options, files: Files, output: Output = None, compress: Compress = False) -> None:
    """Turn images into SVG drawings of few shapes, without gaps between them."""
    if output is not None and not output.is_dir() and output.suffix.lower() not in (".svg", ".svgz"):
        raise UsageError(f"--output is an .svg or .svgz file or a folder that exists, got {str(output)!r}; create the folder first")
    layers = _layers(options.layers or [])
    jobs = planned(images, {"output": (output, ".svgz" if compress else ".svg")}, *layers.values())
    if layers and len(jobs) > 1:
        raise UsageError(f"--layer has a mask of one image, got {len(jobs)} images; draw them one by one")
    chosen = asdict(options) | files.reading | {"layers": layers or None}
    run(jobs, lambda job, stage: _drawn(job, chosen, stage), files)


def _layers(words: list[str]) -> dict[str, Path]:
    """The files of masks by the names of their layers, from NAME=MASK."""
    pairs = [word.partition("=") for word in words]
    if wrong := [word for word, (name, _, mask) in zip(words, pairs, strict=True) if not (name and mask)]:
        raise UsageError(f"--layer is a name and the file of a mask, NAME=MASK, got {wrong[0]!r}; try --layer hat=hat.png")
    if len({name for name, _, _ in pairs}) < len(pairs):
        raise UsageError(f"every --layer needs a name of its own, got {', '.join(words)}; rename one")
    return {name: Path(mask) for name, _, mask in pairs}


def _drawn(job: Job, options: dict[str, Any], stage: Callable[[str], None]) -> Done:
    """One image: drawn and written."""
    from pixtree.tasks.vectorize import vectorize as vectorize_image

    stage("drawing")
    target = job.targets["output"]
    drawing = vectorize_image(job.source, **options)
    stage("writing")
    drawing.save(target)
    size = target.stat().st_size
    artwork = bool(getattr(drawing, "artwork", False))
    kind = "artwork" if artwork else "a photograph"
    line = f"{drawing.paths} path{'' if drawing.paths == 1 else 's'}, {size} bytes, traced as {kind}: {target}"
    return Done([line], {"output": str(target), "paths": drawing.paths, "bytes": size, "artwork": artwork})
