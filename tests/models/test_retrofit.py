"""Retrofits: padding that nobody sees, counts and sizes at will, what a timm model can do, and errors that say what to do."""

from importlib import import_module

import pytest
import torch
from pictures import constant, photo
from tiny_models import FAMILIES, SMALL, far, images, tiny

import pixtree
from pixtree.models.backbone import TokenSequence
from pixtree.models.timm_import import timm
from pixtree.partitioners import NAMES, partitioner
from pixtree.tokenizer.tokenizer import Tokenizer
from pixtree.trees.criteria import Criterion

MASKED = (
    "vit_tiny_patch16_224",
    "deit_tiny_distilled_patch16_224",
    "vit_base_patch16_siglip_224",
    "vit_base_patch16_gap_224",
    "eva02_tiny_patch14_224",
    "vit_small_patch16_dinov3",
    "vit_small_patch16_rope_mixed_224",
    "vit_pe_core_tiny_patch16_384",
)


def pictures(size=64):
    return torch.stack([photo(height=size, width=size), constant(size, size), photo("coffee", size, size)])


@pytest.mark.parametrize("name", MASKED)
@torch.no_grad()
def test_an_image_in_a_padded_batch_has_the_logits_it_has_alone(name):
    model = pixtree.retrofit(tiny(name), budget=Criterion("aicc", penalty=0.3))
    batch = pictures(FAMILIES[name])
    counts = model.tokens(batch).partition.counts
    assert len(set(counts.tolist())) > 1
    alone = torch.cat([model(batch[i : i + 1]) for i in range(3)])
    assert far(model(batch), alone) <= 1e-5


@pytest.mark.parametrize("pool", ["max", "avgmax"])
@torch.no_grad()
def test_other_poolings_do_not_see_padding_either(pool):
    model = pixtree.retrofit(tiny("vit_tiny_patch16_224", global_pool=pool), budget=Criterion("aicc", penalty=0.3))
    batch = pictures()
    assert far(model(batch), torch.cat([model(batch[i : i + 1]) for i in range(3)])) <= 1e-5


@torch.no_grad()
def test_the_head_alone_takes_the_mask_of_the_tokens():
    model = pixtree.retrofit(tiny("vit_base_patch16_gap_224"), budget=Criterion("aicc", penalty=0.3))
    seen = model.tokens(pictures()).sequence_mask()
    assert far(model.forward_head(model.forward_features(pictures()), seen=seen), model(pictures())) <= 1e-5


@torch.no_grad()
def test_a_model_runs_at_any_count_and_any_size():
    model = pixtree.retrofit(tiny("vit_tiny_patch16_224"), tokens=12)
    assert model.tokens(images(64)).features.shape[1] == 12
    for height, width, tokens in ((64, 64, 30), (40, 96, 7), (17, 5, 85), (100, 33, 1)):
        found = model.tokens(images(height, width), tokens=tokens)
        assert found.features.shape == (2, tokens, 48)
        assert model.sequence(found).seen is None
        assert bool(model(images(height, width), tokens=tokens).isfinite().all())


@pytest.mark.parametrize("partitioner", [None, "grid", "quadtree"])
@torch.no_grad()
def test_without_a_count_there_are_as_many_tokens_as_the_image_has_patches(partitioner, tmp_path):
    model = pixtree.retrofit("vit_small_patch14_dinov2", partitioner=partitioner, img_size=126, **SMALL).eval()
    model.save_pretrained(tmp_path)
    for one in (model, type(model).from_pretrained(tmp_path)):
        for size, count in (((126, 126), 81), ((56, 56), 16), ((60, 30), 15), ((10, 15), 2)):
            assert one.tokens(images(*size)).partition.counts.tolist() == [count, count]
            assert one.partition(images(*size)).counts.tolist() == [count, count]


@torch.no_grad()
def test_a_partitioner_with_a_count_of_its_own_keeps_it():
    model = pixtree.retrofit(tiny("vit_tiny_patch16_224"), partitioner=partitioner("quadtree", 9))
    assert model.partition(images(96)).counts.tolist() == [9, 9]


