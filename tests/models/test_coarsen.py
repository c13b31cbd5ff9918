"""Coarsened models: the model itself where nothing merges, exact counts, the way back, gradients, and plain errors."""

from copy import deepcopy
from dataclasses import replace
from importlib import import_module
from itertools import pairwise

import pytest
import torch
from pictures import photo
from tiny_models import FAMILIES, far, images, tiny
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import pixtree
from pixtree.models.coarsening import RULES, ConstantNumber, ConstantShare, DecreasingNumber, EverySecond, Speed, best_schedule
from pixtree.models.coarsening.blocks import attend, think
from pixtree.models.coarsening.clock import Clock
from pixtree.models.coarsening.schedules import Wanted
from pixtree.models.timm_import import timm

param_groups_layer_decay = import_module("timm.optim").param_groups_layer_decay

DEPTH = 4
ROTARY = ("eva02_tiny_patch14_224", "vit_small_patch16_dinov3", "vit_small_patch16_rope_mixed_224")
POOLED = ("vit_base_patch16_siglip_224", "vit_base_patch16_gap_224", "eva02_tiny_patch14_224")


def model_of(name="vit_tiny_patch16_224", **options):
    return tiny(name, depth=DEPTH, **options)


def falling(model, step=2):
    tokens = model.patch_embed.num_patches
    return [tokens - step * (number + 1) for number in range(DEPTH)]


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_with_all_compute_it_is_the_model(name):
    model, batch = model_of(name), images(FAMILIES[name])
    same = pixtree.coarsen(model, compute=1.0)
    assert same.counts == (model.patch_embed.num_patches,) * DEPTH
    assert far(same(batch), model(batch)) <= 1e-5
    assert far(same.forward_features(batch), model.forward_features(batch)) <= 1e-5


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_a_block_in_two_halves_is_the_block(name):
    model, batch = model_of(name), images(FAMILIES[name])
    positioned = model._pos_embed(model.patch_embed(batch))
    rows, rope = positioned if isinstance(positioned, tuple) else (positioned, None)
    rope = rope[1] if "mixed" in name and rope is not None else rope
    options = {} if rope is None else {"rope": rope}
    for whole in (False, True):
        halves = think(model.blocks[1], attend(model.blocks[1], rows, None, rope, whole)[0])
        assert far(halves, model.blocks[1](rows, **options)) <= 1e-4


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_tokens_fall_as_the_schedule_says_in_every_family(name):
    model, batch = model_of(name), images(FAMILIES[name])
    coarse = pixtree.coarsen(model, schedule=falling(model))
    rows, tree = coarse.forward_tree(batch)
    assert list(tree.counts) == falling(model)
    assert rows.shape == (2, model.num_prefix_tokens + falling(model)[-1], 48)
    assert bool(coarse(batch).isfinite().all())
    assert far(coarse(batch), model(batch)) > 1e-3


@pytest.mark.parametrize("rule", RULES)
def test_rules_work_inside_autocast_and_gradients_flow(rule):
    model, batch = model_of("vit_tiny_patch16_224"), images(FAMILIES["vit_tiny_patch16_224"])
    coarse = pixtree.coarsen(model, schedule=falling(model), rule=rule)
    with torch.autocast("cpu", torch.bfloat16):
        found = coarse(batch)  # rounded rows may merge otherwise
    assert bool(found.isfinite().all())
    found.float().square().mean().backward()
    assert all(one.grad is not None for one in coarse.parameters())


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_an_image_in_a_batch_has_the_logits_it_has_alone(name):
    model, batch = model_of(name), images(FAMILIES[name], batch=3)
    coarse = pixtree.coarsen(model, schedule=falling(model))
    alone = torch.cat([coarse(batch[i : i + 1]) for i in range(3)])
    assert far(coarse(batch), alone) <= 1e-5
    assert torch.equal(coarse(batch), coarse(batch))


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "deit_tiny_distilled_patch16_224", *POOLED, *ROTARY])
def test_compute_is_what_torch_counts(name):
    model, batch = model_of(name).requires_grad_(False), images(FAMILIES[name], batch=1)
    coarse = pixtree.coarsen(model, schedule=falling(model))
    for one, expected in ((coarse, coarse.gflops), (model, coarse.gflops / coarse.compute)):
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            one(batch)
        assert counter.get_total_flops() / 1e9 == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    "shape",
    [ConstantShare(0), ConstantShare(1), EverySecond(0), ConstantShare(0, every=2), ConstantNumber(0), DecreasingNumber(0)],
    ids=str,
)
@pytest.mark.parametrize("compute", [0.9, 0.7, 0.5])
def test_schedules_come_near_the_compute_from_below(shape, compute):
    model = timm.create_model("vit_tiny_patch16_224")
    coarse = pixtree.coarsen(model, compute, schedule=shape)
    assert compute - 0.02 <= coarse.compute <= compute
    counts = (196, *coarse.counts)
    assert all(before >= after >= before / 2 for before, after in pairwise(counts))


