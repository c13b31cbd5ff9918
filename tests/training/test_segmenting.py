"""Segmentation: targets and losses computed by hand, crops, and a model that learns a few images by heart."""

import json
import math

import numpy as np
import pytest
import torch
from commands import invoke
from PIL import Image

import pixtree
from pixtree.cli.main import app
from pixtree.evaluation.label_maps import IGNORED, labelled_set
from pixtree.evaluation.segmentation_measures import Confusion
from pixtree.models.segmentation import Segmenter
from pixtree.models.timm_import import timm
from pixtree.training.augmentation import LabelledChanges
from pixtree.training.batches import Share
from pixtree.training.learners import learner_of
from pixtree.training.loop import train
from pixtree.training.recipe import Augment, MaskLosses, Model, Plan, read_recipe
from pixtree.training.segmenting import (
    Labelled,
    LabelledBatches,
    LayeredSegmenter,
    Segmentation,
    class_shares,
    image_loss,
    keep_segmenter,
    mean_iou,
    token_losses,
)

COLOURS = np.array([(40, 120, 40), (200, 40, 40), (40, 60, 200)])


def test_targets_are_shares_of_labelled_pixels():
    labels = torch.tensor([[[0, 0, 0, 1], [0, 1, 1, -1]]])
    truth = torch.tensor([[[2, 2, 0, IGNORED], [IGNORED, 1, 1, 2]]])
    shares, seen = class_shares(labels, truth, 3, 3)
    assert torch.allclose(shares[0], torch.tensor([[1 / 3, 0, 2 / 3], [0, 1, 0], [0, 0, 0]]))
    assert torch.allclose(seen[0], torch.tensor([3 / 4, 2 / 3, 0]))


def test_losses_are_those_computed_by_hand():
    logits = torch.tensor([[[math.log(3.0), 0.0], [0.0, 0.0]]])  # p = 3/4, 1/2; 1/2, 1/2
    target, weight = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]]), torch.tensor([[1.0, 0.5]])
    first = -math.log(3 / 4) - math.log(1 / 2)
    second = 2 * math.log(2)
    entropy, focal = token_losses(logits, target, weight)
    assert float(entropy) == pytest.approx((first + 0.5 * second) / 1.5)
    wanted = -((1 / 4) ** 2) * math.log(3 / 4) - (1 / 2) ** 2 * math.log(1 / 2)  # shares that are met cost nothing
    assert float(focal) == pytest.approx(wanted / 1.5)
    plain, same = token_losses(logits, target, weight, MaskLosses(gamma=0.0))
    assert float(plain) == pytest.approx(float(same))


