"""Models of transformers: the model itself where nothing changes, its outputs and heads, equal merges in timm, and plain errors."""

import json
import runpy
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from pictures import photo
from tiny_models import far, images
from tiny_models import tiny as tiny_of_timm
from tiny_towers import CLASSIFIERS, DEPTH, FAMILIES, PAIRS, PATCH, SIDE, WIDE, call, projected_clip, tiny
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    BeitConfig,
    BeitModel,
    Siglip2VisionConfig,
    Siglip2VisionModel,
    ViTConfig,
    ViTForImageClassification,
    ViTForMaskedImageModeling,
    ViTImageProcessor,
    ViTMAEConfig,
    ViTMAEForPreTraining,
    ViTMAEModel,
)

import pixtree
from pixtree.models.huggingface import tower_of

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FALLING = [14, 12, 10, 8]
IDS = torch.tensor([[1, 2, 98], [3, 4, 98]])


def untouched_twins(model):
    """The model coarsened with all its compute, and retrofitted with square patches."""
    return pixtree.coarsen(model, compute=1.0), pixtree.retrofit(model, partitioner="grid")


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_with_all_tokens_a_tower_is_the_tower_hidden_states_and_pooled_output_included(name):
    model, batch = tiny(FAMILIES[name]), images(SIDE)
    expected = call(model, batch, output_hidden_states=True)
    for same in untouched_twins(model):
        found = same(batch, output_hidden_states=True)
        assert type(found) is type(expected)
        assert found.keys() == expected.keys()
        assert far(found.last_hidden_state, expected.last_hidden_state) <= 1e-5
        assert len(found.hidden_states) == DEPTH + 1
        assert all(far(one, other) <= 1e-5 for one, other in zip(found.hidden_states, expected.hidden_states, strict=True))
        if "pooler_output" in expected:
            assert far(found.pooler_output, expected.pooler_output) <= 1e-5
        as_tuple = same(batch, return_dict=False)
        assert isinstance(as_tuple, tuple)
        assert torch.equal(as_tuple[0], found.last_hidden_state)


@pytest.mark.parametrize("name", CLASSIFIERS)
@torch.no_grad()
def test_with_all_tokens_a_classifier_has_its_logits_and_its_loss(name):
    model, batch, labels = tiny(CLASSIFIERS[name]), images(SIDE), torch.tensor([1, 5])
    options = {} if name == "distilled deit" else {"labels": labels}
    expected = model(batch, output_hidden_states=True, **options)
    for same in untouched_twins(model):
        found = same(batch, output_hidden_states=True, **options)
        assert type(same) is type(model)
        assert far(found.logits, expected.logits) <= 1e-5
        assert far(found.hidden_states[-1], expected.hidden_states[-1]) <= 1e-5
        if options:
            assert far(found.loss, expected.loss) <= 1e-5
    assert far(pixtree.coarsen(model, schedule=FALLING)(batch).logits, expected.logits) > 1e-4


@pytest.mark.parametrize("name", PAIRS)
@torch.no_grad()
def test_a_tower_is_found_inside_models_of_images_and_texts(name):
    model, batch = tiny(PAIRS[name]), images(SIDE)
    expected = model(input_ids=IDS, pixel_values=batch)
    for same in untouched_twins(model):
        found = same(input_ids=IDS, pixel_values=batch)
        assert far(found.logits_per_image, expected.logits_per_image) <= 1e-5
        assert far(found.vision_model_output.last_hidden_state, expected.vision_model_output.last_hidden_state) <= 1e-5
    fast = pixtree.coarsen(model, schedule=FALLING)
    assert tower_of(fast).counts == tuple(FALLING)
    assert fast.text_model is model.text_model
    assert far(model(input_ids=IDS, pixel_values=batch).logits_per_image, expected.logits_per_image) == 0.0


