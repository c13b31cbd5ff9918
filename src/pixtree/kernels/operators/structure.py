"""Trees, cuts and colours as operators. Structure has no gradient, and is made on the host wherever the tensors lie."""

import torch
from torch import Tensor

from pixtree.kernels.dispatch import kernels_for
from pixtree.kernels.types import Cost, Energy, MergeRule
from pixtree.runtime.threads import each
from pixtree.runtime.transfer import on_host

_DEFAULT = MergeRule()


def _checked(features: Tensor, leaves: int, count: int = 1) -> None:
    """Check the input of an operator, because kernels trust theirs."""
    if features.dtype != torch.float32 or not bool(torch.isfinite(features).all()):
        raise ValueError(f"features must be finite float32, got {features.dtype}; cast them or remove NaN and Inf")
    if features.shape[1:].numel() != leaves:
        raise ValueError(
            f"features need a column per pixel inside the mask, {leaves}, got {features.shape[1:].numel()}; select them"
        )
    if count < 1:
        raise ValueError(f"a cut needs at least 1 region, got {count}; ask for 1 or more")


@torch.library.custom_op("pixtree::lab", mutates_args=())
def lab(image: Tensor) -> Tensor:
    """L, a, b of an sRGB image (3, H, W), uint8 or float 0..1, as planes (3, H·W) float32."""
    return kernels_for("auto", image.device).lab(image)


@lab.register_fake
def _(image: Tensor) -> Tensor:
    return image.new_empty((3, image.shape[1] * image.shape[2]), dtype=torch.float32)


@torch.library.custom_op("pixtree::build", mutates_args=())
def build(
    features: Tensor,
    inside: Tensor,
    cost: int = int(_DEFAULT.cost),
    energy: int = int(_DEFAULT.energy),
    floor: float = _DEFAULT.floor,
    length_quarters: int = _DEFAULT.length_quarters,
    ward_rounds: int = _DEFAULT.ward_rounds,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The fields of a `Tree` (picks aside) from feature planes (C, M) and a mask (H, W); the numbers are `MergeRule`'s."""
    rule = MergeRule(Cost(cost), Energy(energy), floor, length_quarters, ward_rounds)

    def made(features: Tensor, inside: Tensor) -> tuple[Tensor, ...]:
        _checked(features, int(inside.sum()))
        return kernels_for().build(features, inside, rule)[:6]

    parent, left, right, level, altitude, gain = on_host(made, (features, inside))
    return parent, left, right, level, altitude, gain


@build.register_fake
def _(
    features: Tensor,
    inside: Tensor,
    cost: int = int(_DEFAULT.cost),
    energy: int = int(_DEFAULT.energy),
    floor: float = _DEFAULT.floor,
    length_quarters: int = _DEFAULT.length_quarters,
    ward_rounds: int = _DEFAULT.ward_rounds,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    leaves = features.shape[1]
    nodes, inner = 2 * leaves - 1, leaves - 1
    shapes = ((nodes, torch.int32), (inner, torch.int32), (inner, torch.int32), (nodes, torch.int16))
    parent, left, right, level = (features.new_empty(size, dtype=dtype) for size, dtype in shapes)
    return parent, left, right, level, features.new_empty(nodes), features.new_empty(inner)


@torch.library.custom_op("pixtree::open_largest", mutates_args=())
def open_largest(gain: Tensor, left: Tensor, right: Tensor, count: int) -> Tensor:
    """The `count` inner nodes of largest (λ, id), (M−1,) bool."""
    if not 0 <= count <= gain.numel():
        raise ValueError(f"between 0 and {gain.numel()} inner nodes can be opened, got {count}; ask for as many")
    return on_host(lambda a, b, c: [kernels_for().open_largest(a, b, c, count)], (gain, left, right))[0]


@open_largest.register_fake
def _(gain: Tensor, left: Tensor, right: Tensor, count: int) -> Tensor:
    return torch.empty_like(gain, dtype=torch.bool)


@torch.library.custom_op("pixtree::cut_labels", mutates_args=())
def cut_labels(parent: Tensor, opened: Tensor) -> Tensor:
    """Regions of the leaves under a cut, (M,) int32, numbered by first leaf."""
    return on_host(lambda a, b: [kernels_for().cut_labels(a, b)], (parent, opened))[0]


@cut_labels.register_fake
def _(parent: Tensor, opened: Tensor) -> Tensor:
    return parent.new_empty(opened.shape[0] + 1)


@torch.library.custom_op("pixtree::relax", mutates_args=())
def relax(labels: Tensor, features: Tensor, sweeps: int, smoothness: float, floor: float) -> Tensor:
    """Labels (H, W) int32 after boundary polishing; features are planes (C, H, W) float32."""
    return on_host(lambda a, b: [kernels_for().relax(a, b, sweeps, smoothness, floor)], (labels, features))[0]


@relax.register_fake
def _(labels: Tensor, features: Tensor, sweeps: int, smoothness: float, floor: float) -> Tensor:
    return torch.empty_like(labels)


@torch.library.custom_op("pixtree::connected_pieces", mutates_args=())
def connected_pieces(labels: Tensor) -> Tensor:
    """4-connected pieces of equal labels (H, W), int32, numbered by first pixel."""
    return on_host(lambda one: [kernels_for().connected_pieces(one)], (labels,))[0]


@connected_pieces.register_fake
def _(labels: Tensor) -> Tensor:
    return torch.empty_like(labels, dtype=torch.int32)


@torch.library.custom_op("pixtree::exact_labels", mutates_args=())
def exact_labels(
    features: Tensor,
    count: int,
    cost: int = int(_DEFAULT.cost),
    energy: int = int(_DEFAULT.energy),
    floor: float = _DEFAULT.floor,
    length_quarters: int = _DEFAULT.length_quarters,
    ward_rounds: int = _DEFAULT.ward_rounds,
) -> Tensor:
    """Labels (B, H, W) int32 of exactly min(count, H·W) regions per image from feature maps (B, C, H, W) float32, in threads."""
    kernels, rule = kernels_for(), MergeRule(Cost(cost), Energy(energy), floor, length_quarters, ward_rounds)
    shape = (features.shape[-2], features.shape[-1])

    def labels_of(image: Tensor) -> Tensor:
        _checked(image, shape[0] * shape[1], count)
        cut = kernels.exact_cut(image.flatten(1).contiguous(), shape, rule, min(count, shape[0] * shape[1]))
        return cut.labels.view(shape)

    if not len(features):
        return features.new_empty((0, *shape), dtype=torch.int32)
    return on_host(lambda maps: [torch.stack(each(labels_of, maps.unbind()))], (features,))[0]


@exact_labels.register_fake
def _(
    features: Tensor,
    count: int,
    cost: int = int(_DEFAULT.cost),
    energy: int = int(_DEFAULT.energy),
    floor: float = _DEFAULT.floor,
    length_quarters: int = _DEFAULT.length_quarters,
    ward_rounds: int = _DEFAULT.ward_rounds,
) -> Tensor:
    batch, _, height, width = features.shape
    return features.new_empty((batch, height, width), dtype=torch.int32)
