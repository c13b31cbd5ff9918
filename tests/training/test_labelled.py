"""Training with labels: models overfit with both tokenizers, images are mixed by seed, frozen encoders cut ahead."""

import math

import pytest
import torch
from generated_pictures import class_folders, generated
from PIL import Image
from torch.nn import functional

from pixtree.models.timm_import import timm
from pixtree.models.vit import PixtreeViT
from pixtree.training.augmentation import Mixed, OneOf, mixture_of, training_transform
from pixtree.training.batches import Images, Item, Sample, SampleBatches, SampleOrder, Share, seed_all
from pixtree.training.labelled import Classification, correct, held_out, logits_of
from pixtree.training.learners import learner_of, set_drop_path
from pixtree.training.loop import train
from pixtree.training.recipe import Augment, Model, Plan, read_recipe, shipped_recipes
from pixtree.training.running import estimated
from pixtree.training.sources import source_of

CONFIG = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}


def small(**changes):
    values = {"name": "vit_tiny_patch16_224", "image_size": 48, "arguments": {"depth": 2}, "tokenizer": "pixtree", "tokens": 9}
    return Model(**(values | changes))


def whole(count=32, classes=4, size=48):
    """A batch of generated images."""
    kinds = [number % classes for number in range(count)]
    pixels = torch.stack([torch.from_numpy(generated(number, kind, size)) for number, kind in enumerate(kinds)])
    zeros = torch.zeros(count, dtype=torch.int64)
    return Item(pixels.permute(0, 3, 1, 2) / 127.5 - 1.0, torch.tensor(kinds), zeros, zeros)


class Same:
    """The same batch at every step."""

    def __init__(self, batch):
        self.batch = batch

    def starting(self, step, share):
        while True:
            yield [self.batch]


@pytest.mark.parametrize("tokenizer", ["pixtree", "paper", None])
def test_a_tiny_model_fits_32_images_and_gradients_reach_its_tokenizer(tokenizer):
    torch.manual_seed(0)
    tokens = 16 if tokenizer == "pixtree" else None
    narrow = {"depth": 2, "embed_dim": 96, "num_heads": 3}
    learner = learner_of(small(tokenizer=tokenizer, tokens=tokens, image_size=32, arguments=narrow), 4)
    batch = whole(size=32)
    train(Classification(learner), Same(batch), Plan(steps=30, rate=1e-3, warmup_steps=4, weight_decay=0.01))
    found, _ = logits_of(learner.eval(), batch)
    assert (found.argmax(dim=1) == batch.classes).all()
    if tokenizer is not None:
        learner.train().zero_grad()
        Classification(learner)(batch)["loss"].backward()
        reached = {name for name, one in learner.tokenizer.named_parameters() if one.grad is not None and one.grad.abs().sum() > 0}
        assert {"sampler.background", "projection.weight", "regions.encoder.second.weight", "regions.colour.weight"} <= reached


def test_the_loss_is_smoothed_cross_entropy():
    learner = learner_of(small(), 4).eval()
    batch = whole(4)
    with torch.no_grad():
        found = Classification(learner, 0.1)(batch)
        logits = learner(batch.images).log_softmax(dim=1)
        wanted = 0.9 * functional.one_hot(batch.classes, 4) + 0.1 / 4
        mixed = Classification(learner, 0.3)(batch._replace(classes=wanted))
    assert float(found["loss"]) == pytest.approx(float(-(wanted * logits).sum(dim=1).mean()), rel=1e-5)
    assert float(mixed["loss"]) == pytest.approx(float(found["loss"]), rel=1e-5)
    assert float(found["tokens"]) == 9


def test_images_are_mixed_the_same_way_whenever_they_are_read(tmp_path):
    reader = source_of(str(class_folders(tmp_path, 2, 4))).learned
    augment = Augment(policies=("rand-m9-mstd0.5-inc1", "3a"), cutmix=1.0, color_jitter=0.3)
    transform = training_transform(augment, 32, CONFIG)
    assert isinstance(transform, OneOf)
    batches = SampleBatches(Images(reader, transform), SampleOrder(8, 4), collate=Mixed(mixture_of(augment, 2, 0.1)))
    source = batches.starting(0, Share())
    first, second = next(source)[0], next(source)[0]
    again = next(batches.starting(1, Share()))[0]
    assert torch.equal(second.images, again.images)
    assert torch.equal(second.classes, again.classes)
    assert first.classes.shape == (4, 2)
    assert torch.allclose(first.classes.sum(dim=1), torch.ones(4))
    assert mixture_of(Augment(), 2, 0.1) is None


def test_no_draw_of_a_shipped_policy_fails():
    policies = {
        policy for name in shipped_recipes() for policy in getattr(getattr(read_recipe(name), "augment", None), "policies", ())
    }
    assert len(policies) == 2
    strongest = tuple(policy.replace("rand-m9", "rand-m10") for policy in sorted(policies))  # which the noise may reach
    transform = training_transform(Augment(policies=strongest), 16, CONFIG)
    picture = Image.fromarray(generated(0, 0, 20))
    for seed in range(400):  # without a bound, no bit would be left to posterize
        seed_all(seed)
        transform(picture)


