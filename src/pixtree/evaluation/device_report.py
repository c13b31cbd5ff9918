"""What a GPU makes of this library: whether its cuts equal the CPU's, and their speed. `pixtree doctor --gpu` shows it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from pixtree.evaluation.records import provenance
from pixtree.kernels import kernels_for
from pixtree.kernels.proof import same_levels, why_not
from pixtree.kernels.tree import MergeRule
from pixtree.kernels.tree.prune import CutBatch
from pixtree.runtime import backend
from pixtree.runtime.transfer import to_device, to_host

PACKAGES = ("pixtree", "torch", "triton", "timm", "numpy", "numba")


@dataclass(frozen=True)
class Extent:
    """How much a report covers."""

    sides: tuple[int, ...] = (224, 512)
    batches: tuple[int, ...] = (1, 64)
    pixels_per_token: int = 256
    repeats: int = 100  # of one cut, which must all be equal
    seconds: float = 3.0  # for every speed, after a warm-up
    model: str | None = "vit_small_patch16_224"  # of timm, with random weights; None leaves models out


EXTENT = Extent()


def pictures(kind: str, count: int, side: int) -> Tensor:
    """Generated images (count, 3, side, side) uint8: every decision of a tree occurs in one of the kinds."""
    seeded = torch.Generator().manual_seed(0)
    noise = torch.randint(0, 256, (count, 3, side, side), generator=seeded, dtype=torch.uint8)
    match kind:
        case "noise":
            return noise
        case "ties":
            return noise // 86 * 86
        case "textures":
            layers = [_smooth(count, side, 2**octave, seeded) / 2**octave for octave in range(1, 6)]
            total: Tensor = torch.stack(layers).sum(0)
            return ((total / total.amax() + 1.0) * 127.0).to(torch.uint8)
        case "chain":  # a ramp that turns at every end: components of more than a thousand members
            y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
            snake = torch.where(y % 2 == 0, x, side - 1 - x) + y * side
            return (((snake / side**2) ** 2) * 255).to(torch.uint8).expand(count, 3, -1, -1).contiguous()
        case _:  # flat shapes with blended edges
            shapes = torch.nn.functional.interpolate(noise[..., :4, :4].float(), size=(side, side), mode="nearest")
            return torch.nn.functional.avg_pool2d(shapes, 3, 1, 1, count_include_pad=False).to(torch.uint8)


KINDS = ("noise", "ties", "textures", "chain", "shapes")


def _smooth(count: int, side: int, cells: int, seeded: torch.Generator) -> Tensor:
    coarse = torch.randn((count, 3, cells + 1, cells + 1), generator=seeded)
    return torch.nn.functional.interpolate(coarse, size=(side, side), mode="bilinear", align_corners=True)


def report(device: torch.device, extent: Extent | None = None) -> Iterator[tuple[str, Any]]:
    """The parts of a report, by name: what somebody with a GPU can send us. Whatever stops a part is its result."""
    extent = EXTENT if extent is None else extent
    yield from provenance("pixtree doctor --gpu", PACKAGES).items()
    yield "device", list(backend.identity(device))
    yield "cuda", torch.version.cuda
    yield "hip", torch.version.hip
    yield "self_test", why_not(device) or "ok"
    yield "equal", _tried(lambda: equalities(device, extent))
    yield "repeats", _tried(lambda: repeated(device, extent))
    yield "graph", _tried(lambda: captured(device, extent))
    yield "cuts_per_second", _tried(lambda: cut_speeds(device, extent))
    yield "images_per_second", _tried(lambda: model_speeds(device, extent)) if extent.model else "left out"


def faults(found: dict[str, Any]) -> list[str]:
    """What is wrong in a finished report."""
    unequal = [name for name, value in found["equal"].items() if value != "ok"] if isinstance(found["equal"], dict) else ["equal"]
    return unequal + [name for name in ("self_test", "repeats", "graph") if not str(found[name]).startswith("ok")]


def _tried(part: Callable[[], Any]) -> Any:
    try:
        return part()
    except Exception as error:  # whatever stops a part is the finding
        return f"failed: {type(error).__name__}: {' '.join(str(error).split())[:300]}"


def cut(name: str, images: Tensor, extent: Extent, levels: bool = False) -> CutBatch:
    """The default nested cut of images by a backend; "host" takes images of a device to the compiled kernels and back."""
    nothing, count = torch.empty((len(images), 0, images[0, 0].numel()), device=images.device), images[0, 0].numel()
    arguments = (1.0, max(count // extent.pixels_per_token, 2), True, 0.0, MergeRule(), levels)
    if name != "host":
        return kernels_for(name, images.device).cut_batch(images, nothing, *arguments)
    near, none = to_host([images, nothing])
    return CutBatch(*to_device(list(kernels_for("numba").cut_batch(near, none, *arguments)), images.device))


def equalities(device: torch.device, extent: Extent) -> dict[str, str]:
    """`ok`, or what differs from the CPU, for every kind of image, side and size of batch."""
    found = {}
    for side in extent.sides:
        for count in extent.batches:
            for kind in KINDS:
                images = pictures(kind, count, side)
                found[f"{kind}, {count} × {side} px"] = ", ".join(differing(images, device, extent)) or "ok"
    return found


def differing(images: Tensor, device: torch.device, extent: Extent) -> list[str]:
    """Which of labels, planes and levels a device gives otherwise than the CPU."""
    expected, made = cut("numba", images, extent, True), cut("triton", images.to(device), extent, True)
    equal = {
        "labels": torch.equal(made.labels.cpu(), expected.labels),
        "planes": torch.equal(made.fixed.cpu(), expected.fixed),
        "levels": all(map(same_levels, made.levels.cpu(), expected.levels)),
    }
    return [name for name, same in equal.items() if not same]


def repeated(device: torch.device, extent: Extent) -> str:
    """Whether one batch is cut alike every time."""
    images = pictures("ties", extent.batches[-1], extent.sides[0]).to(device)
    first = cut("triton", images, extent).labels
    unlike = sum(not torch.equal(cut("triton", images, extent).labels, first) for _ in range(extent.repeats))
    return f"failed: {unlike} of {extent.repeats} repeats differ" if unlike else f"ok: {extent.repeats} repeats are equal"


def captured(device: torch.device, extent: Extent) -> str:
    """Whether a cut can be captured in a CUDA graph, and gives the same for other images."""
    if not backend.has_graphs(device):
        return "ok: left out, since only CUDA has graphs"
    first, other = (pictures(kind, extent.batches[-1], extent.sides[0]).to(device) for kind in ("noise", "shapes"))
    images = first.clone()
    cut("triton", images, extent)  # compiles, and copies the table of colours
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        labels = cut("triton", images, extent).labels
    for batch in (first, other):
        images.copy_(batch)
        graph.replay()
        if not torch.equal(labels, cut("triton", batch, extent).labels):
            return "failed: a replay gives other labels"
    return "ok: captured and replayed"


def cut_speeds(device: torch.device, extent: Extent) -> dict[str, dict[str, float]]:
    """Images per second of the GPU's kernels, the tier in plain torch and the host, and the GPU's peak memory in MB."""
    found: dict[str, dict[str, float]] = {}
    for side in extent.sides:
        images = pictures("textures", extent.batches[-1], side).to(device)
        row = found.setdefault(f"{len(images)} × {side} px", {})
        for name in ("triton", "torch", "host"):
            if backend.has_graphs(device):
                torch.cuda.reset_peak_memory_stats(device)
            row[name] = len(images) / seconds(lambda name=name, images=images: cut(name, images, extent), device, extent)  # type: ignore[misc]
            if backend.has_graphs(device):
                row[f"{name}_mb"] = torch.cuda.max_memory_allocated(device) / 1e6
    return found


def model_speeds(device: torch.device, extent: Extent) -> dict[str, dict[str, float]]:
    """Images per second of a model and its retrofit, forward and in training, in float32."""
    from pixtree.models import retrofit
    from pixtree.models.timm_import import timm

    base = timm.create_model(str(extent.model), pretrained=False)
    side, count = extent.sides[0], extent.batches[-1]
    tokens = max(side * side // extent.pixels_per_token, 2)
    images = pictures("textures", count, side).to(device) / 127.5 - 1.0
    found = {}
    for name, model in (("retrofit", retrofit(base, tokens=tokens)), ("patches", base)):
        model = model.to(device).eval()
        forward = seconds(lambda model=model: _forward(model, images), device, extent)  # type: ignore[misc]
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
        step = seconds(lambda model=model, optimizer=optimizer: _step(model, images, optimizer), device, extent)  # type: ignore[misc]
        found[name] = {"forward": count / forward, "training": count / step}
    return found


@torch.no_grad()
def _forward(model: nn.Module, images: Tensor) -> None:
    model(images)


def _step(model: nn.Module, images: Tensor, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad(set_to_none=True)
    model(images).square().mean().backward()
    optimizer.step()


def seconds(work: Callable[[], Any], device: torch.device, extent: Extent) -> float:
    """The median time of some work, after a warm-up."""
    times: list[float] = []
    work()
    while not times or sum(times) < extent.seconds:
        backend.wait_for(device)
        start = perf_counter()
        work()
        backend.wait_for(device)
        times.append(perf_counter() - start)
    return median(times)