@pytest.mark.parametrize("name", [None, "grid", "quadtree"])
def test_more_tokens_than_pixels_are_refused_before_any_work(name):
    model = pixtree.retrofit(tiny("vit_tiny_patch16_224"), partitioner=name)
    for call in (model, model.partition, model.tokens, model.forward_features):
        with pytest.raises(ValueError, match="10×12 pixels cannot have 100000 regions; ask for") as error:
            call(images(10, 12), tokens=100_000)
        assert "\n" not in str(error.value)
    own = pixtree.retrofit(tiny("vit_tiny_patch16_224"), tokens=121)
    with pytest.raises(ValueError, match="have 121 regions"):
        own(images(10, 12))
    with pytest.raises(ValueError, match="whole number"):
        model(images(10, 12), tokens=2.5)


def test_a_partition_and_a_count_do_not_go_together():
    model = pixtree.retrofit(tiny("vit_tiny_patch16_224"))
    with pytest.raises(ValueError, match="give one of them"):
        model(images(32), model.partition(images(32)), tokens=5)


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_every_partitioner_works_by_name(name):
    model = pixtree.retrofit(tiny("vit_tiny_patch16_224"), tokens=16, partitioner=name)
    assert model(pictures()[[0, 2]]).shape == (2, 7)


@torch.no_grad()
def test_a_partitioner_of_ones_own_works():
    grid = pixtree.retrofit(tiny("vit_tiny_patch16_224"), partitioner="grid")
    own = pixtree.retrofit(tiny("vit_tiny_patch16_224"), partitioner=grid.partitioner)
    assert torch.equal(own(images(64)), grid(images(64)))
    assert grid(images(64), tokens=9).shape == (2, 7)


@torch.no_grad()
def test_a_partition_computed_beforehand_gives_the_same_logits():
    model, batch = pixtree.retrofit(tiny("vit_small_patch16_dinov3"), tokens=12), pictures()
    assert torch.equal(model(batch, model.partition(batch)), model(batch))


@pytest.mark.parametrize("aggregation", ["raw", "normalised"])
def test_weights_of_the_tree_refuse_regions_that_it_did_not_make(aggregation):
    given = Tokenizer.paper(aggregation=aggregation)
    model, batch = pixtree.retrofit(tiny("vit_tiny_patch16_224"), tokens=12, tokenizer=given), pictures()
    with pytest.raises(ValueError, match=f'{aggregation} weights follow the rounds of the tree.*aggregation="straight"') as error:
        model(batch, model.partition(batch))
    assert "\n" not in str(error.value)
    for kind in (given, given.options, {"aggregation": aggregation}):
        with pytest.raises(ValueError, match="got regions of partitioner='grid'"):
            pixtree.retrofit(tiny("vit_tiny_patch16_224"), partitioner="grid", tokenizer=kind)


@pytest.mark.parametrize("aggregation", ["straight", "mean"])
@torch.no_grad()
def test_all_others_take_a_partition_computed_beforehand_to_the_same_logits(aggregation):
    given = Tokenizer.paper(aggregation=aggregation)
    model, batch = pixtree.retrofit(tiny("vit_tiny_patch16_224"), tokens=12, tokenizer=given), pictures()
    assert far(model(batch, model.partition(batch)), model(batch)) <= 1e-5


def test_the_encoder_of_a_given_tokenizer_is_continued():
    given = Tokenizer(features=10, compactness=0.2)
    with torch.no_grad():
        given.regions.colour.bias.add_(0.1)
    model = pixtree.retrofit(tiny("vit_tiny_patch16_224"), tokens=9, tokenizer=given)
    assert torch.equal(model.tokenizer.regions.colour.bias, given.regions.colour.bias)
    assert model.tokenizer.options.tree.compactness == 0.2
    assert pixtree.retrofit(tiny("vit_tiny_patch16_224"), tokenizer={"mix": 0.7}).tokenizer.options.sampling.mix == 0.7