def test_near_half_the_compute_every_second_block_merges():
    model = timm.create_model("vit_tiny_patch16_224")
    for compute, merging in ((0.7, 9), (0.5, 6), (0.4, 11)):
        counts = (196, *pixtree.coarsen(model, compute).counts)
        assert sum(after < before for before, after in pairwise(counts)) == merging
    assert pixtree.coarsen("vit_tiny_patch16_224", 0.5, depth=8).compute <= 0.5


def test_a_count_of_tokens_stands_for_the_compute_of_as_many_throughout():
    model = timm.create_model("vit_tiny_patch16_224")
    assert pixtree.coarsen(model, tokens=100).compute == pytest.approx(0.478, abs=0.01)
    assert pixtree.coarsen(model, tokens=196).counts == (196,) * 12
    assert pixtree.coarsen(model).counts == pixtree.coarsen(model, 0.5).counts


@pytest.mark.parametrize("rule", RULES)
@torch.no_grad()
def test_every_rule_leaves_exact_counts_and_sizes_that_add_up(rule):
    model, batch = model_of(img_size=96), images(96)
    coarse = pixtree.coarsen(model, schedule=[30, 18, 10, 5], rule=rule)
    _, tree = coarse.forward_tree(batch)
    assert tree.counts == (30, 18, 10, 5)
    for labels, count in zip(tree.labels, tree.counts, strict=True):
        assert all(one.unique().tolist() == list(range(count)) for one in labels)
    assert far(coarse(batch), torch.cat([coarse(batch[:1]), coarse(batch[1:])])) <= 1e-5


@torch.no_grad()
def test_partitions_are_nested_from_block_to_block():
    model = model_of(img_size=96)
    _, tree = pixtree.coarsen(model, schedule=[30, 18, 10, 5]).forward_tree(images(96))
    for finer, coarser in pairwise(tree.labels):
        for fine, rough in zip(finer, coarser, strict=True):
            assert len({(int(a), int(b)) for a, b in zip(fine, rough, strict=True)}) == int(fine.max()) + 1


@torch.no_grad()
def test_equal_tokens_merge_and_cost_nothing():
    # Without positions, the patches of an image of two colours are two kinds of equal tokens: merging them changes no answer.
    model = model_of()
    model.pos_embed.zero_()
    batch = torch.zeros(1, 3, 64, 64)
    batch[:, :, :, 32:] = 1.0
    coarse = pixtree.coarsen(model, schedule=[8, 4, 2, 2])
    assert far(coarse(batch), model(batch)) <= 1e-4
    _, tree = coarse.forward_tree(batch)
    assert tree.maps()[0, 0, 0] != tree.maps()[0, 0, 63]
    assert far(coarse.forward_features(batch), model.forward_features(batch)) <= 1e-4


@torch.no_grad()
def test_so_it_is_where_the_head_pools_tokens():
    for name in ("vit_base_patch16_gap_224", "vit_base_patch16_siglip_224"):
        model = model_of(name)
        model.pos_embed.zero_()
        batch = torch.zeros(1, 3, 64, 64)
        batch[:, :, :, 48:] = 1.0
        assert far(pixtree.coarsen(model, schedule=[8, 4, 2, 2])(batch), model(batch)) <= 1e-4


@pytest.mark.parametrize("name", [*POOLED, "vit_tiny_patch16_224", "deit_tiny_distilled_patch16_224"])
@torch.no_grad()
def test_features_and_head_make_the_logits(name):
    model, batch = model_of(name), images(FAMILIES[name])
    coarse = pixtree.coarsen(model, schedule=falling(model))
    features = coarse.forward_features(batch)
    assert features.shape == model.forward_features(batch).shape
    assert far(coarse.forward_head(features), coarse(batch)) <= 1e-5


