"""The paper's drawing: a partition of few regions below, one of many above, both the pretrained tokenizer's. [`tab:imagetrace`]"""

import torch
from torch import Tensor

from pixtree.tokenizer.tokenizer import Tokenizer
from pixtree.trees.criteria import Criterion
from pixtree.trees.cuts import AtMost
from pixtree.trees.partition import Partition
from pixtree.vector.potrace import TracedLayers, check_program, traced_layers

COARSE_SHARE = 51  # one path in so many belongs to the layer below
FEWEST = 2  # regions of a layer below: with fewer it would be a background
# The criterion at a vanishing penalty splits wherever features differ and nowhere else; the count then decides, in nested order.
VISIBLE = Criterion("aic", penalty=1e-12, single_volume=1.0)


def paper_drawing(planes: Tensor, paths: int) -> TracedLayers:
    """An image (3, H, W) float32 in 0…255 as `paths` traced regions, or as many as the tokenizer can tell apart."""
    check_program()
    return traced_layers(planes, paper_layers(planes, paths))


def paper_layers(planes: Tensor, paths: int, tokenizer: Tokenizer | None = None) -> list[Partition]:
    """The partitions of an image (3, H, W) float32 in 0…255, lowest first, with at most `paths` regions in all.

    The lower one has fewer regions and shows where potrace leaves gaps between those above. Very few paths are one layer.
    """
    chosen = tokenizer or Tokenizer.pretrained(width=None, compactness=0.0)
    picture = planes.round().to(torch.uint8)[None]
    below = max(paths // COARSE_SHARE, FEWEST) if paths > 2 * FEWEST else 0
    above = chosen.partition(picture, AtMost(paths - below, VISIBLE))
    below = min(below, int(above.counts[0]) - 1)
    return [chosen.partition(picture, AtMost(below, VISIBLE)), above] if below >= FEWEST else [above]
