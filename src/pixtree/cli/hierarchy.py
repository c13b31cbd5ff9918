"""`pixtree hierarchy`: draw the trees of images or save them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pixtree.cli.errors import UsageError, reported
from pixtree.cli.jobs import Done, Job, planned, run
from pixtree.cli.options import Files, Growing, ImageFiles, grouped, parsed_counts, with_examples

if TYPE_CHECKING:
    from torch import Tensor

    from pixtree.trees.hierarchy import Hierarchy
    from pixtree.trees.partition import Partition

STACK_COUNTS = (300, 80, 20, 5)
MOST_PLANES = 5
MOST_REGIONS = 2_000  # in a level that is drawn: more would be a blur
EXAMPLES = (
    "pixtree hierarchy photo.jpg -o levels.png --counts 1000,200,50,10",
    "pixtree hierarchy photo.jpg -o tree.npz --contours contours.png",
    "pixtree hierarchy photos -o trees --format npz",
)
Outputs = Annotated[
    list[Path] | None,
    typer.Option(
        "--output",
        "-o",
        help="Draw a stack of cuts to a .png file, or save the tree as .npz; may be repeated. Or a folder, for several images.",
    ),
]
Format = Annotated[str | None, typer.Option(help="Format of outputs in a folder: png (default) or npz.")]
Counts = Annotated[
    str | None, typer.Option(help="Numbers of regions of the cuts in the stack, separated by commas, such as 1000,200,50,10.")
]
Levels = Annotated[bool, typer.Option("--levels", help="Stack the levels of the tree (its rounds of merging) instead of cuts.")]
ContourFile = Annotated[
    Path | None,
    typer.Option(help="Draw the contours to this .png file or folder. Darker contours appear at coarser cuts."),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("hierarchy", epilog=with_examples(EXAMPLES))(hierarchy)


@reported()
@grouped
def hierarchy(
    images: ImageFiles,
    growing: Growing,
    files: Files,
    output: Outputs = None,
    format: Format = None,
    counts: Counts = None,
    levels: Levels = False,
    contours: ContourFile = None,
) -> None:
    """Build the trees of images, and draw or save them."""
    if counts is not None and levels:
        raise UsageError("a stack shows --counts or --levels, got both; give one of them")
    chosen = parsed_counts(counts, "--counts") if counts is not None else None
    outputs: dict[str, tuple[Path | None, str]] = {
        name: (path, f".{_folder_format(format)}") for name, path in _checked_outputs(list(output or []), contours).items()
    }
    outputs["contours"] = (contours, ".contours.png")

    def planes(tree: "Hierarchy") -> list["Partition"]:
        return shown_levels(tree) if levels else shown_cuts(tree, chosen)

    run(planned(images, outputs, growing.mask), lambda job, stage: _grown(job, growing, files, planes, stage), files)


def _grown(
    job: Job, growing: Growing, files: Files, planes: Callable[["Hierarchy"], list["Partition"]], stage: Callable[[str], None]
) -> Done:
    """One image: read, its tree grown, drawn and saved."""
    from pixtree.images import checked_inside
    from pixtree.tasks.segment import hierarchy as build

    stage("reading")
    image, inside = checked_inside(job.source, growing.mask, **files.reading)
    stage("growing the tree")
    tree = build(image, mask=inside, **growing.tree)
    done = Done([], {"pixels": tree.leaves, "levels": tree.levels, "outputs": [str(path) for path in job.targets.values()]})
    stage("writing")
    for option, path in job.targets.items():
        if option == "contours":
            done.lines.append(_draw_contours(path, tree))
        elif path.suffix.lower() == ".npz":
            tree.save(path)
            done.lines.append(f"tree of {tree.leaves} pixels, {tree.levels} levels: {path}")
        else:
            done.lines.append(_draw_stack(path, image, planes(tree)))
    return done


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


def _folder_format(format: str | None) -> str:
    if format not in (None, "png", "npz"):
        raise ValueError(f"a tree is written as png (a picture) or npz, got {format!r}; choose one of them")
    return format or "png"


def _checked_outputs(outputs: list[Path], contours: Path | None) -> dict[str, Path]:
    """The outputs by the name of their option; one that cannot be written is an error before any work."""
    from pixtree.exports.pictures import checked_png

    if not outputs and contours is None:
        raise UsageError("a tree goes to --output or --contours, got neither; give one of them")
    for path in outputs:
        if not path.is_dir() and path.suffix.lower() not in (".png", ".npz"):
            raise ValueError(f"a tree is written as .png (a picture) or .npz, got {str(path)!r}; change its suffix")
    if contours is not None and not contours.is_dir():
        checked_png(contours)
    return {"output" if index == 0 else f"output {index + 1}": path for index, path in enumerate(outputs)}


def _draw_stack(path: Path, image: "Tensor", planes: list["Partition"]) -> str:
    from pixtree.exports import level_stack, save_png

    save_png(path, level_stack(image, planes))
    counts = ", ".join(str(int(plane.counts[0])) for plane in planes)
    return f"stack of levels with {counts} regions: {path}"


def _draw_contours(path: Path, tree: "Hierarchy") -> str:
    from pixtree.exports import contour_map, save_png

    save_png(path, contour_map(tree.contours()))
    return f"contours: {path}"