@torch.no_grad()
def test_projected_image_features_keep_their_shape():
    model, batch = tiny(projected_clip), images(SIDE)
    for same in untouched_twins(model):
        assert far(same(batch).image_embeds, model(batch).image_embeds) <= 1e-5
    assert pixtree.retrofit(model, tokens=7)(batch).last_hidden_state.shape == (2, 8, 48)


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_tokens_fall_as_the_schedule_says_and_shapes_stay(name):
    model, batch = tiny(FAMILIES[name]), images(SIDE)
    fast = pixtree.coarsen(model, schedule=FALLING)
    rows, tree = fast.forward_tree(batch)
    found, expected = fast(batch, output_hidden_states=[-1, 0]), call(model, batch)
    prefix = expected.last_hidden_state.shape[1] - (SIDE // PATCH) ** 2
    assert list(tree.counts) == FALLING
    assert rows.shape == (2, prefix + FALLING[-1], 48)
    assert found.last_hidden_state.shape == expected.last_hidden_state.shape
    assert [state is None for state in found.hidden_states] == [False, *[True] * (DEPTH - 1), False]
    assert torch.equal(tree.unfold(rows[:, prefix:]), found.last_hidden_state[:, prefix:])
    assert far(found.last_hidden_state, expected.last_hidden_state) > 1e-3
    assert far(fast(batch[:1]).last_hidden_state, found.last_hidden_state[:1]) <= 1e-5


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_a_retrofit_has_one_token_per_region_and_can_be_coarsened(name):
    model, batch = tiny(FAMILIES[name]), images(SIDE, 80)
    regions = pixtree.retrofit(model, tokens=9)
    partition = regions.partition(batch)
    found = regions(batch, output_hidden_states=True)
    assert partition.counts.tolist() == [9, 9]
    assert torch.equal(regions(batch, partition).last_hidden_state, found.last_hidden_state)
    assert regions(batch, tokens=5).last_hidden_state.shape[1] == found.last_hidden_state.shape[1] - 4
    fast = pixtree.coarsen(regions, schedule=[8, 7, 6, 5])
    assert fast(batch).last_hidden_state.shape == found.last_hidden_state.shape
    assert fast.forward_tree(batch)[1].maps().shape == (2, SIDE, 80)


@pytest.mark.parametrize("name", ["vit", "dinov2 with registers", "siglip"])
def test_compute_is_what_torch_counts(name):
    model, batch = tiny(FAMILIES[name]).requires_grad_(False), images(SIDE, batch=1)
    fast = pixtree.coarsen(model, schedule=FALLING)
    for one, expected in ((fast, fast.gflops), (model, fast.gflops / fast.compute)):
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            one(batch)
        assert counter.get_total_flops() / 1e9 == pytest.approx(expected, rel=0.01)


@torch.no_grad()
def test_merges_and_logits_are_those_of_the_same_weights_in_timm(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    twin_of = runpy.run_path(str(BENCHMARKS / "vision_towers" / "twins.py"))["twin_of"]
    model = tiny_of_timm("vit_tiny_patch16_224", img_size=128, depth=DEPTH)
    twin = twin_of(model, 128)
    batch = torch.stack([photo(name, 128, 128) / 127.5 - 1.0 for name in ("astronaut", "coffee", "chelsea")])
    one, other = (pixtree.coarsen(each, schedule=[54, 44, 35, 28]) for each in (model, twin))
    labels, twins = one.forward_tree(batch)[1].labels, tower_of(other).forward_tree(batch)[1].labels
    assert all(torch.equal(first, second) for first, second in zip(labels, twins, strict=True))
    assert far(other(batch).logits, one(batch)) <= 1e-4
    fast = pixtree.coarsen(model, 0.8)
    assert tower_of(pixtree.coarsen(twin, schedule=fast.schedule)).counts == fast.counts
    assert tower_of(pixtree.coarsen(twin, 0.8)).counts[-1] <= fast.counts[-1]  # a tower returns all tokens of its last layer


@pytest.mark.parametrize("name", ["dinov3", "siglip", "clip"])
def test_a_speed_is_measured_on_the_tower(name):
    model = tiny(FAMILIES[name])
    assert set(tower_of(pixtree.coarsen(model, speed=1.0)).counts) == {(SIDE // PATCH) ** 2}
    with pytest.raises(ValueError, match="times the speed here, got speed=1000"):
        pixtree.coarsen(model, speed=1000.0)


def test_gradients_flow_through_merged_tokens_with_and_without_checkpointing():
    model, batch = tiny(CLASSIFIERS["vit"]).train(), images(SIDE)
    fast = pixtree.coarsen(model, schedule=FALLING)
    fast(batch).logits.square().mean().backward()
    gradient = model.vit.layers[0].mlp.fc1.weight.grad.clone()
    fast.zero_grad()
    fast.activation_checkpointing_enable()
    fast(batch).logits.square().mean().backward()
    assert far(model.vit.layers[0].mlp.fc1.weight.grad, gradient) <= 1e-6
    assert float(gradient.abs().max()) > 0


@torch.no_grad()
def test_the_original_is_untouched_and_copies_are_independent():
    model, batch = tiny(CLASSIFIERS["vit"]), images(SIDE)
    before, names = model(batch).logits, list(model.state_dict())
    fast, regions = pixtree.coarsen(model, schedule=FALLING), pixtree.retrofit(model, tokens=9)
    assert list(fast.state_dict()) == names
    assert fast.classifier is model.classifier
    assert regions.classifier is not model.classifier
    copied = deepcopy(fast)
    copied.vit.layers[0].mlp.fc1.weight.zero_()
    for parameter in regions.parameters():
        parameter.zero_()
    assert torch.equal(model(batch).logits, before)
    assert far(copied(batch).logits, fast(batch).logits) > 0


@torch.no_grad()
def test_folders_are_read_and_a_coarsened_model_saves_what_it_was_made_from(tmp_path):
    model, batch = tiny(CLASSIFIERS["vit"]), images(SIDE)
    model.save_pretrained(tmp_path / "vit")
    ViTImageProcessor(image_mean=[0.1, 0.2, 0.3]).save_pretrained(tmp_path / "vit")
    fast = pixtree.coarsen(str(tmp_path / "vit"), schedule=FALLING)
    regions = pixtree.retrofit(tmp_path / "vit", tokens=9)
    assert far(fast(batch).logits, pixtree.coarsen(model, schedule=FALLING)(batch).logits) <= 1e-6
    assert tower_of(regions).tokenizer.options.mean == (0.1, 0.2, 0.3)
    assert not fast.training
    fast.save_pretrained(tmp_path / "again")
    assert far(ViTForImageClassification.from_pretrained(tmp_path / "again").eval()(batch).logits, model(batch).logits) <= 1e-6
    tower_of(fast).save_pretrained(tmp_path / "tower")
    assert json.loads((tmp_path / "tower" / "config.json").read_text())["architectures"] == ["ViTModel"]


def test_images_of_other_sizes_work_as_the_family_takes_them():
    batch = images(80, 96)
    fast = pixtree.coarsen(tiny(FAMILIES["vit"]), schedule=FALLING)
    assert fast(batch, interpolate_pos_encoding=True).last_hidden_state.shape == (2, 31, 48)
    with pytest.raises(ValueError, match="doesn't match model"):
        fast(batch)
    odd = pixtree.coarsen(tiny(FAMILIES["dinov2"]), schedule=FALLING)
    assert odd.forward_tree(images(90, 100))[1].maps().shape == (2, 90, 100)


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float64])
@torch.no_grad()
def test_precisions_of_the_weights_are_kept(precision):
    model = tiny(CLASSIFIERS["vit"]).to(precision)
    for made in (pixtree.coarsen(model, schedule=FALLING), pixtree.retrofit(model, tokens=9)):
        assert made(images(SIDE)).logits.dtype == precision


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: BeitModel(BeitConfig(**WIDE)), "relative positions exist only between patches of a grid"),
        (lambda: Siglip2VisionModel(Siglip2VisionConfig(hidden_size=48, num_attention_heads=3, num_hidden_layers=1)), "NaFlex"),
        (lambda: ViTMAEModel(ViTMAEConfig(**WIDE)), r"set model.config.mask_ratio = 0"),
        (lambda: ViTMAEForPreTraining(ViTMAEConfig(**WIDE)), r"take the encoder, \.vit"),
    ],
)
def test_refusals_name_the_verb_and_the_reason(make, reason):
    model = make()
    with pytest.raises(ValueError, match=rf"{type(model).__name__} cannot be coarsened.*{reason}"):
        pixtree.coarsen(model)
    with pytest.raises(ValueError, match=rf"{type(model).__name__} cannot be retrofitted.*{reason}"):
        pixtree.retrofit(model, tokens=9)


