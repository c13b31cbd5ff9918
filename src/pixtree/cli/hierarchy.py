"""`pixtree hierarchy`: draw the tree of an image or save it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    parsed_counts,
    parsed_window,
)

if TYPE_CHECKING:
    from torch import Tensor

    from pixtree.trees.hierarchy import Hierarchy
    from pixtree.trees.partition import Partition

STACK_COUNTS = (300, 80, 20, 5)
MOST_PLANES = 5
MOST_REGIONS = 2_000  # in a level that is drawn: more would be a blur


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("hierarchy")(hierarchy)


@reported()
def hierarchy(
    image: ImageFile,
    output: Annotated[
        list[Path] | None,
        typer.Option("--output", "-o", help="Draw a stack of cuts to a .png file, or save the tree as .npz. May be repeated."),
    ] = None,
    counts: Annotated[
        str | None, typer.Option(help="Numbers of regions of the cuts in the stack, separated by commas, such as 1000,200,50,10.")
    ] = None,
    levels: Annotated[
        bool, typer.Option("--levels", help="Stack the levels of the tree (its rounds of merging) instead of cuts.")
    ] = False,
    contours: Annotated[
        Path | None,
        typer.Option(help="Draw the contours to this .png file. A contour is the darker the fewer regions it needs to appear."),
    ] = None,
    mask: MaskFile = None,
    window: WindowRange = None,
    page: PageNumber = None,
    similarity: SimilarityName = "likelihood",
    compactness: Compactness = 0.0,
    backend: BackendName = "auto",
) -> None:
    """Build the tree of an image, and draw or save it."""
    if counts is not None and levels:
        raise UsageError("a stack shows --counts or --levels, got both; give one of them")
    wanted = parsed_counts(counts, "--counts") if counts is not None else None
    shown, outputs = parsed_window(window), list(output or [])
    checked_paths(image, mask, contours, *outputs)
    _check_outputs(outputs, contours)

    from pixtree.images import checked_inside
    from pixtree.tasks.segment import hierarchy as build

    picture, inside = checked_inside(image, mask, window=shown, page=page)
    tree = build(picture, mask=inside, similarity=similarity, compactness=compactness, backend=backend)
    for path in outputs:
        if path.suffix.lower() == ".npz":
            tree.save(path)
            typer.echo(f"tree of {tree.leaves} pixels, {tree.levels} levels: {path}")
        else:
            planes = shown_levels(tree) if levels else shown_cuts(tree, wanted)
            _draw_stack(path, picture, planes)
    if contours is not None:
        _draw_contours(contours, tree)


def shown_cuts(tree: "Hierarchy", counts: list[int] | None) -> list["Partition"]:
    """The nested cuts to draw; without counts those of STACK_COUNTS, as far as the image and its mask allow them."""
    wanted = counts or [min(max(count, tree.pieces), tree.leaves) for count in STACK_COUNTS]
    return [tree.cut(tokens=count) for count in dict.fromkeys(wanted)]


def shown_levels(tree: "Hierarchy") -> list["Partition"]:
    """The coarsest levels of the tree except its last, at most MOST_PLANES; of a tiny tree the last."""
    found: list[Partition] = []
    for level in range(tree.levels - 1, 0, -1):
        partition = tree.at_level(level)
        if len(found) == MOST_PLANES or int(partition.counts[0]) > MOST_REGIONS:
            break
        found.append(partition)
    return found or [tree.at_level(tree.levels)]


def _check_outputs(outputs: list[Path], contours: Path | None) -> None:
    """Refuse outputs that cannot be written, before any work."""
    from pixtree.exports.pictures import checked_png
    from pixtree.files import checked_target

    if not outputs and contours is None:
        raise UsageError("a tree goes to --output or --contours, got neither; give one of them")
    for path in outputs:
        if path.suffix.lower() not in (".png", ".npz"):
            raise ValueError(f"a tree is written as .png (a picture) or .npz, got {str(path)!r}; change its suffix")
        checked_target(path)
    if contours is not None:
        checked_target(checked_png(contours))


def _draw_stack(path: Path, picture: "Tensor", planes: list["Partition"]) -> None:
    from pixtree.exports.levels import level_stack
    from pixtree.exports.pictures import save_png

    save_png(path, level_stack(picture, planes))
    counts = ", ".join(str(int(plane.counts[0])) for plane in planes)
    typer.echo(f"stack of levels with {counts} regions: {path}")


def _draw_contours(path: Path, tree: "Hierarchy") -> None:
    from pixtree.exports.pictures import contour_map, save_png

    save_png(path, contour_map(tree.contours()))
    typer.echo(f"contours: {path}")
