"""`pixtree select`, `snap` and `salient`: masks of objects, from marks, from rough masks, or found by a Vision Transformer."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pixtree.cli.errors import UsageError, reported
from pixtree.cli.options import (
    AffinityName,
    ImageFile,
    ImageSize,
    ModelName,
    RegionCount,
    SideRule,
    WeightsFile,
    check_pngs,
    checked_paths,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

MARK = (
    "A mark is a point row,column, a box top,left,bottom,right, or an image that is not black where marks are. Repeat it for more."
)
Overlay = Annotated[Path | None, typer.Option(help="Also draw the outline over the image and write the picture to this .png file.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("select")(select)
    app.command("snap")(snap)
    app.command("salient")(salient)


@reported()
def select(
    image: ImageFile,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Write the object to this file: .png for a mask, white inside; .tif, .npz, .geojson or .coco.json as in segment.",
            show_default=False,
        ),
    ],
    inside: Annotated[list[str], typer.Option(help=f"A mark in the object; a box bounds it. {MARK}", show_default=False)],
    outside: Annotated[list[str] | None, typer.Option(help=f"A mark outside the object. {MARK}", show_default=False)] = None,
    overlay: Overlay = None,
) -> None:
    """Select the object that a few marks indicate, and write its mask."""
    checked_paths(image, output, overlay, *(Path(text) for text in [*inside, *(outside or [])] if not _is_numbers(text)))
    from pixtree.exports import format_of, write
    from pixtree.files import checked_target

    format_of(output)
    checked_target(output)
    check_pngs(overlay)

    import numpy as np

    from pixtree.images import checked
    from pixtree.tasks.select import select as select_object

    pixels = checked(image)
    shape = (int(pixels.shape[1]), int(pixels.shape[2]))
    mask = select_object(pixels, _marks(inside, shape, "--inside"), _marks(outside or [], shape, "--outside"))
    if output.suffix.lower() == ".png":
        _write_mask(output, mask.astype(np.uint8) * 255)
    else:
        write(output, np.where(mask, 0, -1), image=pixels, file_name=image.name)
    typer.echo(f"{int(mask.sum())} of {mask.size} pixels: {output}")
    _draw_outline(overlay, pixels, mask)


@reported()
def snap(
    mask: Annotated[
        Path,
        typer.Argument(
            help="The rough mask: a grey or palette image whose values are 0 and others, or labels.", show_default=False
        ),
    ],
    image: ImageFile,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Write the sharp mask to this .png file, with the same values.", show_default=False),
    ],
    soft: Annotated[
        bool, typer.Option("--soft", help="Grey values are probabilities, white 1; the result is black and white.")
    ] = False,
) -> None:
    """Sharpen a rough mask or label map along the contours of an image."""
    checked_paths(mask, image, output)
    check_pngs(output)

    import numpy as np

    from pixtree.images import checked
    from pixtree.tasks.snap import snap as snap_mask

    values, palette = _values(mask)
    if soft and values.dtype == np.uint16:
        sharp = snap_mask(values.astype(np.float32) / 65535, checked(image))
    else:
        sharp = snap_mask(values.astype(np.float32) / 255 if soft else values, checked(image))
    sharp = np.asarray(sharp)
    _write_mask(output, sharp.astype(np.uint8) * 255 if sharp.dtype == np.bool_ else sharp, None if soft else palette)
    typer.echo(f"{float((sharp != (values > 0 if soft else values)).mean()):.1%} of the pixels changed: {output}")


@reported()
def salient(
    image: ImageFile,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Write the mask to this .png file: white inside, or the number of each object.",
            show_default=False,
        ),
    ],
    model: ModelName = "deit_tiny_patch16_224",
    weights: WeightsFile = None,
    tokens: RegionCount = 0,
    side: SideRule = "border",
    refine: Annotated[str, typer.Option(help="How the outline is sharpened: snap, bilateral or none.")] = "snap",
    objects: Annotated[int, typer.Option(min=1, max=254, help="Number of objects to find, one after the other.")] = 1,
    size: ImageSize = 448,
    affinity: AffinityName = None,
    overlay: Overlay = None,
) -> None:
    """Find the object of a photo that stands out to a model, without training, and write its mask."""
    checked_paths(image, output, overlay, weights)
    check_pngs(output, overlay)
    if refine not in ("snap", "bilateral", "none"):
        raise UsageError(f"--refine is snap, bilateral or none, got {refine!r}; choose one of these")

    import numpy as np

    from pixtree.evaluation.variants import model_of
    from pixtree.exports import save_png
    from pixtree.images import checked
    from pixtree.tasks.salient import salient as salient_object

    pixels = checked(image)
    mask = salient_object(
        pixels,
        model_of(model, weights),
        tokens=tokens or None,
        side=side,
        refine=None if refine == "none" else refine,
        objects=objects,
        size=size,
        affinity=affinity,
    )
    save_png(output, mask.astype(np.uint8) * (255 if objects == 1 else 1))
    found = int(mask.max())
    typer.echo(f"{found} object{'' if found == 1 else 's'}, {int((mask > 0).sum())} of {mask.size} pixels: {output}")
    _draw_outline(overlay, pixels, mask)


def _draw_outline(path: Path | None, image: "Tensor", mask: "NDArray[Any]") -> None:
    """Draw the outlines of objects over the image, if a file is given for them."""
    if path is None:
        return
    import numpy as np

    from pixtree.exports import boundaries, save_png

    save_png(path, boundaries(image, mask.astype(np.int32)))
    typer.echo(f"outline: {path}")


def _is_numbers(text: str) -> bool:
    return all(_number(word) is not None for word in text.split(","))


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _marks(texts: list[str], shape: tuple[int, int], option: str) -> Any:
    """Points and boxes as numbers, or, if an image is among them, all marks as one scribble."""
    numbers = [[float(word) for word in text.split(",")] for text in texts if _is_numbers(text)]
    wrong = next((row for row in numbers if len(row) not in (2, 4)), None)
    if wrong is not None:
        raise UsageError(f"{option} is row,column or top,left,bottom,right, got {len(wrong)} numbers; try {option} 120,80")
    files = [Path(text) for text in texts if not _is_numbers(text)]
    if not files:
        return numbers
    if any(len(row) == 4 for row in numbers):
        raise UsageError(f"{option} takes boxes or images of marks, got both; draw the box into the image")
    return _scribble(files, numbers, shape)


def _scribble(files: list[Path], points: list[list[float]], shape: tuple[int, int]) -> "NDArray[np.bool_]":
    import numpy as np

    from pixtree.images import checked_mask
    from pixtree.tasks.marks import outside_marks

    marked = outside_marks(points, shape)
    for path in files:
        drawn = checked_mask(path, shape)
        marked |= np.zeros(shape, bool) if drawn is None else drawn.numpy()
    return marked


def _values(path: Path) -> "tuple[NDArray[Any], list[int] | None]":
    """The values (H, W) of a mask's file as they are stored, and its palette."""
    import numpy as np
    import PIL.Image

    if not path.is_file():
        raise FileNotFoundError(f"expected the image of a mask, but '{path}' does not exist; check the path")
    try:
        with PIL.Image.open(path) as pixels:
            pixels.load()
            palette = pixels.getpalette() if pixels.mode == "P" else None
            values, mode = np.asarray(pixels), pixels.mode
    except (OSError, SyntaxError) as fault:
        raise ValueError(f"a mask is a readable image, got '{path}' ({fault}); save it as PNG") from fault
    if values.ndim != 2 or values.dtype.kind not in "biu":
        raise ValueError(f"a mask is a grey or palette image of one channel, got mode {mode} in '{path}'; save it as grey PNG")
    if values.dtype.itemsize > 2:  # Pillow holds 16-bit grey in 32 bits at times
        if values.min() < 0 or values.max() > 65535:
            raise ValueError(f"a mask has values from 0 to 65535, got {values.min()} to {values.max()} in '{path}'; renumber it")
        values = values.astype(np.uint16)
    return values, palette


def _write_mask(path: Path, values: "NDArray[Any]", palette: list[int] | None = None) -> None:
    """Write values (H, W), 8 or 16 bit, as PNG; the file appears whole or not at all."""
    import PIL.Image

    from pixtree.files import replacing

    pixels = PIL.Image.fromarray(values)
    if palette is not None:
        pixels.putpalette(palette)
    with replacing(path) as temporary:
        pixels.save(temporary, "PNG")
