"""`pixtree vectorize`: images as SVG files."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from pixtree.cli.errors import UsageError, reported
from pixtree.cli.examples import with_examples
from pixtree.cli.jobs import Done, Job, planned, run
from pixtree.cli.options import AsJson, ImageFiles, MaxPixels, Overwrite, PageNumber, WindowRange, parsed_window
from pixtree.vector.presets import ABOUT

EXAMPLES = (
    "pixtree vectorize photo.jpg",
    "pixtree vectorize logo.png -o logo.svg --preset icon",
    "pixtree vectorize 'photos/*.jpg' -o drawings --bytes 50000",
)
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="An .svg or .svgz file, or a folder. By default drawings are written beside their images."),
]
Paths = Annotated[int | None, typer.Option(help="Draw at most this many paths; 1000 if no budget is given.")]
Bytes = Annotated[int | None, typer.Option("--bytes", help="Write at most this many bytes of SVG.")]
Decibels = Annotated[float | None, typer.Option(help="Reach this PSNR in decibels with few paths.")]
Points = Annotated[int | None, typer.Option(help="Use at most this many points (nodes and handles) in all paths.")]
Colors = Annotated[int | None, typer.Option(help="Use at most this many colours.")]
Preset = Annotated[str | None, typer.Option(help="One of photo, poster, icon and sketch; see below.")]
Style = Annotated[str | None, typer.Option(help="One of polyline, smooth, polygon and paper (runs potrace).")]
Tolerance = Annotated[float | None, typer.Option(help="Smooth curves deviate by at most this many pixels.")]
Artwork = Annotated[
    bool | None,
    typer.Option("--artwork/--photograph", help="Trace as flat artwork or as a photograph; by default what the image looks like."),
]
Fast = Annotated[bool, typer.Option("--fast", help="Faster and rougher: whole pixels, no colour refit.")]
Transparency = Annotated[
    bool | None, typer.Option(help="Keep transparency (the default where there is any), or put the image on white.")
]
Groups = Annotated[int | None, typer.Option(help="Nest the paths in this many groups, which follow the tree.")]
Ids = Annotated[bool, typer.Option("--ids", help="Give every path an id.")]
Passes = Annotated[str | None, typer.Option(help="One of double (photographs), single (artwork; no <use> elements) and crisp.")]
Compress = Annotated[bool, typer.Option("--compress", help="Write .svgz instead of .svg by default.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    presets = ["Presets:", *(f"{name}: {about}" for name, about in ABOUT.items())]
    app.command("vectorize", epilog=with_examples(EXAMPLES, *presets))(vectorize)


@reported()
def vectorize(
    images: ImageFiles,
    output: Output = None,
    paths: Paths = None,
    bytes: Bytes = None,
    psnr: Decibels = None,
    points: Points = None,
    colors: Colors = None,
    preset: Preset = None,
    style: Style = None,
    tolerance: Tolerance = None,
    artwork: Artwork = None,
    fast: Fast = False,
    transparency: Transparency = None,
    groups: Groups = None,
    ids: Ids = False,
    passes: Passes = None,
    window: WindowRange = None,
    page: PageNumber = None,
    compress: Compress = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    max_pixels: MaxPixels = None,
) -> None:
    """Turn images into SVG drawings of few shapes, without gaps between them."""
    options: dict[str, Any] = {"paths": paths, "bytes": bytes, "psnr": psnr, "points": points, "colors": colors}
    options |= {"preset": preset, "style": style, "tolerance": tolerance, "artwork": artwork, "fast": fast}
    options |= {"transparency": transparency, "groups": groups, "ids": ids, "passes": passes}
    options |= {"window": parsed_window(window), "page": page}
    if output is not None and not output.is_dir() and output.suffix.lower() not in (".svg", ".svgz"):
        raise UsageError(f"--output is an .svg or .svgz file or a folder that exists, got {str(output)!r}; create the folder first")
    jobs = planned(images, {"output": (output, ".svgz" if compress else ".svg")})
    run(jobs, lambda job, stage: _drawn(job, options, stage), overwrite=overwrite, as_json=as_json)


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
