"""Micro-batches by tokens: within the budget, every image once, and the gradients of the undivided batch."""

import pytest
import torch
from generated_pictures import class_folders

from pixtree.training.augmentation import Mixed, plain_transform
from pixtree.training.batches import ByTokens, Images, SampleBatches, SampleOrder, Share, together
from pixtree.training.labelled import Classification, counts_of
from pixtree.training.learners import learner_of
from pixtree.training.loop import train
from pixtree.training.recipe import Model, Plan
from pixtree.training.sources import source_of

CONFIG = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5), "crop_pct": 1.0}


def small(**changes):
    torch.manual_seed(0)
    values = {"name": "vit_tiny_patch16_224", "image_size": 40, "arguments": {"depth": 1}}
    return learner_of(Model(**(values | changes)), 2)


def batches_of(folder, collate=together):
    images = Images(source_of(str(class_folders(folder, 2, 4))).learned, plain_transform(40, CONFIG))
    return SampleBatches(images, SampleOrder(8, 8), collate=collate)


def test_micro_batches_keep_to_their_tokens_and_hold_every_image_once(tmp_path):
    learner = small(tokenizer="paper")
    whole = batches_of(tmp_path)
    counts = counts_of(learner)(next(whole.starting(0, Share()))[0])
    assert len(set(counts.tolist())) > 1
    most = int(2.5 * counts.float().mean())
    parts = next(ByTokens(whole, most, counts_of(learner)).starting(0, Share()))
    assert len(parts) > 1
    for part in parts:
        own = counts_of(learner)(part)
        assert len(own) == 1 or len(own) * int(own.max()) <= most
    assert sorted(key for part in parts for key in part.keys.tolist()) == sorted(next(whole.starting(0, Share()))[0].keys.tolist())


def test_a_step_in_micro_batches_is_the_step_of_the_whole_batch(tmp_path):
    # Adam would turn gradients that are rounding errors into whole steps.
    plan = Plan(steps=3, rate=1e-2, warmup_steps=1, optimiser="sgd")
    whole = batches_of(tmp_path)
    undivided, divided = small(tokenizer="paper"), small(tokenizer="paper")
    for learner in (undivided, divided):
        learner.tokenizer.regions.requires_grad_(False)  # a rounding error in the encoder would change regions
    first = train(Classification(undivided), whole, plan).losses
    parts = ByTokens(whole, 40, counts_of(divided))
    assert len({len(part.images) for part in next(parts.starting(0, Share()))}) > 1
    assert train(Classification(divided), parts, plan).losses == pytest.approx(first, abs=1e-5)


def test_regions_that_were_cut_already_are_counted(tmp_path):
    learner = small(tokenizer="pixtree", tokens=9, frozen=True)
    batch = next(batches_of(tmp_path, Mixed(None, learner)).starting(0, Share()))[0]
    assert counts_of(learner)(batch).tolist() == [9] * 8
    parts = next(ByTokens(batches_of(tmp_path / "again", Mixed(None, learner)), 27, counts_of(learner)).starting(0, Share()))
    assert [len(part.labels) for part in parts] == [3, 3, 2]
    assert counts_of(small(image_size=64))(batch).tolist() == [16] * 8