def test_the_loss_of_whole_images_asks_the_class_token_for_the_classes_that_they_show():
    logits = torch.tensor([[math.log(3.0), 0.0], [5.0, -5.0]])  # p = 3/4, 1/2; the second image has no counted pixel
    target = torch.tensor([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    found = image_loss(logits, target, torch.tensor([[0.5, 0.0], [0.0, 0.0]]))
    assert float(found) == pytest.approx(-math.log(3 / 4) - math.log(1 / 2))


def test_the_loss_of_the_release_is_the_focal_one_with_exponent_four_and_that_of_whole_images():
    torch.manual_seed(0)
    release = MaskLosses(bce=0.0, focal=1.0, gamma=4.0, image=1.0)
    for model in ("vit_tiny_patch16_224", pixtree.retrofit("vit_tiny_patch16_224", tokens=9, depth=1, num_classes=0)):
        vit = timm.create_model(model, depth=1, num_classes=0) if isinstance(model, str) else model
        segmenter = Segmenter(vit, 3)
        if isinstance(model, str):
            vit.set_input_size((64, 80))
        batch = Labelled(torch.rand(2, 3, 64, 80), torch.randint(0, 3, (2, 64, 80)))
        ours, theirs = (Segmentation(segmenter, losses)(batch) for losses in (MaskLosses(gamma=4.0), release))
        assert "image" not in ours
        assert float(theirs["loss"].detach()) == pytest.approx(float(theirs["focal"] + theirs["image"]))
        assert float(theirs["focal"]) == pytest.approx(float(ours["focal"]))
        theirs["loss"].backward()
        assert segmenter.head[0].weight.grad.any()
        prefix = vit.cls_token if isinstance(model, str) else vit.tokenizer.prefix
        assert prefix.grad.any()


def test_the_loss_of_whole_images_needs_a_class_token():
    vit = timm.create_model("vit_tiny_patch16_224", depth=1, class_token=False, global_pool="avg", num_classes=0)
    with pytest.raises(ValueError, match="needs a class token"):
        Segmentation(Segmenter(vit, 3), MaskLosses(image=1.0))


def picture(seed):
    """Noisy shapes of three classes, (H, W, 3) and (H, W)."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((64, 80), np.uint8)
    top, left = rng.integers(4, 24, 2)
    truth[top : top + 22, left : left + 30] = 1
    truth[40 + seed : 60, 50:74] = 2
    return np.clip(COLOURS[truth] + rng.integers(-12, 13, (64, 80, 3)), 0, 255).astype(np.uint8), truth


@pytest.fixture
def folder(tmp_path):
    for part in ("images", "labels"):
        (tmp_path / part / "train").mkdir(parents=True)
    for seed in range(4):
        image, truth = picture(seed)
        Image.fromarray(image).save(tmp_path / "images" / "train" / f"{seed}.png")
        Image.fromarray(truth).save(tmp_path / "labels" / "train" / f"{seed}.png")
    return tmp_path


def test_crops_follow_from_seed_and_step(folder):
    images = labelled_set(folder, "camvid", "train").images
    batches = LabelledBatches(images, (48, 48), (0.5,) * 3, (0.5,) * 3, batch=3, micro_batch=2, seed=1)
    read = LabelledBatches(images, (48, 48), (0.5,) * 3, (0.5,) * 3, batch=3, micro_batch=2, seed=1, workers=1)
    first, again = (next(one.starting(5, Share())) for one in (batches, read))
    assert [len(one.images) for one in first] == [2, 1]
    assert all(torch.equal(a.images, b.images) and torch.equal(a.truth, b.truth) for a, b in zip(first, again, strict=True))
    assert first[0].images.shape == (2, 3, 48, 48)
    colours = (first[0].images * 0.5 + 0.5).permute(0, 2, 3, 1) * 255
    nearest = (colours[..., None, :] - torch.from_numpy(COLOURS)).square().sum(-1).argmin(-1)
    assert (nearest == first[0].truth).float().mean() > 0.95  # classes move with their pixels


CONFIG = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "interpolation": "bicubic"}


def test_what_moves_the_pixels_of_a_picture_moves_its_labels():
    image, truth = picture(0)
    given = torch.from_numpy(image).permute(2, 0, 1) / 255, torch.from_numpy(truth).to(torch.int64)
    moves = LabelledChanges(Augment(policies=("rand-m9-n1-inc1",)), 64, CONFIG)
    for policy in moves.images + moves.maps:  # rotations only, always
        policy.transforms[0].ops = [one for one in policy.transforms[0].ops if one.name == "Rotate"]
        policy.transforms[0].ops[0].prob = 1.0
        policy.transforms[0].choice_weights = None
    for key in range(4):
        changed, labels = moves(*given, key)
        assert not torch.equal(labels, given[1])
        inside = labels != IGNORED
        assert 0 < (~inside).float().mean() < 0.5
        nearest = (changed.permute(1, 2, 0)[..., None, :] * 255 - torch.from_numpy(COLOURS)).square().sum(-1).argmin(-1)
        assert (nearest == labels)[inside].float().mean() > 0.95
        assert all(torch.equal(a, b) for a, b in zip((changed, labels), moves(*given, key), strict=True))


def test_colours_change_without_the_labels():
    image, truth = picture(1)
    given = torch.from_numpy(image).permute(2, 0, 1) / 255, torch.from_numpy(truth).to(torch.int64)
    changes = LabelledChanges(Augment(policies=("3a",), color_jitter=0.3), 64, CONFIG)
    for key in range(6):
        changed, labels = changes(*given, key)
        assert torch.equal(labels, given[1])
        assert not torch.equal(changed, given[0])


def test_the_policies_of_the_papers_recipe_keep_pictures_and_labels_together(folder):
    images = labelled_set(folder, "camvid", "train").images
    changes = LabelledChanges(read_recipe("segment").augment, 48, CONFIG)
    batches = LabelledBatches(images, (48, 48), (0.5,) * 3, (0.5,) * 3, batch=4, changes=changes)
    source = batches.starting(0, Share())
    for _ in range(20):
        found = next(source)[0]
        assert found.images.shape == (4, 3, 48, 48)
        assert set(found.truth.unique().tolist()) <= {0, 1, 2, IGNORED}
        assert found.images.abs().max() <= 1


def test_a_tiny_model_learns_four_images_by_heart():
    torch.manual_seed(0)
    vit = timm.create_model("vit_tiny_patch16_224", embed_dim=48, depth=2, num_heads=3, num_classes=0, img_size=64)
    segmenter = Segmenter(pixtree.retrofit(vit, tokens=24), 3)
    data = [picture(seed) for seed in range(4)]
    images = torch.stack([(torch.from_numpy(image).permute(2, 0, 1) / 255 - 0.5) / 0.5 for image, _ in data])
    truth = torch.stack([torch.from_numpy(labels.astype(np.int64)) for _, labels in data])
    labels = segmenter.model.partition(images).labels

    class Always:
        def starting(self, step, share):
            while True:
                yield [Labelled(images, truth, labels)]

    plan = Plan(steps=60, rate=3e-3, warmup_steps=5, weight_decay=0.0)
    done = train(Segmentation(segmenter), Always(), plan)
    assert done.losses[-1] < 0.2 * done.losses[0]
    found = segmenter.eval().predict(images).numpy()
    total = sum((Confusion.of(a, b, 3) for a, b in zip(found, truth.numpy(), strict=True)), Confusion(np.zeros((3, 3), np.int64)))
    assert total.mean_iou > 0.95


def test_a_saved_segmenter_is_measured_by_a_command(folder, tmp_path):
    model = Model(name="test_vit", image_size=48, arguments={"img_size": 48}, tokenizer="pixtree", tokens=9)
    segmenter = LayeredSegmenter(learner_of(model, 3), 11)
    (tmp_path / "run").mkdir()
    keep_segmenter(segmenter, model, tmp_path / "run")
    words = [str(tmp_path / "run"), str(folder), "--split", "train"]
    done = invoke(app, ["evaluate", "segmentation", *words, "-o", str(tmp_path / "r.json")])
    assert done.exit_code == 0, done.output + done.stderr
    held = labelled_set(folder, "camvid", "train")
    whole, *classes = json.loads((tmp_path / "r.json").read_text())["rows"]
    assert whole["miou"] == pytest.approx(mean_iou(segmenter, held, 48))
    assert [row["class"] for row in classes] == list(held.classes)
    assert np.mean([row["miou"] for row in classes if row["miou"] is not None]) == pytest.approx(whole["miou"])
    assert 0 <= whole["boundary_f"] <= 1
    refused = invoke(app, ["evaluate", "segmentation", *words, "--layout", "voc"])
    assert refused.exit_code == 1
