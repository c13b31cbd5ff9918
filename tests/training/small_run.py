"""A short training, in this process or in one of its own."""

import json
import time

import torch

import pixtree
from pixtree.training.batches import SampleOrder
from pixtree.training.loop import Objective, train
from pixtree.training.recipe import Plan
from pixtree.trees.partition import Partition

STEPS = 10


class Classes(Objective):
    """A tiny retrofitted model on fixed partitions: random images of four classes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.learner = pixtree.retrofit("vit_tiny_patch16_224", tokens=9, depth=2, embed_dim=96, num_heads=3, num_classes=4)

    def forward(self, batch):
        images, labels, targets = batch
        logits = self.learner(images, Partition(labels))
        return {"loss": torch.nn.functional.cross_entropy(logits, targets)}


class Images:
    """Images of 48 px with square regions."""

    def __init__(self):
        generator = torch.Generator().manual_seed(1)
        self.images = torch.randint(256, (12, 3, 48, 48), generator=generator, dtype=torch.uint8)
        cells = torch.arange(48) // 16
        self.labels = (cells[:, None] * 3 + cells).to(torch.int32).expand(12, 48, 48).contiguous()

    def starting(self, step, share):
        while True:
            chosen = [one.place for one in SampleOrder(12, 4).samples(step, share)]
            yield [(self.images[chosen], self.labels[chosen], torch.tensor(chosen) % 4)]
            step += 1


def losses_of(checkpoint, seconds=0.0):
    """Train ten steps, each at least so many seconds long, or go on where the checkpoint ends; returns the loss of every step."""
    plan = Plan(steps=STEPS, rate=1e-3, warmup_steps=2, every=2)
    found = train(
        Classes(), Images(), plan, checkpoint=checkpoint, resume=checkpoint.is_file(), report=lambda *_: time.sleep(seconds)
    )
    return found.losses


def write_losses(output, *arguments):
    """The same in a process of its own, which leaves the losses in a file."""
    output.write_text(json.dumps(losses_of(*arguments)))
