"""With square patches a retrofit gives the logits of the untouched timm model: every family, size and grid."""

import pytest
import torch
from tiny_models import FAMILIES, SMALL, far, images, tiny

import pixtree
from pixtree.models.timm_import import timm
from pixtree.tokenizer.tokenizer import Options

TOLERANCE = 1e-4
UNEQUAL = ("vit_tiny_patch16_224", "deit_tiny_distilled_patch16_224", "vit_small_patch14_reg4_dinov2")
ROTARY = ("eva02_tiny_patch14_224", "vit_small_patch16_dinov3", "vit_small_patch16_rope_mixed_224")


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_square_patches_give_the_logits_of_timm(name):
    model = tiny(name)
    batch = images(FAMILIES[name])
    same = pixtree.retrofit(model, partitioner="grid")
    expected = model(batch)
    assert far(same(batch), expected) <= TOLERANCE
    assert float(expected.std()) > 0.05


@pytest.mark.parametrize("name", [*UNEQUAL, *ROTARY])
@torch.no_grad()
def test_so_they_do_for_models_of_images_that_are_not_square(name):
    patch = 14 if "patch14" in name else 16
    size = (3 * patch, 5 * patch)
    model = tiny(name, img_size=size)
    batch = images(*size)
    assert far(pixtree.retrofit(model, partitioner="grid")(batch), model(batch)) <= TOLERANCE


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "deit3_small_patch16_224", "vit_base_patch16_siglip_224", *ROTARY])
@pytest.mark.parametrize("cells", [(6, 6), (3, 5)])
@torch.no_grad()
def test_so_they_do_on_another_grid_than_the_pretraining_one(name, cells):
    patch = 14 if "patch14" in name else 16
    model = tiny(name, dynamic_img_size=True)
    batch = images(cells[0] * patch, cells[1] * patch)
    assert far(pixtree.retrofit(model, partitioner="grid")(batch), model(batch)) <= TOLERANCE


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "vit_small_patch14_reg4_dinov2", "vit_base_patch16_gap_224", *ROTARY])
@pytest.mark.parametrize("size", [(65, 90), (23, 40), (10, 97)])
@torch.no_grad()
def test_so_they_do_at_sizes_that_are_no_multiple_of_the_patch_which_timm_pads(name, size):
    model = tiny(name, dynamic_img_size=True)
    model.patch_embed.dynamic_img_pad = True
    batch, same = images(*size), pixtree.retrofit(model, partitioner="grid")
    assert far(same(batch), model(batch)) <= TOLERANCE
    final, found = same.forward_intermediates(batch, indices=1, norm=True)
    expected_final, expected = model.forward_intermediates(batch, indices=1, norm=True)
    assert far(final, expected_final) <= TOLERANCE
    assert far(found[0], expected[0]) <= TOLERANCE


@torch.no_grad()
def test_a_square_patch_keeps_its_own_position_at_225_pixels():
    model = tiny("vit_tiny_patch16_224", img_size=224)
    same = pixtree.retrofit(model, partitioner="grid")
    labels = same.partition(images(225, 225, batch=1)).labels
    found = same.tokenizer.positions(labels, 15 * 15)
    expected = timm.layers.resample_abs_pos_embed(model.pos_embed, (15, 15), (14, 14), num_prefix_tokens=1)[:, 1:]
    assert far(found, expected) <= 1e-6


@pytest.mark.parametrize("given", [pixtree.Tokenizer(), Options(), Options().changed(compactness=0.0), {"hidden": 4}])
@pytest.mark.parametrize("name", ["vit_small_patch14_dinov2", "vit_small_patch8_224", "vit_small_patch32_224"])
@torch.no_grad()
def test_so_they_do_with_a_tokenizer_or_options_of_ones_own(name, given):
    model, batch = tiny(name), images(FAMILIES[name])
    same = pixtree.retrofit(model, partitioner="grid", tokenizer=given)
    assert far(same(batch), model(batch)) <= TOLERANCE
    assert (same.tokenizer.sampler.smallest, same.tokenizer.sampler.largest) == (
        same.tokenizer.options.sampling.patch,
        2 * same.tokenizer.options.sampling.patch,
    )


