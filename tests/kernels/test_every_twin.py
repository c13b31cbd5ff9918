"""Every kernel by name: its compiled twin gives what its definition gives, and these cases reach every line of the definitions."""

import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
import torch
from pictures import constant, noise, photo

import pixtree.kernels
from pixtree.kernels import NAMES, Kernels, kernels_for
from pixtree.kernels.image.colour.definition import light_table_on
from pixtree.kernels.image.planes import UNIT
from pixtree.kernels.tokens.aggregate import MODES, SIMILARITIES, Grown, Kernel
from pixtree.kernels.tokens.encode import EncoderLayers
from pixtree.kernels.tokens.positions.definition import KERNELS
from pixtree.kernels.tokens.sample.compiled import grouped
from pixtree.kernels.tree import MOST_LEVELS, Cost, Energy, MergeRule, Place
from pixtree.kernels.tree.choice import Choice
from pixtree.kernels.tree.criterion import Penalty, Scoring

DEFINED, COMPILED = Kernels(), kernels_for("numba")
SHAPE = (9, 11)
IMAGE = photo(height=9, width=11)
MASK = torch.arange(99).view(SHAPE) % 7 != 3
MASK[:, 6] = False  # pieces that do not touch
PLANES, ALL = DEFINED.lab(IMAGE), torch.ones(SHAPE, dtype=torch.bool)
TREE = DEFINED.build(PLANES, ALL, MergeRule(), True)
FLAT = torch.tensor([0.0] * 5 + [30.0] + [60.0] * 5).repeat(9).repeat(3, 1)  # two flat zones and blended pixels between them
KERNEL_COSTS = (Cost.GAUSSIAN, Cost.COSINE, Cost.TANIMOTO)
RULES = [
    *(MergeRule(cost, energy) for cost in Cost for energy in Energy),
    *(MergeRule(length_quarters=quarters, ward_rounds=2) for quarters in range(5)),
    *(MergeRule(cost, energy, weighted=True, precision=0.01) for cost in KERNEL_COSTS for energy in Energy),
]
LABELS = torch.stack((torch.arange(99).view(SHAPE) // 25, torch.arange(99).view(SHAPE) % 11 // 4)).to(torch.int32)
LABELS[0, 0, :2] = -1
MASKED = DEFINED.connected_pieces(torch.where(MASK & (LABELS[0] >= 0), LABELS[1], -1))
FINER = torch.where(MASKED >= 0, LABELS[1] * 9 + LABELS[0], -1)
ZONES = torch.where(FLAT[0].view(SHAPE) == 30.0, -1, (FLAT[0].view(SHAPE) > 30.0).int() * 6)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def children() -> tuple[torch.Tensor, torch.Tensor]:
    return TREE.left, TREE.right


def layers(channels: int = 3, size: int = 2, activation: bool = False, corners: bool = False, context: bool = True):
    shapes = ((8, channels, 1, 1), (8,), (6, channels, size, size), (6,), (8, 6, size, size), (8,))
    weights = [(random(*shape, seed=number) - 0.5).float().requires_grad_() for number, shape in enumerate(shapes)]
    return EncoderLayers(*(weights if context else [*weights[:2], None, None, None, None]), activation, corners)


def levels_for(image: torch.Tensor) -> torch.Tensor:
    pixels = image.shape[1] * image.shape[2]
    return torch.empty((4, 2 * pixels + MOST_LEVELS), dtype=torch.int32)


def aggregation_cases() -> list[tuple[object, ...]]:
    images = [photo(height=9, width=11), photo("coffee", 9, 11)]
    levels = torch.stack([DEFINED.exact_cut(DEFINED.lab(one), SHAPE, MergeRule(), 1, levels_for(one)).levels for one in images])
    labels = torch.stack([DEFINED.exact_cut(DEFINED.lab(one), SHAPE, MergeRule(), 7).labels for one in images])
    torn = DEFINED.connected_pieces(labels.view(2, *SHAPE)[0] + torch.arange(99).view(SHAPE) % 5 // 2).flatten()
    scalars = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (0.7, 0.4)]
    features, fixed = random(2, 8, 99).requires_grad_(), random(2, 5, 99)
    some = (features, fixed, Grown(labels, 7, levels))
    cases = [(*some, Kernel(*scalars, kernel), mode) for mode in MODES for kernel in SIMILARITIES]
    kernels = [Kernel(*scalars, kernel, compared) for kernel, compared in (("gaussian", 3), ("tanimoto", 5))]
    seen = [(*some, kernel, mode) for mode in MODES for kernel in kernels]
    grown = Grown(torn[None], int(torn.max()) + 1, levels[:1], False)
    return [*cases, *seen, (features[:1], fixed[:1], grown, Kernel(*scalars))]


def filled_levels(kernels: Kernels, image: torch.Tensor, rule: MergeRule) -> torch.Tensor:
    shape = (int(image.shape[1]), int(image.shape[2]))
    levels = levels_for(image)
    levels.zero_()
    kernels.tree_levels(DEFINED.build(DEFINED.lab(image), torch.ones(shape, dtype=torch.bool), rule, True), levels)
    return levels


def sampling_case(channels: int, dtype: torch.dtype = torch.float64) -> tuple[object, ...]:
    frame = torch.tensor([[[0.0, 0.0, 4.0, 6.0], [2.0, 1.0, 7.0, 9.0], [0.0] * 4, [3.0, 0.0, 6.0, 11.0]]] * 2)
    learned = (random(2, 4, channels), random(1)[0], random(channels, 4, 4))
    change, mix, background = (one.to(dtype).requires_grad_() for one in learned)
    pixels, scale, shift = (one.to(dtype) for one in (random(2, channels, *SHAPE), random(channels), random(channels)))
    return grouped((pixels, change, scale, shift, LABELS, frame, mix, background))


# Arguments of every function; a function without an entry fails below.
CASES: dict[str, Callable[[], list[tuple[object, ...]]]] = {
    "aggregate": aggregation_cases,
    "all_within": lambda: [(PLANES, 1e3), (PLANES, 1.0), (PLANES * torch.nan, 1e3)],
    "best_ancestors": lambda: [(random(197), TREE.parent), (torch.zeros(197, dtype=torch.float64), TREE.parent)],
    "boxes": lambda: [(*torch.nonzero(ALL, as_tuple=True), *children())],
    "build": lambda: [
        *((PLANES, ALL, rule, True) for rule in RULES),
        (PLANES[:, MASK.flatten()].contiguous(), MASK, MergeRule(), True),
        (torch.zeros(2, 99), ALL, MergeRule(Cost.COSINE)),
        (PLANES[:, MASK.flatten()].contiguous(), MASK, MergeRule(Cost.GAUSSIAN, weighted=True, precision=1.0), True),
        (torch.zeros(2, 99), ALL, MergeRule(), True, Place(2 * 40 + 5, 40)),
        (PLANES[:, MASK.flatten()].contiguous(), MASK, MergeRule(), True, Place(0, 11)),
        *((FLAT[:, inside.flatten()].contiguous(), inside, rule, True) for rule in RULES for inside in (ALL, MASK)),
        *((FLAT, ALL, rule, True, Place(2**33 + 5, 40), DEFINED.flat_zones(FLAT, ALL)) for rule in RULES),
    ],
    "build_on_regions": lambda: [
        ((random(99) * 9).ceil().float(), PLANES.T.contiguous(), random(99, 3).float(), DEFINED.pixel_edges(ALL), rule, level)
        for rule in RULES
        for level in (1, 3)
    ],
    "blends": lambda: [
        (planes[:, inside.flatten()].contiguous(), inside, planes[0, inside.flatten()] != 30.0, Place(first, 40))
        for planes in (torch.full((2, 99), 30.0), FLAT)
        for inside in (ALL, MASK)
        for first in (0, 2**33 + 5)
    ],
    "cell_counts": lambda: [(LABELS, 5, (3, 4))],
    "cheapest_cut": lambda: [(random(197) * 9, *children()), (random(197).masked_fill(random(197) > 0.8, torch.nan), *children())],
    "cluster_labels": lambda: [
        (distances, weights, count, rounds, ward)
        for distances, weights in [((random(2, 12, 12) + random(2, 12, 12).mT).float(), random(2, 12).float() + 0.1)]
        for count, rounds, ward in ((8, 8, True), (7, 2, False), (12, 3, True))
    ],
    "colours": lambda: [(IMAGE,), (IMAGE[:1],), (noise(5, 6, 4),), (noise(5, 6, 5) / 255.0,), (photo(height=4, width=4) / 255.0,)],
    "connected_pieces": lambda: [(LABELS[0],), (LABELS[1] % 2,)],
    "cut_labels": lambda: [(TREE.parent, DEFINED.open_largest(TREE.gain, *children(), count)) for count in (0, 20, 98)],
    "denormalised": lambda: [
        ((random(2, 3, 9, 11).to(dtype) * 4.0 - 2.0).requires_grad_(), random(3, seed=1).float(), random(3, seed=2).float())
        for dtype in (torch.float32, torch.float64)
    ],
    "distance_planes": lambda: [
        (PLANES, random(4, 99).float(), SHAPE, unit, scale, None) for unit, scale in ((1.0, 3.0), (0.0, torch.tensor(1e9)))
    ],
    "embed_cells": lambda: [(LABELS, 5, (3, 4), random(12, 6).requires_grad_())],
    "encode": lambda: [
        (random(2, 3, 9, 11).float(), layers()),
        (random(1, 4, 8, 4).float(), layers(4)),
        (random(2, 3, 5, 6).float(), layers(size=3, activation=True, corners=True)),
        (random(1, 3, 5, 6).float(), layers(context=False)),
    ],
    "exact_cut": lambda: [
        (PLANES, SHAPE, MergeRule(), 1),
        (PLANES, SHAPE, MergeRule(Cost.COSINE), 9, None, (3,)),
        (PLANES, SHAPE, MergeRule(), 30, None, (5, 20)),
        *((FLAT, SHAPE, MergeRule(), count) for count in (1, 2, 5, 50)),
        (DEFINED.lab(constant(1, 1)), (1, 1), MergeRule(), 1, levels_for(constant(1, 1))),
    ],
    "equal_components": lambda: [
        (planes[:, inside.flatten()].contiguous(), inside)
        for planes in (PLANES, torch.zeros(3, 99), FLAT)
        for inside in (ALL, MASK)
    ],
    "flat_zones": lambda: [
        (planes[:, inside.flatten()].contiguous(), inside)
        for planes in (PLANES, torch.zeros(3, 99), FLAT)
        for inside in (ALL, MASK)
    ],
    "joins": lambda: [(TREE.parent, torch.arange(98), torch.arange(1, 99))],
    "joint_histogram": lambda: [(LABELS, 5, 4, kernel, 0.3) for kernel in KERNELS],
    "lab": lambda: [(IMAGE,), (IMAGE / 255.0,), (random(3, 4, 4).float() * 1.2 - 0.1,)],
    "merge_tokens": lambda: [
        (tokens, random(2, 6, seed=1).float() + 0.1, torch.tensor([[0, 1, 0, 2, 2, 0], [2, 1, 1, 0, 2, 2]]), 3)
        for tokens in (random(2, 7, 4).float(), random(2, 7, 4).float().requires_grad_(), random(2, 6, 4).double())
    ],
    "moments": lambda: [(PLANES, *children())],
    "move_blocks": lambda: [
        *(
            (LABELS[1], DEFINED.connected_pieces(blocks)[None], planes.view(3, *SHAPE), 3, 10.0, zones)
            for planes, zones in ((PLANES, None), (FLAT, ZONES))
            for blocks in (LABELS[1] * 9 + LABELS[0].clamp_min(0), LABELS[1] * 9 + torch.arange(99).view(SHAPE) % 5)
        ),
        (MASKED, torch.stack((MASKED, DEFINED.connected_pieces(FINER))), PLANES.view(3, *SHAPE), 1, 10.0),
    ],
    "open_largest": lambda: [(TREE.gain, *children(), count) for count in (0, 1, 40, 98)],
    "paint": lambda: [(random(2, 4, 3).requires_grad_(), LABELS.flatten(1))],
    "persistence": lambda: [(TREE.gain, *children())],
    "region_boxes": lambda: [(LABELS, 6)],
    "region_means": lambda: [(random(2, 3, 99).requires_grad_(), LABELS.flatten(1), 6)],
    "region_sizes": lambda: [(LABELS.flatten(1), 6)],
    "region_sums": lambda: [(random(2, 3, 99).requires_grad_(), LABELS.flatten(1), 6)],
    "relax": lambda: [
        (LABELS[0], PLANES.view(3, *SHAPE), 2, 0.2, 10.0),
        (LABELS[0], PLANES.view(3, *SHAPE), 2, 0.2, 10.0, MASK),
        (LABELS[0], torch.zeros(3, *SHAPE), 2, 0.0, 10.0),
    ],
    "sample": lambda: [sampling_case(3), sampling_case(5)],
    "sizes": lambda: [children()],
    "sum_upwards": lambda: [(torch.arange(197, dtype=torch.int32), *children())],
    "misfits": lambda: [
        (planes, *DEFINED.build(planes, ALL, MergeRule())[1:3], floor)
        for planes in (PLANES, FLAT, random(8, 99).float() * 100, random(11, 99).float() * 1e3)
        for floor in (10.0, 1e-6)
    ],
    "scores": lambda: [
        (
            DEFINED.misfits(planes, tree.left, tree.right, 10.0),
            DEFINED.sizes(tree.left, tree.right),
            DEFINED.volumes(*tree[:3], inside),
            tree,
            Scoring(penalty, scale, single, levels),
        )
        for inside in (ALL, MASK)
        for planes in (PLANES[:, inside.flatten()].contiguous(),)
        for tree in (DEFINED.build(planes, inside, MergeRule()),)
        for penalty in Penalty
        for scale, single, levels in ((3.6, 0.0, True), (1.0, 0.5, False), (0.0, 0.0, True))
    ],
    "tree_levels": lambda: [
        (tree, torch.zeros_like(levels_for(IMAGE))) for tree in (TREE, DEFINED.build(FLAT, ALL, MergeRule(), True))
    ],
    "volumes": lambda: [
        (*DEFINED.build(planes[:, inside.flatten()].contiguous(), inside, MergeRule())[:3], inside)
        for planes in (PLANES, FLAT, noise(9, 11).flatten(1).float())
        for inside in (ALL, MASK)
    ],
    "pixelwise_cut": lambda: [
        *(
            (planes, SHAPE, rule, Scoring(penalty, scale, single, True), 1.0, torch.zeros_like(levels_for(IMAGE)))
            for planes in (PLANES, FLAT)
            for rule in RULES
            for penalty, scale, single in ((Penalty.AICC, 0.3, 0.0), (Penalty.CIC, 0.02, 0.5), (Penalty.BIC, 0.0, 0.0))
        ),
        *(
            (random(channels, 99).float() * 30, SHAPE, rule, Scoring(Penalty.AIC, 0.1, 0.0, True), 10.0)
            for channels in (1, 5, 8, 17)
            for rule in (MergeRule(), *RULES[-6:])
        ),
        (torch.zeros(2, 99), SHAPE, MergeRule(), Scoring(Penalty.AICC, 1.0, 0.0, True), 10.0),
        (torch.zeros(2, 1), (1, 1), MergeRule(), Scoring(Penalty.AICC, 1.0, 0.0, True), 10.0),
    ],
    "select_largest": lambda: [
        (scale, count) for scale in (random(9), torch.ones(9).double(), (random(40) * 4).round()) for count in (0, 1, 4, 9)
    ],
    "ward_labels": lambda: [
        (random(2, points, 5).float(), random(2, points, seed=1).float() + 0.1, count, rounds)
        for points, count, rounds in ((23, 12, 8), (5, 4, 2), (2, 1, 8), (1, 1, 8))
    ],
    "whole_bytes": lambda: [
        (images.to(dtype).requires_grad_(),)
        for images in (IMAGE[None] / 255.0, IMAGE[None] / 255.0 + 1e-6, random(2, 3, 9, 11) * 1.2 - 0.1)
        for dtype in (torch.float32, torch.float64)
    ],
}
# Functions that need no twin, with what reaches them.
UNTWINNED: dict[str, Callable[[], list[tuple[object, ...]]]] = {
    "coordinates": lambda: [(SHAPE, 2.0)],
    "cut_batch": lambda: [
        (IMAGE[None], random(1, 2, 99).float(), 3.0, 9, colour, 1.0 * colour, MergeRule(), colour) for colour in (True, False)
    ],
    "choose_batch": lambda: [
        (IMAGE[None].repeat(2, 1, 1, 1), random(2, 1, 99).float(), 3.0, choice, colour, 1.0 * colour, MergeRule(), levels)
        for colour, levels in ((True, True), (False, False))
        for scoring in (Scoring(Penalty.AIC, 0.1, 0.0, True),)
        for choice in (
            Choice(None, level=2),
            Choice(None, regions=7),
            Choice(scoring, at_most=5),
            *(Choice(scoring, 10.0, pixelwise) for pixelwise in (True, False)),
        )
    ],
    "lightness": lambda: [(IMAGE[:1],)],
    "pixel_edges": lambda: [(MASK,)],
    "region_minima": lambda: [(random(2, 3, 99), LABELS.flatten(1), 6)],
}
LEARNED = {"aggregate", "embed_cells", "paint", "region_means", "region_sums", "sample"}
DIFFERENTIABLE = {*LEARNED, "denormalised", "encode", "whole_bytes"}


def tensors(value: object) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [one for part in value for one in tensors(part)] if isinstance(value, tuple | list) else []


def test_every_function_has_a_case():
    assert set(CASES) == set(vars(type(COMPILED))) & set(NAMES)
    assert set(CASES) | set(UNTWINNED) == set(NAMES)


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_twin_stands_beside_its_definition_under_its_name(name):
    definition, twin = getattr(DEFINED, name), getattr(COMPILED, name)
    assert definition is getattr(Kernels, name)
    assert definition.__module__.endswith(".definition")
    assert twin.__module__ == definition.__module__.replace(".definition", ".compiled")
    assert definition.__name__ == twin.__name__ == name
    assert list(inspect.signature(definition).parameters) == list(inspect.signature(twin).parameters)


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_twin_gives_what_its_definition_gives(name):
    for arguments in CASES[name]():
        expected, found = (getattr(kernels, name)(*arguments) for kernels in (DEFINED, COMPILED))
        if isinstance(expected, bool):
            assert expected == found
        for a, b in zip(tensors(expected), tensors(found), strict=True):
            assert a.dtype == b.dtype
            if name not in LEARNED:
                assert torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0))
            if name not in DIFFERENTIABLE:
                continue
            assert torch.allclose(a, b, atol=1e-5)
            leaves = [one for one in tensors(arguments) if one.requires_grad]
            weights = torch.randn(a.shape, generator=torch.Generator().manual_seed(1)).to(a)
            gradients = (torch.autograd.grad((one * weights).sum(), leaves, materialize_grads=True) for one in (a, b))
            for first, second in zip(*gradients, strict=True):
                assert torch.allclose(first, second, atol=1e-4 * max(1.0, float(first.abs().max())))


