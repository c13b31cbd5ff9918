"""Trees, levels and labels of every budget equal the definition on drawn pictures, in blocks of three sizes and in any order.

A batch mixes pictures that need different numbers of rounds: ties, flat shapes, ramps and noise.
"""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interpreted import in_blocks, in_random_order
from torch import Tensor

from pixtree.kernels import kernels_for
from pixtree.kernels.tree import MOST_LEVELS, Cost, Energy, MergeRule, Tree
from pixtree.kernels.tree.build.triton import grow
from pixtree.kernels.tree.build.triton.leaves import whole
from pixtree.kernels.tree.choice import Choice
from pixtree.kernels.tree.choice.definition import chosen as chosen_as_defined
from pixtree.kernels.tree.choice.triton import chosen
from pixtree.kernels.tree.criterion import Penalty, Scoring
from pixtree.kernels.tree.prune.triton import fill_levels

pytestmark = pytest.mark.usefixtures("interpreting")

DEFINED = kernels_for("torch")
KINDS = ("ties", "shapes", "ramp", "noise")


def picture(data: st.DataObject, channels: int, height: int, width: int) -> Tensor:
    """Planes (C, H·W) of one kind."""
    seeded = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    match data.draw(st.sampled_from(KINDS)):
        case "ties":
            plane = torch.randint(0, 3, (channels, height, width), generator=seeded) * 25.0
        case "shapes":
            plane = torch.full((channels, height, width), 30.0)
            for value in (90.0, 55.0, 60.0):
                top, left = (int(torch.randint(0, side, (), generator=seeded)) for side in (height, width))
                plane[:, top : top + 1 + height // 2, left : left + 1 + width // 2] = value
        case "ramp":
            plane = ((torch.arange(height * width) / 3.0) ** 1.5).view(height, width).expand(channels, -1, -1)
        case _:
            plane = torch.randn((channels, height, width), generator=seeded) * 20.0
    return plane.flatten(1)


def choices(data: st.DataObject, pixels: int) -> list[Choice]:
    """A cut of every kind."""
    penalty, scale = data.draw(st.sampled_from(list(Penalty))), data.draw(st.sampled_from([0.0, 0.1, 1.0]))
    scoring = Scoring(penalty, scale, data.draw(st.sampled_from([0.0, 0.5])), data.draw(st.booleans()))
    count = data.draw(st.integers(1, pixels))
    return [
        Choice(None, regions=count),
        Choice(None, level=data.draw(st.integers(0, 4))),
        Choice(scoring, 10.0, at_most=data.draw(st.sampled_from([0, count]))),
        Choice(scoring, 10.0, True),
    ]


def check(data: st.DataObject) -> None:
    """Compare one batch, under one rule."""
    shape = data.draw(st.sampled_from([(1, 17), (4, 6), (5, 5), (7, 4), (2, 1)]))
    channels, pixels = data.draw(st.sampled_from([1, 3, 5, 8])), shape[0] * shape[1]
    weighted = data.draw(st.booleans())
    cost = data.draw(st.sampled_from(list(Cost)[:3] if weighted else list(Cost)))
    rule = MergeRule(cost, data.draw(st.sampled_from(list(Energy))), weighted=weighted, precision=0.001)
    planes = torch.stack([picture(data, channels, *shape) for _ in range(3)])
    wanted, levels = choices(data, pixels), torch.zeros(3, 4, 2 * pixels + MOST_LEVELS, dtype=torch.int32)
    with in_blocks(data.draw(st.sampled_from([16, 32, 128]))), in_random_order(data.draw(st.integers(0, 99))):
        forest = grow(planes, whole(shape), rule, True)
        fill_levels(forest, pixels, levels)
        found = [chosen(forest, planes, shape, choice) for choice in wanted]
    inside = torch.ones(shape, dtype=torch.bool)
    for image, one in enumerate(planes):
        tree, expected = DEFINED.build(one, inside, rule, True), torch.zeros_like(levels[0])
        for name, a, b in zip(Tree._fields, tree, forest.tree(image), strict=True):
            assert a.dtype == b.dtype, name
            assert torch.equal(a, b), name
        DEFINED.tree_levels(tree, expected)
        assert torch.equal(levels[image], expected)
        for choice, labels in zip(wanted, found, strict=True):
            assert torch.equal(labels[image], chosen_as_defined(DEFINED, tree, one, inside, choice)), choice


QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


@settings(max_examples=8, **QUIET)
@given(st.data())
def test_pictures_have_the_trees_levels_and_labels_of_the_definition(data):
    check(data)


@pytest.mark.slow
@settings(max_examples=150, **QUIET)
@given(st.data())
def test_many_pictures_have_the_trees_levels_and_labels_of_the_definition(data):
    check(data)