def test_what_timm_knows_of_a_model_is_there():
    model = pixtree.retrofit(tiny("vit_small_patch14_reg4_dinov2"), tokens=9)
    assert model.pretrained_cfg["mean"] == timm.data.IMAGENET_DEFAULT_MEAN
    assert (model.num_features, model.embed_dim, model.num_classes, model.num_prefix_tokens) == (48, 48, 7, 5)
    assert len(model.feature_info) == 2
    assert model.get_classifier() is model.vit.head
    model.reset_classifier(0)
    assert model.eval()(images(70)).shape == (2, 48)


@torch.no_grad()
def test_intermediates_of_regions_are_maps_over_the_patch_grid():
    model = pixtree.retrofit(tiny("vit_tiny_patch16_224"), tokens=9)
    maps = model.forward_intermediates(images(64, 80), indices=1, intermediates_only=True)
    rows = model.forward_intermediates(images(64, 80), indices=1, intermediates_only=True, output_fmt="NLC")
    assert maps[0].shape == (2, 48, 4, 5)
    assert rows[0].shape == (2, 9, 48)


def test_one_step_of_lamb_with_layer_decay_changes_tokenizer_and_backbone():
    torch.manual_seed(0)
    model = pixtree.retrofit(tiny("vit_tiny_patch16_224"), tokens=9).train()
    optimizer = import_module("timm.optim").create_optimizer_v2(model, opt="lamb", lr=1e-2, weight_decay=0.05, layer_decay=0.5)
    layers = timm.models.group_parameters(model, model.group_matcher(), reverse=True)
    numbers = {layers[name] for name in layers if name.startswith("tokenizer.")}
    assert numbers == {0}
    assert [layers[f"backbone.vit.{name}"] for name in ("blocks.0.norm1.weight", "blocks.1.norm1.weight", "norm.weight")] == [
        1,
        2,
        2,
    ]
    assert {group["lr_scale"] for group in optimizer.param_groups} == {1.0, 0.5, 0.25, 0.125}
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    for _ in range(2):  # from the identity the encoder's second convolution has its gradient after one step
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(pictures()), torch.tensor([1, 2, 3])).backward()
        optimizer.step()
    still = [name for name, parameter in model.named_parameters() if torch.equal(parameter, before[name])]
    assert still == []


def test_positions_prefix_and_scalars_are_spared_from_weight_decay():
    model = pixtree.retrofit(tiny("vit_tiny_patch16_224"), tokens=9)
    names = dict(model.named_parameters())
    spared = model.no_weight_decay()
    assert {"tokenizer.positions.table", "tokenizer.prefix", "tokenizer.sampler.logit"} <= spared
    assert "tokenizer.projection.weight" in names
    assert "tokenizer.projection.weight" not in spared
    assert not any("patch_embed" in name or "pos_embed" in name or "cls_token" in name for name in names)


def test_gradient_checkpointing_changes_no_gradient():
    found = []
    for enable in (False, True):
        model = pixtree.retrofit(tiny("vit_small_patch16_dinov3"), tokens=9).train()
        model.set_grad_checkpointing(enable)
        model(pictures()).square().sum().backward()
        found.append(model.tokenizer.projection.weight.grad)
    assert far(*found) <= 1e-5


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "vit_base_patch16_siglip_224", "vit_small_patch16_dinov3"])
@torch.no_grad()
def test_the_backbone_exports_from_tokens_on(name):
    model = pixtree.retrofit(tiny(name), tokens=9)
    for budget in (pixtree.Exactly(9), Criterion("aicc", penalty=0.3)):
        model.tokenizer.budget = budget
        sequence = model.sequence(model.tokens(pictures()))
        exported = torch.export.export(model.backbone, (sequence,))
        assert far(exported.module()(sequence), model(pictures())) <= 1e-5


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@torch.no_grad()
def test_the_backbone_compiles_as_one_graph_from_tokens_on(backend):
    model = pixtree.retrofit(tiny("vit_small_patch16_dinov3"), tokens=9)
    sequence = model.sequence(model.tokens(pictures()))
    assert sequence.seen is None
    compiled = torch.compile(model.backbone, fullgraph=True, backend=backend)
    assert far(compiled(sequence), model(pictures())) <= 1e-5
    masked = TokenSequence(sequence.rows, torch.ones(sequence.rows.shape[:2], dtype=torch.bool), sequence.rope)
    assert far(compiled(masked), model(pictures())) <= 1e-5