@pytest.mark.parametrize("depth", [8, 5])
@torch.no_grad()
def test_raw_weights_without_gradients_are_those_of_the_definition(depth):
    *_, (_, fixed, torn, kernel) = aggregation_cases()
    whole = Grown(LABELS[1:].flatten(1) * 0, 1, torn.levels)
    features = random(1, depth, 99, seed=3)
    for grown in (torn, whole, Grown(torn.labels * 0 + torch.arange(99) // 50, 2, torn.levels, False)):
        for planes, seen in ((fixed, None), (fixed[:, :0], None), (fixed, 3)):
            chosen = kernel._replace(compared=seen)
            expected, found = (one.aggregate(features, planes, grown, chosen, "raw") for one in (DEFINED, COMPILED))
            assert torch.allclose(expected, found, atol=1e-12)


@pytest.mark.parametrize("kernels", [DEFINED, COMPILED], ids=["torch", "numba"])
def test_planes_that_are_not_learned_are_also_given_as_distances_have_them(kernels):
    fixed = torch.empty(5, 99)
    planes = kernels.distance_planes(PLANES, torch.zeros(1, 99), SHAPE, 2.0, 1.0, fixed)
    assert torch.equal(fixed, planes[:5] / UNIT)


@pytest.mark.parametrize("rule", [MergeRule(), MergeRule(Cost.COSINE), MergeRule(energy=Energy.SQUARED_ERROR)])
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (9, 11), (30, 26)])
def test_the_levels_of_a_tree_are_those_in_which_it_grew(rule, shape):
    image = photo(height=shape[0], width=shape[1])
    a, b = (filled_levels(kernels, image, rule) for kernels in (DEFINED, COMPILED))
    assert torch.equal(a, b)
    if rule.prunable:
        kept = DEFINED.exact_cut(DEFINED.lab(image), shape, rule, 1, levels_for(image)).levels
        assert torch.equal(a, kept)
    for kernels in (DEFINED, COMPILED):
        kept = torch.zeros_like(a)
        kernels.pixelwise_cut(DEFINED.lab(image), shape, rule, Scoring(Penalty.AICC, 1.0, 0.0, True), 10.0, kept)
        assert torch.equal(a, kept)