@torch.no_grad()
def test_intermediates_are_maps_over_the_patch_grid():
    model, batch = model_of(), images(64)
    coarse = pixtree.coarsen(model, schedule=[16, 12, 8, 8])
    final, maps = coarse.forward_intermediates(batch, indices=[0, 2], norm=True)
    expected = model.forward_intermediates(batch, indices=[0], norm=True)[1][0]
    assert far(maps[0], expected) <= 1e-5  # before anything merges
    assert maps[1].shape == (2, 48, 4, 4)
    assert far(final, coarse.forward_features(batch)) <= 1e-6
    _, tree = coarse.forward_tree(batch)
    distinct = maps[1][0].flatten(1).T.unique(dim=0)
    assert len(distinct) == tree.counts[2]
    rows = coarse.forward_intermediates(batch, indices=1, output_fmt="NLC", return_prefix_tokens=True, intermediates_only=True)
    assert [one.shape for one in rows[0]] == [(2, 16, 48), (2, 1, 48)]
    with pytest.raises(ValueError, match="NCHW or NLC"):
        coarse.forward_intermediates(batch, output_fmt="NHWC")


@torch.no_grad()
def test_values_of_tokens_go_back_to_pixels():
    model, batch = model_of(), images(64)
    _, tree = pixtree.coarsen(model, schedule=[12, 9, 6, 4]).forward_tree(batch)
    values = torch.arange(4.0).view(1, 4, 1).expand(2, 4, 1)
    assert torch.equal(tree.to_pixels(values)[:, 0].long(), tree.maps())
    assert tree.to_pixels(torch.rand(2, 9, 3), block=1).shape == (2, 3, 64, 64)
    with pytest.raises(ValueError, match="drop prefix tokens"):
        tree.unfold(torch.rand(2, 5, 3))


@torch.no_grad()
def test_the_torch_backend_gives_the_same_logits():
    model, batch = model_of(img_size=96), images(96)
    counts = [30, 18, 10, 5]
    expected = pixtree.coarsen(model, schedule=counts, backend="numba")(batch)
    assert torch.equal(pixtree.coarsen(model, schedule=counts, backend="torch")(batch), expected)


def test_gradients_reach_every_weight_and_checkpointing_keeps_them():
    for name in ("vit_tiny_patch16_224", "vit_small_patch16_dinov3"):
        model = model_of(name)
        coarse = pixtree.coarsen(model, schedule=falling(model)).train()
        batch, found = images(FAMILIES[name]), []
        for enabled in (False, True):
            coarse.set_grad_checkpointing(enabled)
            coarse.zero_grad()
            coarse(batch).square().sum().backward()
            weights = {key: one for key, one in coarse.named_parameters() if one.requires_grad}
            assert all(one.grad is not None and bool(one.grad.isfinite().all()) for one in weights.values())
            found.append({key: one.grad.clone() for key, one in weights.items()})
        assert all(torch.allclose(found[0][key], found[1][key], atol=1e-4, rtol=1e-4) for key in found[0])


def test_gradients_are_those_of_differences():
    torch.manual_seed(0)
    model = model_of().double()
    coarse = pixtree.coarsen(model, schedule=[12, 10, 8, 8])
    batch = images(64, batch=1).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: coarse(x)[:, :2].sum(), (batch,), eps=1e-5, atol=1e-4, fast_mode=True)


@torch.no_grad()
def test_region_tokens_and_token_trees_work_together():
    batch = torch.stack([photo(height=64, width=64), photo("coffee", 64, 64)])
    for name in ("vit_tiny_patch16_224", "vit_small_patch16_dinov3", "vit_small_patch16_rope_mixed_224"):
        regions = pixtree.retrofit(model_of(name), tokens=14)
        assert far(pixtree.coarsen(regions, 1.0)(batch), regions(batch)) <= 1e-5
        coarse = pixtree.coarsen(regions, schedule=[12, 10, 8, 6])
        assert coarse.vit is regions.vit
        _, tree = coarse.forward_tree(batch)
        assert tree.counts == (12, 10, 8, 6)
        assert tree.maps().shape == (2, 64, 64)
        assert coarse.forward_intermediates(batch, indices=1)[1][0].shape == (2, 48, 4, 4)
        assert far(coarse(batch), torch.cat([coarse(batch[:1]), coarse(batch[1:])])) <= 1e-4


