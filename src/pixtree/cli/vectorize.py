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
    preset: Annotated[str | None, typer.Option(help="One of photo, poster, icon and sketch; see below.")] = None
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
    chosen = asdict(options) | files.reading
    jobs = planned(images, {"output": (output, ".svgz" if compress else ".svg")})
    run(jobs, lambda job, stage: _drawn(job, chosen, stage), files)


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
