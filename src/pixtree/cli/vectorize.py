"""`pixtree vectorize`: images as SVG files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pixtree.cli.errors import UsageError, reported
from pixtree.cli.options import PageNumber, WindowRange, parsed_window

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp", ".gif")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("vectorize")(vectorize)


@reported()
def vectorize(
    images: Annotated[list[Path], typer.Argument(help="Images, or folders of images.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="An .svg or .svgz file, or a folder. By default drawings are written beside their images.",
        ),
    ] = None,
    paths: Annotated[int | None, typer.Option(help="Draw at most this many paths; 1000 if no budget is given.")] = None,
    bytes: Annotated[int | None, typer.Option("--bytes", help="Write at most this many bytes of SVG.")] = None,
    psnr: Annotated[float | None, typer.Option(help="Reach this PSNR in decibels with few paths.")] = None,
    points: Annotated[int | None, typer.Option(help="Use at most this many points (nodes and handles) in all paths.")] = None,
    colors: Annotated[int | None, typer.Option(help="Use at most this many colours.")] = None,
    preset: Annotated[str | None, typer.Option(help="One of photo, poster, icon and sketch.")] = None,
    style: Annotated[
        str | None,
        typer.Option(help="One of polyline, smooth, polygon and paper (runs potrace)."),
    ] = None,
    tolerance: Annotated[float | None, typer.Option(help="Smooth curves deviate by at most this many pixels.")] = None,
    artwork: Annotated[
        bool, typer.Option("--artwork", help="Treat blends at edges as anti-aliasing, for logos, text and flat drawings.")
    ] = False,
    fast: Annotated[bool, typer.Option("--fast", help="Faster and rougher: whole pixels, no colour refit.")] = False,
    transparency: Annotated[
        bool | None, typer.Option(help="Keep transparency (the default where there is any), or put the image on white.")
    ] = None,
    groups: Annotated[int | None, typer.Option(help="Nest the paths in this many groups, which follow the tree.")] = None,
    ids: Annotated[bool, typer.Option("--ids", help="Give every path an id.")] = False,
    passes: Annotated[str, typer.Option(help="One of double, single (no <use> elements) and crisp.")] = "double",
    window: WindowRange = None,
    page: PageNumber = None,
    compress: Annotated[bool, typer.Option("--compress", help="Write .svgz instead of .svg by default.")] = False,
) -> None:
    """Turn images into SVG drawings of few shapes, without gaps between them."""
    options: dict[str, Any] = {
        "paths": paths,
        "bytes": bytes,
        "psnr": psnr,
        "points": points,
        "colors": colors,
        "preset": preset,
        "style": style,
    }
    options |= {"tolerance": tolerance, "artwork": artwork or None, "fast": fast, "transparency": transparency}
    options |= {"groups": groups, "ids": ids, "passes": passes, "window": parsed_window(window), "page": page}
    jobs = list(planned(images, output, ".svgz" if compress else ".svg"))

    from pixtree.tasks.vectorize import vectorize as vectorize_image

    for source, target in jobs:
        drawing = vectorize_image(source, **options)
        drawing.save(target)
        typer.echo(f"{drawing.paths} path{'' if drawing.paths == 1 else 's'}, {target.stat().st_size} bytes: {target}")


def planned(images: Sequence[Path], output: Path | None, suffix: str) -> Iterator[tuple[Path, Path]]:
    """Every image and the file it becomes; mistakes are found before any work."""
    from pixtree.files import checked_target

    sources = [source for image in images for source in _inside(image)]
    single = output is not None and output.suffix.lower() in (".svg", ".svgz")
    if single and len(sources) != 1:
        raise UsageError(f"--output names one file, got {len(sources)} images for it; give a folder")
    if output is not None and not single and not output.is_dir():
        raise UsageError(f"--output is an .svg or .svgz file or a folder that exists, got {str(output)!r}; create the folder first")
    targets: list[Path] = []
    for source in sources:
        folder = source.parent if output is None else output
        targets.append(checked_target(output if single and output is not None else folder / f"{source.stem}{suffix}"))
    twice = {str(target) for target in targets if targets.count(target) > 1}
    if twice:
        raise UsageError(f"every image needs an output of its own, got two for {min(twice)!r}; convert them one by one")
    return zip(sources, targets, strict=True)


def _inside(path: Path) -> list[Path]:
    """The image itself, or the images of a folder by name."""
    if not path.is_dir():
        if not path.exists():
            raise FileNotFoundError(f"an image or a folder of images is needed, {str(path)!r} does not exist; check the path")
        return [path]
    found = sorted(item for item in path.iterdir() if item.suffix.lower() in SUFFIXES)
    if not found:
        raise UsageError(f"a folder of images is needed, {str(path)!r} has none ({', '.join(SUFFIXES)}); check the path")
    return found