@torch.no_grad()
def test_other_image_sizes_keep_the_shares():
    model = tiny("vit_tiny_patch16_224", depth=DEPTH, dynamic_img_size=True)
    coarse = pixtree.coarsen(model, schedule=[16, 12, 8, 4])
    _, tree = coarse.forward_tree(images(96, 128))
    assert tree.counts == (48, 36, 24, 12)
    assert tree.maps().shape == (2, 96, 128)


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_a_smaller_input_is_what_timm_makes_of_it(name):
    model = model_of(name)
    size = 3 * model.patch_embed.patch_size[0]
    small, batch = deepcopy(model), images(size)
    small.set_input_size(img_size=(size, size))
    same = pixtree.coarsen(model, schedule=[9] * DEPTH, input_size=size)
    assert far(same(batch), small(batch)) <= 1e-5
    coarse = pixtree.coarsen(model, schedule=[9, 7, 5, 4], input_size=size)
    assert far(coarse(batch), pixtree.coarsen(small, schedule=[9, 7, 5, 4])(batch)) <= 1e-4


@torch.no_grad()
def test_larger_images_are_resized_and_their_pixels_find_their_tokens():
    model = model_of()
    coarse = pixtree.coarsen(model, schedule=[9, 7, 5, 4], input_size=48)
    _, tree = coarse.forward_tree(images(64))
    assert tree.base.shape == (1, 64, 64)
    assert tree.base.unique().tolist() == list(range(9))
    assert tree.base[0, 0, [0, 20, 22, 63]].tolist() == [0, 0, 1, 2]
    assert coarse.forward_intermediates(images(64), indices=1)[1][0].shape == (2, 48, 3, 3)
    assert coarse.compute < 9 / 16


@torch.no_grad()
def test_weights_are_shared_and_the_model_stays_as_it_is():
    model, batch = model_of(), images(64)
    before = model(batch)
    coarse = pixtree.coarsen(model, schedule=falling(model))
    coarse(batch)
    assert torch.equal(model(batch), before)
    assert {id(weight) for weight in coarse.parameters()} == {id(weight) for weight in model.parameters()}
    assert type(model.blocks[0]).__module__.startswith("timm.")


def test_what_timm_knows_of_a_model_is_there():
    model = model_of("vit_small_patch14_reg4_dinov2")
    coarse = pixtree.coarsen(model, schedule=falling(model))
    assert (coarse.num_features, coarse.embed_dim, coarse.num_classes, coarse.num_prefix_tokens) == (48, 48, 7, 5)
    assert coarse.pretrained_cfg is model.pretrained_cfg
    assert coarse.global_pool == "token"
    assert coarse.get_classifier() is model.head
    assert "model.pos_embed" in coarse.no_weight_decay()
    groups = param_groups_layer_decay(coarse, layer_decay=0.5)
    assert len({group["lr_scale"] for group in groups}) == DEPTH + 2
    coarse.reset_classifier(3)
    assert coarse.eval()(images(70)).shape == (2, 3)


@torch.no_grad()
def test_the_search_finds_the_schedule_that_changes_answers_least():
    model = model_of(img_size=96)
    found = best_schedule(
        model, [images(96), images(96, batch=1)], 0.7, shapes=(ConstantShare(0), ConstantShare(1), ConstantNumber(0))
    )
    assert [one.divergence for one in found] == sorted(one.divergence for one in found)
    assert pixtree.coarsen(model, schedule=found[0].schedule).compute <= 0.7
    with pytest.raises(ValueError, match="no shape reaches"):
        best_schedule(model, [images(96)], 0.01)


@torch.no_grad()
def test_a_speed_is_reached_by_measured_time_or_refused():
    model = model_of(img_size=160).train()
    assert pixtree.coarsen(model, speed=Speed(1.0, batch=2)).counts == (100,) * DEPTH
    assert model.training
    with pytest.raises(ValueError, match="times the speed here, got speed=1000"):
        pixtree.coarsen(model, speed=1000.0)


@pytest.mark.parametrize("name", ["vit_small_patch16_dinov3", "vit_base_patch16_siglip_224"])
def test_speeds_are_measured_with_rotary_positions_and_without_a_class_token(name):
    model = model_of(name)
    for held in (model, pixtree.retrofit(model, tokens=14)):
        with pytest.raises(ValueError, match="times the speed here, got speed=1000"):
            pixtree.coarsen(held, speed=1000.0)


