"""Regions and the grid of patches under them: tables of positions, rotary positions, and pooling from one to the other."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from pixtree.kernels import kernels_for
from pixtree.models.timm_import import timm
from pixtree.runtime.transfer import filled
from pixtree.tokenizer.positions import PositionOptions, Positions
from pixtree.tokenizer.sampling import padded_labels

Grid = tuple[int, int]
ROTARY = ("RotaryEmbeddingCat", "RotaryEmbeddingDinoV3", "RotaryEmbeddingMixed")


def patch_grid(labels: Tensor, patch: int) -> Grid:
    """Rows and columns of the patches that cover labels (B, H, W)."""
    return math.ceil(labels.shape[1] / patch), math.ceil(labels.shape[2] / patch)


def on_grid(values: Tensor, labels: Tensor, patch: int, backend: str = "auto") -> Tensor:
    """Per-region values (B, N, D) averaged over the pixels of each patch of labels (B, H, W), (B, D, rows, columns)."""
    grid = patch_grid(labels, patch)
    counts = kernels_for(backend, labels.device).cell_counts(padded_labels(labels, patch), values.shape[1], grid).to(values.dtype)
    shares = counts / counts.sum(dim=1, keepdim=True).clamp_min(1.0)
    return (values.transpose(1, 2) @ shares).reshape(values.shape[0], values.shape[2], *grid)


def bilinear_shares(labels: Tensor, grid: Grid, count: int) -> Tensor:
    """The weight of each patch of a grid in each region, (B, count, patches) float32; sums over patches are 1, or 0 without pixels.

    A region's token is the mean over its pixels, each a bilinear mixture of its four nearest patches. labels: (B, H, W) of images
    that the grid covers; negative ones are left out.
    """
    batch, height, width = labels.shape
    down, across = (_ends(length, side, labels.device) for length, side in zip((height, width), grid, strict=True))
    patches = grid[0] * grid[1]
    region = labels.to(torch.int64).flatten(1)
    inside = region >= 0
    start = (torch.arange(batch, device=labels.device)[:, None] * count + region) * patches
    total = torch.zeros(batch * count * patches, dtype=torch.float64, device=labels.device)
    for row, weight in down:
        for column, other in across:
            place = start + (row[:, None] * grid[1] + column).flatten()
            amount = (weight[:, None] * other).flatten().expand(batch, -1)
            total += torch.bincount(place[inside], amount[inside], minlength=total.numel())
    shares = total.view(batch, count, patches)
    return (shares / shares.sum(dim=2, keepdim=True).clamp_min(1e-12)).to(torch.float32)


def _ends(length: int, side: int, device: torch.device) -> list[tuple[Tensor, Tensor]]:
    """The two nearest patches along one axis for every pixel, (length,), and their weights, as bilinear interpolation has them."""
    place = ((torch.arange(length, device=device, dtype=torch.float64) + 0.5) * side / length - 0.5).clamp(0, side - 1)
    low = place.to(torch.int64).clamp_max(max(side - 2, 0))
    return [(low, 1 - (place - low)), ((low + 1).clamp_max(side - 1), place - low)]


class PatchPositions(Positions):
    """A patch model's own table (rows·columns, D), resampled to an image's grid of patches as timm does it.

    A region's embedding is the mean over its pixels of their patches' embeddings, pixel (y, x) being in patch (y // q, x // q): for
    square patches exactly the patch model's, at any image size. grid: rows and columns of the table. patch: q, its side in pixels.
    """

    def __init__(self, table: Tensor, grid: Grid, patch: int, backend: str = "auto") -> None:
        super().__init__(table.shape[1], 1, backend=backend)
        self.table = nn.Parameter(table.detach().clone())
        self.grid, self.patch = grid, patch

    def forward(self, labels: Tensor, count: int) -> Tensor:
        """Embeddings (B, N, D) of the regions of labels (B, H, W)."""
        grid = patch_grid(labels, self.patch)
        table = resampled(self.table, self.grid, grid)
        return kernels_for(self.backend, labels.device).embed_cells(padded_labels(labels, self.patch), count, grid, table)


def resampled(table: Tensor, old: Grid, new: Grid) -> Tensor:
    """A table (rows·columns, D) for another grid, by timm's own interpolation."""
    if old == new:
        return table
    other: Tensor = timm.layers.resample_abs_pos_embed(table[None], new, old, num_prefix_tokens=0)[0]
    return other


def positions_of(
    table: Tensor, grid: Grid, patch: int, resolution: int | None, options: PositionOptions, backend: str = "auto"
) -> Positions:
    """Positions that continue a patch model's table (rows·columns, D).

    resolution: None follows the patches of each image; p is a table of p×p cells over any image, such that coarse
    cells keep their embeddings in the mean, see `resampled_table`.
    """
    if resolution is None and options.position_kernel == "hard":
        return PatchPositions(table, grid, patch, backend)
    side = max(grid)
    square = resampled(table.detach(), grid, (side, side))
    return Positions.from_table(square, resolution or side, options.position_kernel, options.bandwidth, backend)


def check_rotary(rope: Any) -> None:
    """Refuse the kinds of rotary embedding that cannot be read between patches."""
    kind = type(rope).__name__
    if rope is not None and kind not in ROTARY:
        raise ValueError(f"rotary positions are supported as {', '.join(ROTARY)}, got {kind}; choose an EVA-02 or DINOv3 model")
    if getattr(rope, "in_pixels", False):
        raise ValueError("rotary positions in pixel frequencies are not supported, got in_pixels=True; choose another model")
    if getattr(rope, "aug_active", False):
        raise ValueError("rotary shift, jitter and rescale are not supported for regions, got one of them; leave them out")


def rotary_embedding(rope: Any, labels: Tensor, count: int, patch: int, backend: str = "auto") -> Tensor:
    """The rotary embedding of the regions of labels (B, H, W), see `rotary_at`."""
    return rotary_at(rope, *places_of_regions(labels, count, patch, backend))


def places_of_regions(labels: Tensor, count: int, patch: int, backend: str = "auto") -> tuple[Tensor, Tensor]:
    """Centroids (B, N, 2) float32 of the regions of labels (B, H, W) in patches, and the rows and columns (2,) of the patch grid.

    Patch i has coordinate i. Where the border cuts off a patch, its pixels are spread over the whole of it, as its embedding is.
    """
    batch, height, width = labels.shape
    rows, columns = (_axis(int(size), patch, labels.device) for size in (height, width))
    planes = torch.stack((rows[:, None].expand(height, width), columns.expand(height, width))).flatten(1)
    centres = kernels_for(backend, labels.device).region_means(planes.expand(batch, -1, -1), labels.flatten(1), count)
    return centres, filled(patch_grid(labels, patch), centres)


def _axis(size: int, patch: int, device: torch.device) -> Tensor:
    """The pixels of one axis in patches, (size,) float32."""
    pixel = torch.arange(size, dtype=torch.float32, device=device)
    start = torch.floor(pixel / patch) * patch
    return start / patch + (pixel - start + 0.5) / (size - start).clamp_max(float(patch)) - 0.5


def rotary_at(rope: Any, centres: Tensor, shape: Tensor, number: int | None = None) -> Tensor:
    """The rotary embedding of tokens at `centres` (B, N, 2), rows and columns in patches, of an image of `shape` patches.

    (B, 1, N, 2d), sines then cosines. Where frequencies are learned per block: (depth, B, heads, N, 2d), or (B, heads, N, 2d) for
    one block `number`. At the centres of square patches the result is timm's own.
    """
    kind = type(rope).__name__
    if kind == "RotaryEmbeddingMixed":
        return _mixed(rope, centres) if number is None else _mixed(rope, centres, number)[0]
    if kind == "DINOv3ViTRopePositionEmbedding":
        angles = _transformers_angles(rope, centres, shape).tile(2)
        return torch.cat((angles.sin(), angles.cos()), dim=-1)[:, None]
    angles = _dinov3_angles(rope, centres, shape) if kind == "RotaryEmbeddingDinoV3" else _cat_angles(rope, centres, shape)
    halves = getattr(rope, "rotate_half", False)  # before timm 1.0.27 some embeddings have one layout only
    angles = angles.tile(2) if halves else angles.repeat_interleave(2, dim=-1)
    return torch.cat((angles.sin(), angles.cos()), dim=-1)[:, None]


def rope_at(vit: Any, rope: Tensor | None, number: int) -> Tensor | None:
    """The rotary embedding of one block; some models have one per block."""
    if rope is None:
        return None
    return rope[number] if type(vit.rope).__name__ == "RotaryEmbeddingMixed" else rope


def _cat_angles(rope: Any, places: Tensor, shape: Tensor) -> Tensor:
    """(B, N, d/2): coordinate times frequency, the first axis first."""
    places = places + rope.grid_offset
    if rope.ref_feat_shape is not None:
        places = places / shape * filled(rope.ref_feat_shape, places)
    bands = rope.bands
    if bands is None:
        bands = timm.layers.pos_embed_sincos.freq_bands(rope.dim // 4, temperature=rope.temperature, step=1, device=places.device)
    frequencies: Tensor = bands.to(places)
    return (_ordered(places, rope)[..., None] * frequencies).flatten(2)


def _dinov3_angles(rope: Any, places: Tensor, shape: Tensor) -> Tensor:
    """(B, N, d/2): coordinates in −1..1 over periods, rows first."""
    periods: Tensor = rope.periods.to(places)
    sides = {"max": shape.max().expand(2), "min": shape.min().expand(2), "separate": shape}[rope.normalize_coords]
    coordinates: Tensor = 2.0 * (places + 0.5 + rope.grid_offset) / sides - 1.0
    return (2.0 * math.pi * coordinates[..., None] / periods).flatten(2)


def _transformers_angles(rope: Any, places: Tensor, shape: Tensor) -> Tensor:
    """(B, N, d/2): DINOv3's as transformers has it, each axis in −1..1 times the frequencies, rows first."""
    coordinates: Tensor = 2.0 * (places + 0.5) / shape - 1.0
    frequencies: Tensor = rope.inv_freq.to(places)
    return (2.0 * math.pi * coordinates[..., None] * frequencies).flatten(2)


def _mixed(rope: Any, places: Tensor, number: int | None = None) -> Tensor:
    first, second = _ordered(places, rope).flatten(0, 1).unbind(-1)
    frequencies = rope.freqs if number is None else rope.freqs[:, number : number + 1]
    embedding: Tensor = timm.layers.pos_embed_sincos.get_mixed_freqs(frequencies, first, second)  # (depth, heads, B·N, 2d)
    return embedding.reshape(*embedding.shape[:2], *places.shape[:2], -1).transpose(1, 2)


def _ordered(places: Tensor, rope: Any) -> Tensor:
    """(row, column) as the embedding orders its axes."""
    return places.flip(-1) if rope.grid_indexing == "xy" else places