@pytest.mark.parametrize("kind", [lambda **options: options, Options().changed, lambda **options: pixtree.Tokenizer(**options)])
def test_boxes_that_were_chosen_stay_as_chosen(kind, tmp_path):
    name = "vit_small_patch8_224"
    for boxes in ((12, 40), (4, 0)):
        chosen = kind(smallest_box=boxes[0], largest_box=boxes[1])
        model = pixtree.retrofit(name, tokens=4, tokenizer=chosen, **SMALL)
        model.save_pretrained(tmp_path)
        for one in (model, type(model).from_pretrained(tmp_path)):
            assert (one.tokenizer.sampler.smallest, one.tokenizer.sampler.largest) == (boxes[0], boxes[1] or None)


@torch.no_grad()
def test_a_finer_position_table_keeps_the_logits():
    model, batch = tiny("vit_tiny_patch16_224"), images(64)
    for resolution in (4, 8, 32):
        same = pixtree.retrofit(model, partitioner="grid", position_resolution=resolution)
        assert same.position_resolution == resolution
        assert far(same(batch), model(batch)) <= TOLERANCE


@torch.no_grad()
def test_the_position_resolution_can_change_later():
    model, batch = tiny("vit_tiny_patch16_224"), images(64)
    same = pixtree.retrofit(model, partitioner="grid")
    assert same.position_resolution is None
    for resolution in (16, 32):
        same.set_position_resolution(resolution)
        assert same.tokenizer.positions.table.shape == (resolution**2, 48)
        assert far(same(batch), model(batch)) <= TOLERANCE
    same.set_position_resolution(24)
    assert bool(same(batch).isfinite().all())


@torch.no_grad()
def test_pixels_as_they_are_mean_the_same_as_normalised_ones():
    model = tiny("deit_tiny_patch16_224")
    pixels = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    mean, std = (torch.tensor(model.pretrained_cfg[key]).view(3, 1, 1) for key in ("mean", "std"))
    same = pixtree.retrofit(model, partitioner="grid")
    assert far(same(pixels), model((pixels / 255 - mean) / std)) <= TOLERANCE


@torch.no_grad()
def test_features_and_intermediates_are_those_of_timm_too():
    for name in ("vit_small_patch14_reg4_dinov2", "vit_small_patch16_dinov3"):
        model = tiny(name)
        batch, same = images(FAMILIES[name]), pixtree.retrofit(model, partitioner="grid")
        assert far(same.forward_features(batch), model.forward_features(batch)) <= TOLERANCE
        features = same.forward_features(batch)
        assert far(same.forward_head(features, pre_logits=True), model.forward_head(features, pre_logits=True)) <= TOLERANCE
        for options in (
            {"indices": 1},
            {"indices": [0, -1], "norm": True},
            {"output_fmt": "NLC", "indices": [0]},
        ):
            final, found = same.forward_intermediates(batch, **options)
            expected_final, expected = model.forward_intermediates(batch, **options)
            assert far(final, expected_final) <= TOLERANCE
            assert [one.shape for one in found] == [one.shape for one in expected]
            assert all(far(a, b) <= TOLERANCE for a, b in zip(found, expected, strict=True))
        pairs = same.forward_intermediates(batch, indices=1, return_prefix_tokens=True, intermediates_only=True)
        assert pairs[0][1].shape == (2, model.num_prefix_tokens, 48)


@torch.no_grad()
def test_a_module_that_is_retrofitted_stays_as_it_is():
    model, batch = tiny("vit_tiny_patch16_224"), images(64)
    before = model(batch)
    regions = pixtree.retrofit(model, tokens=9)
    regions.reset_classifier(3)
    assert torch.equal(model(batch), before)
    assert regions(batch).shape == (2, 3)