def test_a_schedule_by_time_takes_the_time_that_was_asked_for():
    clock = Clock((10, 100), (1.0, 10.0), (2.0, 20.0), (0.5, 1.0), whole=365.0, rest=5.0, closes=False)
    for speed in (1.1, 1.5, 1.8):
        counts = Wanted(speed=speed, schedule=ConstantShare(1)).timed(clock, 12, 100).counts(100)
        assert clock.whole / clock.of(counts, 100) == pytest.approx(speed, abs=0.02)
        assert clock.whole / clock.of(counts, 100) >= speed - 1e-6


def test_a_clock_adds_up_what_it_measured():
    clock = Clock((2, 4), (1.0, 3.0), (2.0, 6.0), (0.5, 0.7), whole=28.0, rest=10.0, closes=False)
    assert clock.of((4, 4), 4) == clock.whole
    assert clock.of((3, 1), 4) == pytest.approx(10.0 + (3.0 + 4.0 + 0.7) + (2.0 + 2.0 + 0.6))
    assert replace(clock, closes=True).of((4, 3), 4) == pytest.approx(10.0 + 9.0 + (3.0 + 2.0))


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "deit_tiny_distilled_patch16_224", "vit_small_patch14_reg4_dinov2"])
@torch.no_grad()
def test_logits_do_not_depend_on_the_tokens_that_no_head_reads(name):
    model = model_of(name)
    coarse, batch = pixtree.coarsen(model, schedule=falling(model)), images(FAMILIES[name])
    seen = []
    hook = model.blocks[-1].mlp.register_forward_hook(lambda _, given, __: seen.append(given[0].shape[1]))
    logits = coarse(batch)
    features = coarse.forward_features(batch)
    hook.remove()
    assert far(logits, coarse.forward_head(features)) <= 1e-5
    assert seen == [model.num_prefix_tokens, model.num_prefix_tokens + falling(model)[-1]]


def test_impossible_wishes_are_refused_in_one_sentence():
    model = model_of()
    for options, words in (
        ({"compute": 0.0}, "above 0 and up to 1"),
        ({"compute": 1.5}, "above 0 and up to 1"),
        ({"compute": 0.01}, "needs at least"),
        ({"tokens": 17}, "has 16 tokens"),
        ({"tokens": 0}, "has 16 tokens"),
        ({}, "needs at least"),  # half the compute, of four blocks with four patches a side
        ({"compute": 0.5, "tokens": 9}, "give one"),
        ({"schedule": [16, 16]}, "one count per block, 4 here"),
        ({"schedule": [7, 7, 7, 7]}, "between half and all"),
        ({"schedule": [12, 13, 12, 12]}, "between half and all"),
        ({"schedule": [9] * 4, "input_size": 50}, "multiples of the patch"),
        ({"rule": "best"}, "one of tree, tome"),
        ({"backend": "cuda"}, "a backend is one of"),
        ({"pretrained": True}, "drop them"),
        ({"speed": 0.5}, "a factor of at least 1"),
        ({"speed": float("nan")}, "a factor of at least 1"),
        ({"speed": 1.5, "compute": 0.5}, "got compute and speed; give one"),
    ):
        with pytest.raises(ValueError, match=words):
            pixtree.coarsen(model, **options)
    with pytest.raises(ValueError, match="coarsened already"):
        pixtree.coarsen(pixtree.coarsen(model, 1.0))
    with pytest.raises(ValueError, match="retrofit with tokens="):
        pixtree.coarsen(pixtree.retrofit(model, budget=pixtree.Criterion("aicc")))
    with pytest.raises(ValueError, match="with fewer tokens="):
        pixtree.coarsen(pixtree.retrofit(model, tokens=9), input_size=48)
    with pytest.raises(ValueError, match="nothing stands between"):
        pixtree.coarsen("vit_small_patch16_18x2_224")
    with pytest.raises(ValueError, match="supported are"):
        pixtree.coarsen("resnet18")


def test_a_name_makes_a_model():
    coarse = pixtree.coarsen("vit_tiny_patch16_224", 0.5, img_size=96, depth=6, num_classes=3).eval()
    assert coarse(images(96)).shape == (2, 3)
    assert coarse.compute <= 0.5


def test_refusals_name_coarsening_and_the_real_reason():
    small = {"embed_dim": 48, "depth": 1, "num_heads": 3}
    with pytest.raises(ValueError, match="Beit cannot be coarsened: its relative positions"):
        pixtree.coarsen(timm.create_model("beit_base_patch16_224", **small))
    with pytest.raises(ValueError, match="beit_base_patch16_224 cannot be coarsened: its relative positions"):
        pixtree.coarsen("beit_base_patch16_224")
