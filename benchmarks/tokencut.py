"""TokenCut on square patches of supervised tiny models, as a source of rough masks: used by `benchmarks/snap.py`.

A normalised cut of the patches by the similarity of one layer's tokens [Wang et al. 2022]. As published it fails on supervised tiny
models; features and affinities are those that worked on them, and the side of the object is the one that holds less of the border.
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from retrofit import patch_model
from scipy.sparse.linalg import eigsh
from torch import Tensor

SIDE, LEAST = 448, 1e-5
# Which of query, key and value (0, 1, 2) of which block, counted from 1, and whether affinities are binary.
FEATURES = {
    "deit_tiny_patch16_224": (((10, 1), (12, 2)), False),
    "vit_tiny_patch16_224": (((8, 0), (12, 0)), True),
}


def model_at(name: str, weights: Path) -> torch.nn.Module:
    """The model of a name with its weights, for pictures of SIDE px."""
    model = patch_model(name, weights)
    model.set_input_size((SIDE, SIDE))
    return model


@torch.inference_mode()
def patch_mask(model: torch.nn.Module, name: str, image: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """The object of a picture (H, W, 3) as a mask (H, W): that of the patches, enlarged bilinearly."""
    picture = torch.from_numpy(image).permute(2, 0, 1)[None].float()
    small = torch.nn.functional.interpolate(picture, (SIDE, SIDE), mode="bicubic", antialias=True).clamp(0, 255) / 255
    mean, std = (torch.tensor(model.pretrained_cfg[key]).view(3, 1, 1) for key in ("mean", "std"))
    chosen, binary = FEATURES[name]
    seen = _features(model, (small - mean) / std, chosen)
    grid = SIDE // 16
    inside = _object_side(_second_vector(_affinity(seen, binary)), grid)
    shape = (image.shape[0], image.shape[1])
    return (torch.nn.functional.interpolate(inside[None, None].float(), shape, mode="bilinear") > 0.5)[0, 0].numpy()


def _features(model: torch.nn.Module, pictures: Tensor, chosen: tuple[tuple[int, int], ...]) -> Tensor:
    """Unit-length features of the patches (N, D), side by side from the chosen layers."""
    kept: dict[int, Tensor] = {}
    hooks = [
        model.blocks[block - 1].attn.qkv.register_forward_hook(lambda _m, _i, out, block=block: kept.__setitem__(block, out[0]))
        for block, _ in chosen
    ]
    model.forward_features(pictures)
    for hook in hooks:
        hook.remove()
    parts = [kept[block][model.num_prefix_tokens :].chunk(3, dim=1)[which] for block, which in chosen]
    return torch.cat([torch.nn.functional.normalize(part, dim=1) for part in parts], dim=1)


def _affinity(features: Tensor, binary: bool) -> NDArray[np.float64]:
    unit = torch.nn.functional.normalize(features.double(), dim=1)
    cosine = (unit @ unit.T).numpy()
    above = cosine - cosine.mean()
    return np.where(above > 0, 1.0, LEAST) if binary else np.maximum(above, LEAST)


def _second_vector(affinity: NDArray[np.float64]) -> NDArray[np.float64]:
    """The vector of the normalised cut, (N,): the first eigenvector after the trivial one."""
    degree = affinity.sum(axis=1)
    root = np.sqrt(degree)
    symmetric = affinity / root[:, None] / root[None]
    trivial = root / np.linalg.norm(root)
    vector = eigsh(symmetric - np.outer(trivial, trivial), k=1, which="LA", v0=np.ones(len(degree)))[1][:, 0]
    return vector / root


def _object_side(vector: NDArray[np.float64], grid: int) -> Tensor:
    """The patches (grid, grid) bool on the side of the mean that holds the smaller share of the border."""
    side = torch.from_numpy(vector > vector.mean()).view(grid, grid)
    border = torch.ones((grid, grid), dtype=torch.bool)
    border[1:-1, 1:-1] = False
    return ~side if side[border].double().mean() > (~side)[border].double().mean() else side