@pytest.mark.parametrize("workers", [0, 1])
def test_with_a_frozen_encoder_the_readers_cut(tmp_path, workers):
    reader = source_of(str(class_folders(tmp_path, 2, 3))).learned
    learner = learner_of(small(frozen=True, encoder="shipped"), 2).eval()
    assert not any(one.requires_grad for one in learner.tokenizer.regions.parameters())
    images = Images(reader, training_transform(Augment(), 48, CONFIG))
    batches = SampleBatches(images, SampleOrder(6, 6), workers=workers, collate=Mixed(None, learner))
    batch = next(batches.starting(0, Share()))[0]
    assert torch.equal(batch.labels, learner.partition(batch.images).labels)
    before, after = logits_of(learner, batch._replace(labels=None)), logits_of(learner, batch)
    assert torch.equal(before[0], after[0])


def test_held_out_images_are_counted_by_their_top_class(tmp_path):
    source = source_of(str(class_folders(tmp_path, 2, 1, held=3)))
    learner = learner_of(small(), 2)
    with torch.no_grad():
        learner.vit.head.weight.zero_()
        learner.vit.head.bias.copy_(torch.tensor([0.0, 1.0]))
    images = Images(source.held, training_transform(Augment(), 48, CONFIG))
    found = [held_out(learner, images, batch=4, workers=workers) for workers in (0, 1)]
    assert found[0] == found[1] == {"top1": 0.5, "loss": pytest.approx((2 * math.log1p(math.e) - 1) / 2)}
    assert correct(learner, images).tolist() == [False] * 3 + [True] * 3
    assert learner.training


def test_drop_path_rises_along_the_blocks():
    learner = learner_of(small(arguments={"depth": 3}, drop_path={"tiny": 0.2}), 2)
    rates = [getattr(block.drop_path1, "drop_prob", 0.0) for block in learner.vit.blocks]
    assert rates == pytest.approx([0.0, 0.1, 0.2])
    set_drop_path(learner, 0.0)
    assert learner_of(small(tokenizer=None, tokens=None, drop_path=0.1), 2).blocks[-1].drop_path2.drop_prob == pytest.approx(0.1)
    with pytest.raises(ValueError, match="drop path rate in"):
        set_drop_path(learner, 1.0)


def test_a_model_starts_where_an_encoder_was_trained(tmp_path):
    from pixtree.tokenizer.weights import save_weights, shipped_weights

    donor = learner_of(small(encoder="shipped"), 2)
    save_weights(donor.tokenizer.regions, tmp_path / "encoder.safetensors")
    learner = learner_of(small(encoder=str(tmp_path / "encoder.safetensors")), 2)
    for name, tensor in learner.tokenizer.regions.state_dict().items():
        assert torch.equal(tensor, donor.tokenizer.regions.state_dict()[name])
    assert shipped_weights().about


def test_an_estimate_counts_weights_and_what_the_backward_pass_keeps():
    learner = learner_of(small(tokenizer=None, tokens=None), 4)
    objective = Classification(learner)
    weights = sum(one.numel() for one in learner.parameters())
    plain, averaged = (estimated(objective, Same(whole(2)), Plan(average=average)) for average in (0.0, 0.9))
    assert plain.weights == 16 * weights
    assert averaged.weights == 20 * weights
    more = estimated(
        Classification(learner_of(small(tokenizer=None, tokens=None, image_size=96), 4)), Same(whole(2, size=96)), Plan()
    )
    assert more.image > 3 * plain.image
    assert plain.memory(10) == pytest.approx((plain.weights + 10 * plain.image) / 1e9)
    assert plain.hours(3600, 0) == pytest.approx(plain.reading + plain.training)
    assert all(one.grad is None for one in learner.parameters())


def test_blocks_may_be_recomputed(tmp_path):
    learner = learner_of(small(), 4)
    plain = estimated(Classification(learner), Same(whole(2)), Plan())
    learner.set_grad_checkpointing()
    assert estimated(Classification(learner), Same(whole(2)), Plan()).image < 0.8 * plain.image


def test_models_are_what_their_recipes_say():
    assert isinstance(learner_of(small(), 3), PixtreeViT)
    patches = learner_of(small(tokenizer=None, tokens=None, image_size=64), 3)
    assert isinstance(patches, timm.models.VisionTransformer)
    assert (patches.num_classes, patches.patch_embed.num_patches) == (3, 16)
    own = learner_of(Model(name="pixtree_paper_vit_tiny", image_size=64, arguments={"depth": 1}, position_resolution=24), 5)
    assert (own.num_classes, own.position_resolution, own.image_size) == (5, 24, (64, 64))
    assert own.tokenizer.options.aggregation == "raw"


def test_an_image_that_is_skipped_is_counted(tmp_path):
    folder = class_folders(tmp_path, 2, 2)
    (folder / "train" / "class_0" / "broken.png").write_bytes(b"no picture")
    images = Images(source_of(str(folder)).learned, training_transform(Augment(), 48, CONFIG))
    batch = next(SampleBatches(images, SampleOrder(5, 5)).starting(0, Share()))[0]
    assert float(Classification(learner_of(small(), 2))(batch)["damaged"]) == pytest.approx(1 / 5)
    assert images[Sample(0, 0)].classes.ndim == 0
