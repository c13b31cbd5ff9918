"""The operators of torch (`torch.ops.pixtree.*`), in one table, so that models compile and export as whole graphs.

An entry is the operator's schema, the function that computes it, its empty outputs, from which compilers know the shapes, and its
backward pass. Calls go one way: a backend's function (`compiled.sample`) calls its operator here, and the operator calls the
function that computes it (`compiled.sample_batch`), which it looks up when it first runs. So `import pixtree` registers all
operators without loading numba. Exported models contain the names and schemas, which therefore stay as they are.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from pixtree.kernels import kernels_for
from pixtree.kernels.proof import cutting
from pixtree.kernels.tree import MergeRule
from pixtree.kernels.tree.prune import CutBatch, empty_batch
from pixtree.runtime.launch import beyond
from pixtree.runtime.transfer import on_host

Function = Callable[..., Any]


def in_full_precision(*values: Tensor) -> bool:
    """Whether operators take these values: numpy has no bfloat16, and half precision is left to the definitions."""
    return all(one.dtype in (torch.float32, torch.float64) for one in values)


def _operator(
    schema: str, function: str | Function, empty: Function, backward: Function | None = None, keep: Function | None = None
) -> Function:
    """Register an operator; `function` is the path of one for tensors on the CPU under `pixtree.kernels`, or one for any device.

    empty: outputs of the right shape. backward: gradients of the inputs, from those of the outputs and what `keep` kept.
    """
    name, _, rest = schema.partition("(")

    def on_cpu(*arguments: Any) -> Any:
        module, _, attribute = str(function).rpartition(".")
        return getattr(import_module(f"pixtree.kernels.{module}"), attribute)(*arguments)

    body, devices = (on_cpu, "cpu") if isinstance(function, str) else (function, None)
    made = torch.library.custom_op(f"pixtree::{name}", body, mutates_args=(), device_types=devices, schema=f"({rest}")
    made.register_fake(empty)
    if backward is not None:
        made.register_autograd(backward, setup_context=keep)
    return made


# Colours: values 0..1 of images (B, C, H, W) float32. Gradients reach the images.
def _keep_scale(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[2])


def _scaled(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
    (std,) = ctx.saved_tensors
    return gradient * std.to(gradient.dtype)[:, None, None], None, None


whole_bytes = _operator(
    "whole_bytes(Tensor images) -> Tensor",
    "image.colour.compiled.whole_bytes_of_batch",
    empty=lambda images: images.new_empty(images.shape),
    backward=lambda ctx, gradient: gradient,
)
denormalised = _operator(
    "denormalised(Tensor images, Tensor mean, Tensor std) -> Tensor",
    "image.colour.compiled.denormalised_batch",
    empty=lambda images, mean, std: images.new_empty(images.shape),
    backward=_scaled,
    keep=_keep_scale,
)


# The encoder: images (B, C, H, W) float32 to features (B, d, H, W); weights as in `EncoderLayers`, c₁ and c₂ of 2×2, stride 2.
def _empty_weights(gradient: Tensor, images: Tensor, first: Tensor, bias: Tensor, second: Tensor) -> tuple[Tensor, ...]:
    depth, channels = second.shape[0], images.shape[1]
    shapes: tuple[Any, ...] = ((depth, channels, 1, 1), depth, first.shape, bias.shape, second.shape, depth)
    return tuple(images.new_empty(shape) for shape in shapes)


def _keep_layers(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    images, lift, _, first, bias, second, _ = inputs
    ctx.save_for_backward(images, lift, first, bias, second)


def _encode_backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    images, lift, first, bias, second = ctx.saved_tensors
    of_images = encode_images_backward(gradient, images, lift, first, bias, second) if ctx.needs_input_grad[0] else None
    return of_images, *encode_backward(gradient, images, first, bias, second)


encode = _operator(
    "encode(Tensor images, Tensor lift, Tensor offset, Tensor first, Tensor bias, Tensor second, Tensor shift) -> Tensor",
    "tokens.encode.compiled.encode_batch",
    empty=lambda images, lift, *_: images.new_empty((images.shape[0], lift.shape[0], *images.shape[2:])),
    backward=_encode_backward,
    keep=_keep_layers,
)
encode_backward = _operator(
    "encode_backward(Tensor gradient, Tensor images, Tensor first, Tensor bias, Tensor second)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    "tokens.encode.compiled.encode_batch_backward",
    empty=_empty_weights,
)
encode_images_backward = _operator(
    "encode_images_backward(Tensor gradient, Tensor images, Tensor lift, Tensor first, Tensor bias, Tensor second) -> Tensor",
    "tokens.encode.compiled.encode_images_backward",
    empty=lambda gradient, images, *_: images.new_empty(images.shape),
)


# The cut of a tokenizer, from images and learned features to labels; no gradient.
def _empty_cut(
    images: Tensor, features: Tensor, scale: Tensor, count: int, colour: bool, unit: float, rule: Sequence[float], levels: bool,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    made = empty_batch(images, features, colour, unit, levels)
    return made.labels, made.fixed, made.levels


def _cut(
    images: Tensor, features: Tensor, scale: Tensor, count: int, colour: bool, unit: float, rule: Sequence[float], levels: bool,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`cut_batch`, where trees over these tensors are made; rule: the numbers of a `MergeRule`."""
    channels = features.shape[1] + (images.shape[1] if colour else 0) + (2 if unit else 0)
    decided, unable = MergeRule.from_numbers(rule), beyond(channels, features.shape[2])
    backend = cutting(backend, images.device, unable)

    def cut(images: Tensor, features: Tensor, scale: Tensor) -> CutBatch:
        kernels = kernels_for(backend, images.device)
        return kernels.cut_batch(images, features, scale, count, colour, unit, decided, levels)

    labels, fixed, kept = on_host(cut, (images, features, scale.detach()), backend)
    return labels, fixed, kept


