"""Block moves in numba: the definition's loops, compiled."""

from torch import Tensor

from pixtree.kernels.image.blocks import definition
from pixtree.kernels.image.polish import compiled as _polish  # noqa: F401, which registers the logarithm
from pixtree.kernels.tree.build.compiled.lanes import COLOURS
from pixtree.runtime.jit import kernel, shared

for _loop in (definition.sum_blocks, definition.find_sides, definition.move_level, definition.link_blocks):
    shared(_loop)
for _short in (
    definition.add_row,
    definition.energy_with,
    definition.has_news,
    definition.best_region,
    definition.stays_connected,
):
    shared(_short, into_callers=True)
move_in_place = kernel(definition.move_in_place)


def move_blocks(
    labels: Tensor, blocks: Tensor, features: Tensor, sweeps: int, floor: float, zones: Tensor | None = None
) -> Tensor:  # fmt: skip
    """Labels (H, W) int32 after blocks have moved between regions; features are planes (C, H, W) float32. See the definition."""
    moved = labels.clone()
    flat = definition.NO_ZONES if zones is None else zones.contiguous().numpy()
    counts = (int(labels.max()) + 1, int(blocks[-1].max()) + 1)
    known = (0,) * COLOURS if features.shape[0] == COLOURS else ()
    move_in_place(known, moved.numpy(), blocks.contiguous().numpy(), features.contiguous().numpy(), flat, *counts, sweeps, floor)
    return moved
