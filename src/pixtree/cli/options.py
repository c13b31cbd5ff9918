"""Options that several commands share, declared once; and the checks of their values."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from pixtree.cli.errors import UsageError

ImageFile = Annotated[Path, typer.Argument(help="The image, a PNG, JPEG, WebP or TIFF file.", show_default=False)]
ImageFiles = Annotated[
    list[Path],
    typer.Argument(help="Images, folders of images, or patterns such as 'photos/*.jpg' in quotes.", show_default=False),
]
ModelName = Annotated[str, typer.Option("--model", help="A Vision Transformer of timm by name, or a folder with a saved retrofit.")]
WeightsFile = Annotated[
    Path | None, typer.Option("--weights", help="A .safetensors file with the model's weights.", show_default="timm's, downloaded")
]
RegionCount = Annotated[
    int,
    typer.Option("--tokens", min=0, help="Average the model's features over this many regions of the photo; 0 for its own tokens."),
]
SideRule = Annotated[
    str, typer.Option("--side", help="Rule for the object's side: border, centre, largest, attention or occlusion (the paper's).")
]
AffinityName = Annotated[
    str | None,
    typer.Option(
        "--affinity",
        help="How tokens are compared: tokencut (its published setting), or patches or regions, ours for supervised models.",
        show_default="by the model's family",
    ),
]
ImageSize = Annotated[int, typer.Option("--size", help="Side in pixels of the square image that the model sees.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
RELAX = "--relax"
RELAX_MODES = ("detail",)
Relax = Annotated[
    str | None,
    typer.Option(
        RELAX,
        metavar="[MODE]",
        help="Polish the boundaries; cuts with different counts are then no longer nested. With the mode detail, boundaries follow "
        "more of the contours, and get longer.",
        show_default=False,
    ),
]
MAX_PIXELS = "Maximum image size in pixels (decompression-bomb guard); 179 million by default."

MAX_BYTES = "Maximum size in bytes of what a file decodes to; 2 GiB by default."


def _raise_limit(pixels: int | None) -> int | None:
    """Let Pillow open images of this many pixels: it warns above its limit, and refuses above twice that."""
    if pixels is not None:
        import PIL.Image

        PIL.Image.MAX_IMAGE_PIXELS = max(pixels, 1)
    return pixels


def _raise_bytes(count: int | None) -> int | None:
    """Let files decode to this many bytes."""
    if count is not None:
        from pixtree.images import bounds

        bounds.MAX_BYTES = count
    return count


@dataclass(frozen=True)
class Files:
    """How images are read and outputs are written."""

    window: Annotated[
        str | None,
        typer.Option(help="Values of black and white, such as 0,4095 or -160,240, or auto for robust percentiles."),
    ] = None
    page: Annotated[int | None, typer.Option(help="Page of a file that has several, from 0.")] = None
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing outputs; otherwise they are kept.")] = False
    as_json: AsJson = False
    max_pixels: Annotated[int | None, typer.Option(callback=_raise_limit, help=MAX_PIXELS)] = None
    max_bytes: Annotated[int | None, typer.Option(min=1, callback=_raise_bytes, help=MAX_BYTES)] = None

    def __post_init__(self) -> None:
        parsed_window(self.window)  # a wrong one is an error before any work

    @property
    def reading(self) -> dict[str, Any]:
        """The options of a reader of images."""
        return {"window": parsed_window(self.window), "page": self.page}


@dataclass(frozen=True)
class Growing:
    """How trees are grown."""

    mask: Annotated[Path | None, typer.Option(help="An image that is black where pixels are outside of all regions.")] = None
    similarity: Annotated[str, typer.Option(help="Similarity of regions: likelihood, ward, gaussian, cosine or tanimoto.")] = (
        "likelihood"
    )
    compactness: Annotated[
        float,
        typer.Option(help="Weight of pixel coordinates. With 0.1 a distance of one pixel counts as much as one Lab unit."),
    ] = 0.0
    backend: Annotated[str, typer.Option(help="Implementation of the kernels: auto, torch or numba.")] = "auto"

    @property
    def tree(self) -> dict[str, Any]:
        """The options of a tree."""
        return {"similarity": self.similarity, "compactness": self.compactness, "backend": self.backend}


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters may be dataclasses of options: typer sees the fields of their constructors as options."""
    signature = inspect.signature(command)
    groups: dict[str, Any] = {name: one.annotation for name, one in signature.parameters.items() if is_dataclass(one.annotation)}

    @wraps(command)
    def run(**given: Any) -> None:
        made = {
            name: group(**{one.name: given.pop(one.name) for one in fields(group) if one.init}) for name, group in groups.items()
        }
        command(**given, **made)

    flat: list[inspect.Parameter] = []
    for name, one in signature.parameters.items():
        inside = [(field.name, field.type, field.default) for field in fields(groups[name]) if field.init] if name in groups else []
        flat += [_keyword(*each) for each in inside or [(name, one.annotation, one.default)]]
    run.__signature__ = signature.replace(parameters=flat)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in flat}
    return run


def _keyword(name: str, kind: Any, default: Any) -> inspect.Parameter:
    without = default is MISSING or default is inspect.Parameter.empty
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=inspect.Parameter.empty if without else default, annotation=kind
    )


class WithRelax(TyperCommand):
    """A command whose option --relax may have a mode behind it or none."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Write every --relax as --relax=MODE, since an option that takes a value would take an image for its mode."""
        end = args.index("--") if "--" in args else len(args)
        written: list[str] = []
        for word in args[:end]:
            if written and written[-1] == f"{RELAX}=" and word in RELAX_MODES:
                written[-1] += word
            else:
                written.append(f"{RELAX}=" if word == RELAX else word)
        return super().parse_args(ctx, written + args[end:])


def parsed_relax(mode: str | None) -> Any:
    """The value of `relax=` for the mode after --relax, empty if there is none."""
    if mode and mode not in RELAX_MODES:
        raise UsageError(
            f"{RELAX} takes the mode {' or '.join(RELAX_MODES)} or none, got {mode!r}; leave it out for smooth boundaries"
        )
    return mode or mode is not None


def with_examples(examples: Iterable[str], *notes: str) -> str:
    """The end of a help text: notes and examples, each on a line of its own."""
    return "\n\n".join([*notes, "Examples:", *examples])  # an empty line keeps the line break


def checked_paths(*paths: Path | None) -> None:
    """Raise an error if a file is named twice: an output must replace neither an input nor another output."""
    seen: set[Path] = set()
    for path in paths:
        if path is None:
            continue
        if path.resolve() in seen:
            raise UsageError(f"every input and output must be a separate file, got {path.name!r} twice; give another name")
        seen.add(path.resolve())


def check_pngs(*paths: Path | None) -> None:
    """Raise an error for pictures that cannot be written, before any work."""
    from pixtree.exports.pictures import checked_png
    from pixtree.files import checked_target

    for path in paths:
        if path is not None:
            checked_target(checked_png(path))


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