def test_errors_are_raised_before_any_work(tmp_path):
    model, batch = tiny(CLASSIFIERS["vit"]), images(SIDE)
    fast = pixtree.coarsen(model, schedule=FALLING)
    with pytest.raises(ValueError, match="coarsened already"):
        pixtree.coarsen(fast)
    with pytest.raises(ValueError, match="attention between merged tokens"):
        fast(batch, output_attentions=True)
    with pytest.raises(TypeError, match="got bool_masked_pos as well"):
        tower_of(fast)(batch, bool_masked_pos=torch.ones(2, 16, dtype=torch.bool))
    with pytest.raises(ValueError, match="take no mask for varying counts"):
        pixtree.retrofit(model, budget=pixtree.AtMost(9))
    with pytest.raises(ValueError, match="head reads one token per patch"):
        pixtree.retrofit(ViTForMaskedImageModeling(ViTConfig(**WIDE)), tokens=9)
    with pytest.raises(ValueError, match="arguments of timm"):
        pixtree.coarsen(model, pretrained=True)
    with pytest.raises(ValueError, match="set its size instead"):
        pixtree.coarsen(model, input_size=32)
    with pytest.raises(ValueError, match="has no coarsened or retrofitted tower"):
        tower_of(model)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "vit"}))
    with pytest.raises(ValueError, match="expected the class of the model"):
        pixtree.coarsen(str(tmp_path))