def test_models_that_cannot_be_retrofitted_are_refused_with_the_reason():
    for name, reason in (
        ("vit_tinny_patch16_224", "did you mean vit_tiny_patch16_224"),
        ("no_such_thing", "timm has no model"),
        ("swin_tiny_patch4_window7_224", "not a plain Vision Transformer"),
        ("convnext_tiny", "not a plain Vision Transformer"),
        ("vit_tiny_r_s16_p8_224", "not a plain Vision Transformer"),
        ("beit_base_patch16_224", "relative positions"),
    ):
        with pytest.raises(ValueError, match=reason) as error:
            pixtree.retrofit(name)
        assert "DINOv3" in str(error.value)
    small = {"embed_dim": 48, "depth": 1, "num_heads": 3}
    with pytest.raises(ValueError, match="relative positions"):
        pixtree.retrofit(timm.create_model("beit_base_patch16_224", **small))
    with pytest.raises(ValueError, match="relative positions"):
        pixtree.retrofit(timm.create_model("vit_relpos_small_patch16_224", **small))
    with pytest.raises(ValueError, match="cannot be retrofitted"):
        pixtree.retrofit(torch.nn.Linear(3, 4))
    with pytest.raises(ValueError, match="a retrofit already"):
        pixtree.retrofit(pixtree.retrofit(tiny("vit_tiny_patch16_224")).vit)
    with pytest.raises(ValueError, match="patch dropout"):
        pixtree.retrofit(tiny("vit_tiny_patch16_224", patch_drop_rate=0.5))


def test_arguments_that_do_not_go_together_are_refused():
    model = tiny("vit_tiny_patch16_224")
    with pytest.raises(ValueError, match="give one"):
        pixtree.retrofit(model, tokens=4, budget=Criterion())
    with pytest.raises(ValueError, match="choose one of"):
        pixtree.retrofit(model, tokens=4, partitioner="voronoi")
    with pytest.raises(ValueError, match="only the tree takes budget"):
        pixtree.retrofit(model, budget=Criterion(), partitioner="slic")
    with pytest.raises(ValueError, match="the model decides width"):
        pixtree.retrofit(model, tokenizer={"width": 3})
    with pytest.raises(ValueError, match="go with a name"):
        pixtree.retrofit(model, num_classes=3)
    with pytest.raises(ValueError, match="no table of positions"):
        pixtree.retrofit(tiny("vit_small_patch16_dinov3"), position_resolution=8)


def test_images_and_partitions_of_the_wrong_size_are_refused():
    model = pixtree.retrofit(tiny("vit_tiny_patch16_224"), tokens=4)
    with pytest.raises(ValueError, match=r"expected images \(B, 3, H, W\)"):
        model(images(64)[0])
    with pytest.raises(ValueError, match=r"expected images \(B, 3, H, W\)"):
        model(torch.zeros(1, 4, 32, 32))
    with pytest.raises(ValueError, match="cast the images"):
        model(torch.zeros(1, 3, 32, 32, dtype=torch.int64))
    with pytest.raises(ValueError, match="labels"):
        model(images(64), model.partition(images(32)))
    with pytest.raises(ValueError, match="NCHW or NLC"):
        model.forward_intermediates(images(64), output_fmt="NHWC")
    with pytest.raises(ValueError, match="numbered 0 to 1"):
        model.forward_intermediates(images(64), indices=[2])
