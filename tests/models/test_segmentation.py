"""Segmenters: a class per token, painted over pixels."""

import pytest
import torch
from tiny_models import images, tiny
from torch.nn import functional

import pixtree
from pixtree.models.patch_grids import bilinear_shares
from pixtree.models.segmentation import Segmenter
from pixtree.partitioners import partitioner


@pytest.fixture(scope="module")
def vit():
    return tiny("vit_tiny_patch16_224")


def test_pooling_is_the_mean_of_the_interpolated_map():
    labels = torch.randint(0, 5, (2, 30, 44), generator=torch.Generator().manual_seed(0))
    labels[0, :, :3] = -1
    rows = torch.randn(2, 12, 7, generator=torch.Generator().manual_seed(1))
    dense = functional.interpolate(rows.transpose(1, 2).reshape(2, 7, 3, 4), (30, 44), mode="bilinear")
    shares = bilinear_shares(labels, (3, 4), 6)
    for image in range(2):
        for region in range(5):
            wanted = dense[image][:, labels[image] == region].mean(dim=1)
            assert torch.allclose(shares[image, region] @ rows[image], wanted, atol=1e-5)
    assert not shares[:, 5].any()


def test_a_retrofits_regions_get_classes(vit):
    segmenter = Segmenter(pixtree.retrofit(vit, tokens=9), 5)
    found = segmenter(images(64))
    assert found.logits.shape == (2, 9, 5)
    assert found.labels.shape == (2, 64, 64)
    classes = segmenter.predict(images(64))
    for image in range(2):
        for region in range(9):
            inside = found.labels[image] == region
            assert (classes[image][inside] == found.logits[image, region].argmax()).all()


def test_patches_without_a_partitioner_are_interpolated(vit):
    found = Segmenter(vit, 5)(images(64))
    rows = vit.forward_features(images(64))[:, 1:]
    assert found.grid == (4, 4)
    assert found.logits.shape == (2, 16, 5)
    painted = found.painted(rows)
    assert torch.allclose(painted, functional.interpolate(rows.transpose(1, 2).reshape(2, -1, 4, 4), (64, 64), mode="bilinear"))
    assert found.labels[0, 20, 40] == 1 * 4 + 2


def test_pooling_each_patch_into_itself_after_the_first_block_changes_little(vit):
    cells = torch.arange(16).view(1, 1, 4, 4).float()
    labels = functional.interpolate(cells, (64, 64))[:, 0].to(torch.int32)
    segmenter = Segmenter(vit, 5, partitioner=partitioner("grid", 16), after=1)
    assert torch.equal(segmenter.regions(images(64, batch=1)), labels)
    found = segmenter(images(64, batch=1))
    assert found.grid is None
    assert found.logits.shape == (1, 16, 5)
    assert torch.allclose(segmenter.from_tokens(segmenter.trunk(images(64, batch=1)), (64, 64), labels).logits, found.logits)


def test_images_of_different_counts_do_not_see_padding(vit):
    labels = torch.zeros(2, 64, 64, dtype=torch.int32)
    labels[0, :, 20:], labels[1, 10:], labels[1, 40:] = 1, 1, 2
    segmenter = Segmenter(vit, 5, partitioner=partitioner("grid", 4), after=1)
    both, alone = segmenter(images(64), labels), segmenter(images(64)[:1], labels[:1])
    assert both.valid.tolist() == [[True, True, False], [True, True, True]]
    assert torch.allclose(both.logits[0, :2], alone.logits[0], atol=1e-5)


def test_several_sizes_are_averaged(vit):
    segmenter = Segmenter(vit, 5)
    assert torch.equal(segmenter.predict(images(64)), segmenter.predict(images(64), [(64, 64)]))
    assert segmenter.predict(images(64), [(64, 64), (96, 80)]).shape == (2, 64, 64)


def test_freezing_leaves_the_blocks_after_pooling_and_the_head(vit):
    segmenter = Segmenter(tiny("vit_tiny_patch16_224"), 5, partitioner=partitioner("pixtree", 4), after=1)
    segmenter.freeze()
    learned = {name for name, parameter in segmenter.named_parameters() if parameter.requires_grad}
    assert {name.split(".")[2] for name in learned if "blocks" in name} == {"1"}
    assert not any("patch_embed" in name or "pos_embed" in name for name in learned)
    assert any(name.startswith("head") for name in learned)


def test_what_cannot_work_is_refused(vit):
    with pytest.raises(ValueError, match="has its own regions"):
        Segmenter(pixtree.retrofit(vit, tokens=4), 5, after=1)
    with pytest.raises(ValueError, match="choose 0 to 2"):
        Segmenter(vit, 5, partitioner=partitioner("grid", 4), after=3)
    with pytest.raises(ValueError, match="rotary"):
        Segmenter(tiny("vit_small_patch16_dinov3"), 5, partitioner=partitioner("grid", 4), after=1)
