"""A short training in a process of its own: `python small_run.py CHECKPOINT STEPS [SECONDS PER STEP]` prints its losses."""

import json
import sys
import time
from pathlib import Path

import torch

import pixtree
from pixtree.training.batches import SampleOrder
from pixtree.training.loop import Objective, train
from pixtree.training.recipe import Plan
from pixtree.trees.partition import Partition


class Classes(Objective):
    """A tiny retrofitted model on fixed partitions: random images of four classes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.learner = pixtree.retrofit("vit_tiny_patch16_224", tokens=9, depth=2, num_classes=4)

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


def main():
    checkpoint, steps = Path(sys.argv[1]), int(sys.argv[2])
    wait = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
    plan = Plan(steps=steps, rate=1e-3, warmup_steps=2, every=2)
    found = train(Classes(), Images(), plan, checkpoint=checkpoint, resume=checkpoint.is_file(), report=lambda *_: time.sleep(wait))
    print(json.dumps(found.losses))


if __name__ == "__main__":
    main()
