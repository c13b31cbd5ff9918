"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from pixtree.cli.errors import UsageError

ImageFile = Annotated[Path, typer.Argument(help="The image, a PNG, JPEG, WebP or TIFF file.", show_default=False)]
ImageFiles = Annotated[
    list[Path],
    typer.Argument(help="Images, folders of images, or patterns such as 'photos/*.jpg' in quotes.", show_default=False),
]
MaskFile = Annotated[Path | None, typer.Option("--mask", help="An image that is black where pixels belong to no region.")]
SimilarityName = Annotated[
    str, typer.Option("--similarity", help="Similarity of regions: likelihood, ward, gaussian, cosine or tanimoto.")
]
Compactness = Annotated[
    float,
    typer.Option(
        "--compactness", help="Weight of pixel coordinates. With 0.1 a distance of one pixel counts as much as one Lab unit."
    ),
]
WindowRange = Annotated[
    str | None,
    typer.Option(
        "--window",
        help="Values that are black and white, such as 0,4095 or -160,240, or auto for robust percentiles.",
        show_default=False,
    ),
]
PageNumber = Annotated[int | None, typer.Option("--page", help="Page of a file that has several, from 0.", show_default=False)]
BackendName = Annotated[str, typer.Option("--backend", help="Implementation of the kernels: auto, torch or numba.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace outputs that exist; otherwise they are kept.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")]


def _raise_limit(pixels: int | None) -> int | None:
    """Let Pillow open images of so many pixels: it warns above its limit, and refuses above twice that."""
    if pixels is not None:
        import PIL.Image

        PIL.Image.MAX_IMAGE_PIXELS = max(pixels, 1)
    return pixels


MaxPixels = Annotated[
    int | None,
    typer.Option(
        "--max-pixels",
        callback=_raise_limit,
        help="Open images of so many pixels; by default larger ones than 179 million are refused, because they may be attacks.",
        show_default=False,
    ),
]


def checked_paths(*paths: Path | None) -> None:
    """Refuse a file that is named twice: an output must replace neither an input nor another output."""
    seen: set[Path] = set()
    for path in paths:
        if path is None:
            continue
        if path.resolve() in seen:
            raise UsageError(f"every input and output is a file of its own, got {path.name!r} twice; give another name")
        seen.add(path.resolve())


def parsed_window(text: str | None) -> tuple[float, float] | str | None:
    """The window of text such as 0,4095 or auto."""
    if text is None or text == "auto":
        return text
    try:
        low, high = (float(word) for word in text.split(","))
    except ValueError:
        raise ValueError(f"--window is auto or two numbers with a comma between, got {text!r}; try --window auto") from None
    return low, high


def parsed_counts(text: str, option: str) -> list[int]:
    """Counts of regions from text such as 50,100,200."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and int(word) > 0 for word in words):
        raise ValueError(f"{option} are whole numbers of at least 1, separated by commas, got {text!r}; try 50,200,1000")
    return [int(word) for word in words]