cut_exactly = _operator(
    "cut_exactly(Tensor images, Tensor features, Tensor scale, SymInt count, bool colour, float unit, float[] rule, bool levels,"
    " str backend) -> (Tensor, Tensor, Tensor)",
    _cut,
    empty=_empty_cut,
)


# Sums, means and boxes of the regions of labels (B, P) over planes (B, C, P): (B, N, C), N = count. Labels have no gradient.
def _keep_labels(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.count = inputs[0].shape[1]


def _keep_sizes(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(inputs[1], output[1])


def _means_backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
    labels, sizes = ctx.saved_tensors
    return paint(gradient / sizes.clamp_min(1.0), labels), None, None


def _empty_means(values: Tensor, labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    shape = (values.shape[0], count, values.shape[1])
    return values.new_empty(shape), values.new_empty((*shape[:2], 1))


region_sums = _operator(
    "region_sums(Tensor values, Tensor labels, SymInt count) -> Tensor",
    "tokens.segments.compiled.batch_sums",
    empty=lambda values, labels, count: values.new_empty((values.shape[0], count, values.shape[1])),
    backward=lambda ctx, gradient: (paint(gradient, ctx.saved_tensors[0]), None, None),
    keep=_keep_labels,
)
paint: Function = _operator(
    "paint(Tensor rows, Tensor labels) -> Tensor",
    "tokens.segments.compiled.batch_paint",
    empty=lambda rows, labels: rows.new_empty((rows.shape[0], rows.shape[2], labels.shape[1])),
    backward=lambda ctx, gradient: (region_sums(gradient, ctx.saved_tensors[0], ctx.count), None),
    keep=_keep_labels,
)
means_and_sizes = _operator(
    "means_and_sizes(Tensor values, Tensor labels, SymInt count) -> (Tensor, Tensor)",
    "tokens.segments.compiled.batch_means",
    empty=_empty_means,
    backward=_means_backward,
    keep=_keep_sizes,
)
region_sizes = _operator(
    "region_sizes(Tensor labels, SymInt count) -> Tensor",
    "tokens.segments.compiled.batch_sizes",
    empty=lambda labels, count: labels.new_empty((labels.shape[0], count), dtype=torch.int64),
)
region_boxes = _operator(
    "region_boxes(Tensor labels, SymInt count) -> Tensor",
    "tokens.segments.compiled.batch_boxes",
    empty=lambda labels, count: labels.new_empty((labels.shape[0], count, 4), dtype=torch.int32),
)


# The default aggregation: plain means (B, N, d) of features (B, d, P), whose gradient also reaches κ's w and π.
def _keep_grown(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    features, fixed, weight, precision, labels, _, levels, ctx.compared = inputs
    ctx.save_for_backward(features, fixed, weight, precision, labels, levels)


def _straight_backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    planes, scalars = straight_gradients(gradient, *ctx.saved_tensors, ctx.compared)
    of_weight, of_precision = scalars.sum(0).unbind()
    return planes, None, of_weight, of_precision, None, None, None, None


def _empty_straight(
    features: Tensor, fixed: Tensor, weight: Tensor, precision: Tensor, labels: Tensor, count: int, *_: Any
) -> Tensor:
    return features.new_empty((features.shape[0], count, features.shape[1]))


straight_means = _operator(
    "straight_means(Tensor features, Tensor fixed, Tensor weight, Tensor precision, Tensor labels, SymInt count, Tensor levels,"
    " SymInt compared) -> Tensor",
    "tokens.aggregate.compiled.straight.mean_batch",
    empty=_empty_straight,
    backward=_straight_backward,
    keep=_keep_grown,
)
straight_gradients = _operator(
    "straight_gradients(Tensor gradient, Tensor features, Tensor fixed, Tensor weight, Tensor precision, Tensor labels,"
    " Tensor levels, SymInt compared) -> (Tensor, Tensor)",
    "tokens.aggregate.compiled.straight.gradients_of_batch",
    empty=lambda gradient, features, *_: (features.new_empty(features.shape), features.new_empty((features.shape[0], 2))),
)

# The paper's aggregation without gradients: Σ_u |u|/|P| κ_u f(u), round after round, (B, N, d).
raw_sums = _operator(
    "raw_sums(Tensor features, Tensor fixed, Tensor weight, Tensor precision, Tensor labels, SymInt count, Tensor levels,"
    " SymInt compared) -> Tensor",
    "tokens.aggregate.compiled.raw.sum_batch",
    empty=_empty_straight,
)


# Mean injection and sampling: F(S) (B, N, C, q, q) and M⁺ (B, N, q, q). Gradients reach δ, λ and β, not pixels, scale and shift.
def _empty_samples(pixels: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
    frame, background = others[4], others[6]
    shape = (pixels.shape[0], frame.shape[1], *background.shape)
    return pixels.new_empty(shape), pixels.new_empty((*shape[:2], *background.shape[1:]))


def _empty_gradients(gradient: Tensor, pixels: Tensor, change: Tensor, *others: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    shape = (pixels.shape[0], *others[5].shape)
    return change.new_empty(change.shape), pixels.new_empty(pixels.shape[0]), pixels.new_empty(shape)


def _keep_samples(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*inputs, output[1])


def _samples_backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    changes, mixes, colours = sample_boxes_backward(gradient, *ctx.saved_tensors)
    return None, changes, None, None, None, None, mixes.sum(), colours.sum(0)


sample_boxes = _operator(
    "sample_boxes(Tensor pixels, Tensor change, Tensor scale, Tensor shift, Tensor labels, Tensor frame, Tensor mix,"
    " Tensor background) -> (Tensor, Tensor)",
    "tokens.sample.compiled.sample_batch",
    empty=_empty_samples,
    backward=_samples_backward,
    keep=_keep_samples,
)
sample_boxes_backward = _operator(
    "sample_boxes_backward(Tensor gradient, Tensor pixels, Tensor change, Tensor scale, Tensor shift, Tensor labels, Tensor frame,"
    " Tensor mix, Tensor background, Tensor inside) -> (Tensor, Tensor, Tensor)",
    "tokens.sample.compiled.sample_batch_backward",
    empty=_empty_gradients,
)


# Positions: the pixels of the regions of labels (B, H, W) per cell of a grid, (B, N, rows·columns), and a table's means over them.
def _keep_histogram(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])


def _embed_backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return None, None, None, None, embed_cells_backward(gradient, ctx.saved_tensors[0])


def _empty_embedding(labels: Tensor, count: int, rows: int, columns: int, table: Tensor) -> tuple[Tensor, Tensor]:
    shape = (labels.shape[0], count)
    return table.new_empty((*shape, table.shape[1])), table.new_empty((*shape, table.shape[0]), dtype=torch.float32)


cell_counts = _operator(
    "cell_counts(Tensor labels, SymInt count, SymInt rows, SymInt columns) -> Tensor",
    "tokens.positions.compiled.count_batch",
    empty=lambda labels, count, rows, columns: labels.new_empty((labels.shape[0], count, rows * columns), dtype=torch.float32),
)
cell_shares = _operator(
    "cell_shares(Tensor labels, SymInt count, SymInt bins, str kernel, float bandwidth) -> Tensor",
    "tokens.positions.compiled.share_batch",
    empty=lambda labels, count, bins, *_: labels.new_empty((labels.shape[0], count, bins * bins), dtype=torch.float32),
)
embed_cells = _operator(
    "embed_cells(Tensor labels, SymInt count, SymInt rows, SymInt columns, Tensor table) -> (Tensor, Tensor)",
    "tokens.positions.compiled.embed_batch",
    empty=_empty_embedding,
    backward=_embed_backward,
    keep=_keep_histogram,
)
embed_cells_backward = _operator(
    "embed_cells_backward(Tensor gradient, Tensor histogram) -> Tensor",
    "tokens.positions.compiled.embed_batch_backward",
    empty=lambda gradient, histogram: gradient.new_empty((histogram.shape[2], gradient.shape[2])),
)


# Trees of tokens: which of `count` clusters each row (B, n, D) with a weight (B, n) is in, (B, n) int64; no gradient.
ward_labels = _operator(
    "ward_labels(Tensor features, Tensor weights, SymInt count, SymInt rounds) -> Tensor",
    "tokens.cluster.compiled.ward_labels_of_batch",
    empty=lambda features, weights, count, rounds: weights.new_empty(weights.shape, dtype=torch.int64),
)
