"""An exact number of tokens at the end of a tower: counts, order, and the way back to pixels."""

import pytest
import torch
from pictures import photo
from tiny_models import far, images
from tiny_towers import CLASSIFIERS, DEPTH, FAMILIES, PAIRS, PATCH, SIDE, call, tiny

import pixtree
from pixtree.models import tower_of
from pixtree.models.coarsening.final_tokens import exact_ward

GRID = SIDE // PATCH
PHOTOS = torch.stack([photo(name, SIDE, SIDE) / 127.5 - 1.0 for name in ("astronaut", "coffee", "chelsea", "rocket")])


@pytest.mark.parametrize("pool", ["tree", "regions"])
@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_every_photo_has_exactly_n_tokens_in_all_hidden_states(name, pool):
    model = tiny(FAMILIES[name])
    prefix = call(model, PHOTOS).last_hidden_state.shape[1] - GRID**2
    for count in (1, 5, 11):
        tower = pixtree.coarsen(model, final_tokens=count, pool=pool)
        found = tower(PHOTOS, output_hidden_states=True)
        assert {state.shape for state in (found.last_hidden_state, *found.hidden_states)} == {(4, prefix + count, 48)}
        visual = tower.visual_tokens(PHOTOS)
        assert far(visual.features, found.hidden_states[-1][:, prefix:]) <= 1e-5
        assert all(labels.unique().tolist() == list(range(count)) for labels in visual.maps)


@pytest.mark.parametrize("pool", ["tree", "regions"])
@pytest.mark.parametrize("name", ["clip", "siglip"])
@torch.no_grad()
def test_tokens_come_in_reading_order_with_sizes_positions_and_the_way_back(name, pool):
    visual = pixtree.coarsen(tiny(FAMILIES[name]), final_tokens=7, pool=pool).visual_tokens(PHOTOS)
    for labels, sizes, positions in zip(visual.maps, visual.sizes, visual.positions, strict=True):
        firsts = [int((labels.flatten() == number).nonzero()[0]) for number in range(7)]
        assert firsts == sorted(firsts)
        for number in range(7):
            places = (labels == number).nonzero().double() + 0.5
            assert float(sizes[number]) == pytest.approx(len(places) / PATCH**2)
            assert positions[number].tolist() == pytest.approx(places.mean(dim=0).tolist(), rel=1e-5)
    assert torch.equal(
        visual.to_pixels(visual.sizes[..., None])[:, 0], visual.sizes.gather(1, visual.maps.flatten(1)).view(visual.maps.shape)
    )


@pytest.mark.parametrize("name", ["clip", "siglip", "dinov2 with registers"])
@torch.no_grad()
def test_with_as_many_tokens_as_patches_the_tower_is_untouched(name):
    model = tiny(FAMILIES[name])
    expected, found = call(model, PHOTOS), pixtree.coarsen(model, final_tokens=GRID**2)(PHOTOS)
    assert far(found.last_hidden_state, expected.last_hidden_state) <= 1e-5
    assert far(found.pooler_output, expected.pooler_output) <= 1e-5


@torch.no_grad()
def test_a_token_is_the_mean_of_its_patches_and_pooled_output_stays_that_of_all_patches():
    model = tiny(FAMILIES["siglip"])
    tower, expected = pixtree.coarsen(model, final_tokens=6), call(model, PHOTOS)
    found, maps = tower(PHOTOS), tower.visual_tokens(PHOTOS).maps[:, ::PATCH, ::PATCH].flatten(1)
    for image in range(len(PHOTOS)):
        means = [expected.last_hidden_state[image, maps[image] == number].mean(dim=0) for number in range(6)]
        assert far(found.last_hidden_state[image], torch.stack(means)) <= 1e-5
    assert far(found.pooler_output, expected.pooler_output) <= 1e-5


@torch.no_grad()
def test_final_tokens_and_compute_go_together_and_patches_keep_to_merged_ones():
    model = tiny(FAMILIES["clip"])
    tower = pixtree.coarsen(model, schedule=[14, 12, 10, 8], final_tokens=5)
    labels = tower.forward_tree(PHOTOS)[1].maps().flatten(1)
    visual = tower.visual_tokens(PHOTOS).maps.flatten(1)
    for image in range(len(PHOTOS)):
        pairs = torch.stack((labels[image], visual[image])).unique(dim=1)
        assert pairs.shape[1] == 8
    assert tower(PHOTOS).last_hidden_state.shape == (4, 6, 48)
    with pytest.raises(ValueError, match="8 tokens are left at hidden state -1, got final_tokens=9"):
        pixtree.coarsen(model, schedule=[14, 12, 10, 8], final_tokens=9)


def test_steps_that_halve_end_at_the_sequential_tree():
    generator = torch.Generator().manual_seed(0)
    features, weights = torch.randn(1, 30, 4, generator=generator), torch.rand(1, 30, generator=generator) + 0.1
    labels, means, masses = list(range(30)), list(features[0].double()), weights[0].double().tolist()
    alive = set(range(30))
    while len(alive) > 4:
        _, i, j = min(
            (masses[i] * masses[j] / (masses[i] + masses[j]) * float((means[i] - means[j]).square().sum()), i, j)
            for i in alive
            for j in alive
            if i < j
        )
        means[i] = (masses[i] * means[i] + masses[j] * means[j]) / (masses[i] + masses[j])
        masses[i] += masses[j]
        alive.remove(j)
        labels = [i if label == j else label for label in labels]
    expected = torch.tensor([sorted(alive).index(label) for label in labels])
    assert torch.equal(exact_ward(features, weights, 4)[0], expected)


@torch.no_grad()
def test_a_model_around_the_tower_says_which_hidden_state_decides():
    clip = tiny(PAIRS["clip"])
    clip.config.vision_feature_layer = -2
    tower = tower_of(pixtree.coarsen(clip, final_tokens=5))
    assert tower.final.layer == -2
    assert far(tower.visual_tokens(PHOTOS).features, tower(PHOTOS, output_hidden_states=-2).hidden_states[-2][:, 1:]) <= 1e-5
    assert tower_of(pixtree.coarsen(clip, final_tokens=5, final_layer=1)).final.block(DEPTH) == 0


def test_images_with_pixels_that_fill_no_patch_are_mapped_whole():
    tower = pixtree.coarsen(tiny(FAMILIES["dinov2"]), final_tokens=5, pool="regions")
    assert tower.visual_tokens(images(70, 85)).maps.shape == (2, 70, 85)


def test_errors_are_raised_before_any_work():
    model = tiny(FAMILIES["vit"])
    with pytest.raises(ValueError, match="at least 1 token"):
        pixtree.coarsen(model, final_tokens=0)
    with pytest.raises(ValueError, match="pool is one of tree, regions"):
        pixtree.coarsen(model, final_tokens=3, pool="grid")
    with pytest.raises(ValueError, match="numbered 1 to 4"):
        pixtree.coarsen(model, final_tokens=3, final_layer=7)
    with pytest.raises(ValueError, match="16 tokens are left"):
        pixtree.coarsen(model, final_tokens=17)
    with pytest.raises(ValueError, match="got a tower without"):
        pixtree.coarsen(model, compute=1.0).visual_tokens(PHOTOS)
    with pytest.raises(ValueError, match="retrofit with fewer tokens="):
        pixtree.coarsen(pixtree.retrofit(tiny(CLASSIFIERS["vit"]), tokens=9), final_tokens=3)
    with pytest.raises(ValueError, match="for Hugging Face models"):
        pixtree.coarsen("vit_tiny_patch16_224", final_tokens=3)
