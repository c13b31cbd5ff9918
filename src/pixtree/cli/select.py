"""`pixtree select` and `pixtree snap`: masks of objects, by pointing at them or from rough masks."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pixtree.cli.errors import UsageError, reported
from pixtree.cli.options import ImageFile, checked_paths

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MARK = (
    "A mark is a point row,column, a box top,left,bottom,right, or a picture that is not black where marks are. Repeat it for more."
)


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("select")(select)
    app.command("snap")(snap)


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
    overlay: Annotated[
        Path | None, typer.Option(help="Also draw the object's outline over the image and write the picture to this .png file.")
    ] = None,
) -> None:
    """Select the object that a few marks mean, and write its mask."""
    checked_paths(image, output, overlay, *(Path(text) for text in [*inside, *(outside or [])] if not _is_numbers(text)))
    _check_outputs(output, overlay)

    import numpy as np

    from pixtree.exports import write
    from pixtree.exports.pictures import boundaries, save_png
    from pixtree.images import checked
    from pixtree.tasks.select import select as select_object

    picture = checked(image)
    shape = (int(picture.shape[1]), int(picture.shape[2]))
    mask = select_object(picture, _marks(inside, shape, "--inside"), _marks(outside or [], shape, "--outside"))
    if output.suffix.lower() == ".png":
        _write_mask(output, mask.astype(np.uint8) * 255)
    else:
        write(output, np.where(mask, 0, -1), image=picture, file_name=image.name)
    typer.echo(f"{int(mask.sum())} of {mask.size} pixels: {output}")
    if overlay is not None:
        save_png(overlay, boundaries(picture, mask.astype(np.int32)))
        typer.echo(f"outline: {overlay}")


@reported()
def snap(
    mask: Annotated[
        Path,
        typer.Argument(
            help="The rough mask: a grey or palette picture whose values are 0 and others, or labels.", show_default=False
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
    """Make a rough mask or label map sharp on the contours of an image."""
    checked_paths(mask, image, output)
    _check_png(output)

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


def _check_outputs(output: Path, overlay: Path | None) -> None:
    """Refuse outputs that cannot be written, before any work."""
    from pixtree.exports import format_of
    from pixtree.files import checked_target

    format_of(output, None)
    checked_target(output)
    if overlay is not None:
        _check_png(overlay)


def _check_png(path: Path) -> None:
    from pixtree.exports.pictures import checked_png
    from pixtree.files import checked_target

    checked_target(checked_png(path))


def _is_numbers(text: str) -> bool:
    return all(_number(word) is not None for word in text.split(","))


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _marks(texts: list[str], shape: tuple[int, int], option: str) -> Any:
    """Points and boxes as numbers, or, if a picture is among them, all marks as one scribble."""
    numbers = [[float(word) for word in text.split(",")] for text in texts if _is_numbers(text)]
    wrong = next((row for row in numbers if len(row) not in (2, 4)), None)
    if wrong is not None:
        raise UsageError(f"{option} is row,column or top,left,bottom,right, got {len(wrong)} numbers; try {option} 120,80")
    files = [Path(text) for text in texts if not _is_numbers(text)]
    if not files:
        return numbers
    if any(len(row) == 4 for row in numbers):
        raise UsageError(f"{option} takes boxes or pictures of marks, got both; draw the box into the picture")
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
        raise FileNotFoundError(f"a mask is a picture, but '{path}' does not exist; check the path")
    try:
        with PIL.Image.open(path) as picture:
            picture.load()
            palette = picture.getpalette() if picture.mode == "P" else None
            values, mode = np.asarray(picture), picture.mode
    except (OSError, SyntaxError) as fault:
        raise ValueError(f"a mask is a readable picture, got '{path}' ({fault}); save it as PNG") from fault
    if values.ndim != 2 or values.dtype.kind not in "biu":
        raise ValueError(f"a mask is a grey or palette picture of one channel, got mode {mode} in '{path}'; save it as grey PNG")
    if values.dtype.itemsize > 2:  # Pillow holds 16-bit grey in 32 bits at times
        if values.min() < 0 or values.max() > 65535:
            raise ValueError(f"a mask has values from 0 to 65535, got {values.min()} to {values.max()} in '{path}'; renumber it")
        values = values.astype(np.uint16)
    return values, palette


def _write_mask(path: Path, values: "NDArray[Any]", palette: list[int] | None = None) -> None:
    """Write values (H, W), 8 or 16 bit, as PNG; the file appears whole or not at all."""
    import PIL.Image

    from pixtree.files import replacing

    picture = PIL.Image.fromarray(values)
    if palette is not None:
        picture.putpalette(palette)
    with replacing(path) as temporary:
        picture.save(temporary, "PNG")