def test_the_cases_reach_every_line_of_the_definitions():
    modules = [import_module(name) for name in sorted({getattr(Kernels, name).__module__ for name in NAMES})]
    files = {module.__file__ for module in modules}
    defined = Path(pixtree.kernels.__file__).parent.glob("*/*/definition.py")
    assert files == set(map(str, defined))
    reached: set[tuple[str, int]] = set()

    def watch(frame, event, _):
        if frame.f_code.co_filename not in files:
            return None
        reached.add((frame.f_code.co_filename, frame.f_lineno))
        return watch

    light_table_on.cache_clear()
    before = sys.gettrace()
    sys.settrace(watch)
    try:
        for name, arguments_of in {**CASES, **UNTWINNED}.items():
            for arguments in arguments_of():
                getattr(DEFINED, name)(*arguments)
        fixed = torch.empty(5, 99)
        DEFINED.distance_planes(PLANES, torch.zeros(1, 99), SHAPE, 1.0, 1.0, fixed)
        with pytest.raises(ValueError, match="kernel of positions"):
            DEFINED.joint_histogram(LABELS, 5, 4, "box")
        with pytest.raises(ValueError, match="an aggregation is one of"):
            DEFINED.aggregate(*aggregation_cases()[0][:4], "sum")
        with pytest.raises(ValueError, match="of 3 channels"):
            DEFINED.encode(torch.zeros(1, 4, 8, 8), layers())
    finally:
        sys.settrace(before)
    missed = sorted({(Path(file).parent.name, line) for file, line in body_lines(modules) if (file, line) not in reached})
    assert not missed


def body_lines(modules: list[object]) -> set[tuple[str, int]]:
    """The executable lines of every function body."""
    found: set[tuple[str, int]] = set()
    for module in modules:
        source = Path(module.__file__)
        pending = [compile(source.read_text(), str(source), "exec")]
        while pending:
            code = pending.pop()
            pending += [one for one in code.co_consts if inspect.iscode(one)]
            if code.co_flags & inspect.CO_OPTIMIZED:  # functions, not modules and classes
                lines = {line for _, _, line in code.co_lines() if line is not None}
                found |= {(str(source), line) for line in lines - {code.co_firstlineno}}
    return found
