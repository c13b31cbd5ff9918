"""Distillation without labels: a retrofitted or coarsened model learns the outputs of the original one."""

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pixtree.files import write_json, write_tensors
from pixtree.models.coarsening import CoarseViT, coarsen
from pixtree.models.retrofit import retrofit
from pixtree.models.timm_import import timm
from pixtree.models.vit import PixtreeViT
from pixtree.models.zoo import named_model
from pixtree.tokenizer.tokens import Tokens
from pixtree.training.batches import Item
from pixtree.training.loop import Objective
from pixtree.training.recipe import Matching, Student


class Distillation(Objective):
    """The student's outputs against the teacher's, on normalised images (B, 3, H, W).

    budgets: numbers of tokens, one of which is drawn for each batch; empty for a coarsened model, and for a retrofit that keeps its
    own count.
    """

    def __init__(
        self, teacher: nn.Module, student: nn.Module, matching: Matching = Matching(), budgets: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        _check(teacher, student, matching, budgets)
        self.teacher, self.learner, self.matching, self.budgets = teacher.eval().requires_grad_(False), student, matching, budgets

    def train(self, mode: bool = True) -> "Distillation":
        """The teacher stays in evaluation mode."""
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, batch: Item | Tensor) -> dict[str, Tensor]:
        """The weighted sum of the losses, and each of them."""
        images = batch if isinstance(batch, Tensor) else batch.images
        teacher, student, weights = _any(self.teacher), _any(self.learner), self.matching
        with torch.no_grad():
            taught = teacher.forward_features(images)
        tokens, features, seen = self._student(images)
        found: dict[str, Tensor] = {}
        if weights.answer:
            with torch.no_grad():
                logits = teacher.forward_head(taught)
            found["answer"] = divergence(_head(student, features, seen), logits)
        if weights.pooled:
            with torch.no_grad():
                pooled = teacher.forward_head(taught, pre_logits=True)
            found["pooled"] = relative_error(_head(student, features, seen, pre_logits=True), pooled)
        if weights.regions:
            assert tokens is not None
            found["regions"] = relative_error(*_region_features(teacher, student, taught, tokens, features))
        loss = sum(getattr(weights, name) * value for name, value in found.items())
        counted = {} if tokens is None else {"tokens": tokens.valid.sum(dim=1).float().mean()}
        return {"loss": torch.as_tensor(loss), **{name: value.detach() for name, value in found.items()}, **counted}

    def _student(self, images: Tensor) -> tuple[Tokens | None, Tensor, Tensor | None]:
        """The student's tokens, its sequence after all blocks, and which places of it are valid."""
        student = _any(self.learner)
        if not isinstance(self.learner, PixtreeViT):
            return None, student.forward_features(images), None
        count = self.budgets[int(torch.randint(len(self.budgets), ()))] if self.budgets else None
        tokens = self.learner.tokens(images, tokens=count)
        return tokens, self.learner.backbone.features(self.learner.sequence(tokens)), tokens.sequence_mask()


def divergence(found: Tensor, wanted: Tensor) -> Tensor:
    """Mean KL(wanted ‖ found) of two batches of logits (B, classes)."""
    return functional.kl_div(found.log_softmax(dim=-1), wanted.log_softmax(dim=-1), reduction="batchmean", log_target=True)


def relative_error(found: Tensor, wanted: Tensor) -> Tensor:
    """Mean ‖found − wanted‖² over mean ‖wanted‖² of features (…, D)."""
    return (found - wanted).square().sum(dim=-1).mean() / wanted.square().sum(dim=-1).mean().clamp_min(1e-12)


def _any(module: nn.Module) -> Any:
    return module


def _head(student: Any, features: Tensor, seen: Tensor | None, pre_logits: bool = False) -> Tensor:
    found: Tensor = student.forward_head(features, pre_logits=pre_logits, **({} if seen is None else {"seen": seen}))
    return found


def _region_features(teacher: Any, student: Any, taught: Tensor, tokens: Tokens, features: Tensor) -> tuple[Tensor, Tensor]:
    """The student's features of all regions, and the teacher's patch features averaged over the same pixels."""
    patches = taught[:, teacher.num_prefix_tokens :]
    with torch.autocast(features.device.type, enabled=False):
        shares = patch_shares(tokens.partition.labels, teacher.patch_embed.patch_size, tokens.features.shape[1])
        wanted = shares @ patches.float()
    return features[:, student.num_prefix_tokens :][tokens.valid], wanted[tokens.valid]


def patch_shares(labels: Tensor, side: tuple[int, int], count: int) -> Tensor:
    """The share of each patch of `side` in the pixels of every region: (B, count, patches) float32, which sums to 1 per region.

    labels: (B, H, W), −1 outside a mask. Regions without pixels have zeros.
    """
    batch, height, width = labels.shape
    across = -(-width // side[1])
    down = torch.arange(height, device=labels.device) // side[0] * across
    patch = down[:, None] + torch.arange(width, device=labels.device) // side[1]
    patches = -(-height // side[0]) * across
    region = labels.to(torch.int64) + count * torch.arange(batch, device=labels.device)[:, None, None]
    pixels = torch.bincount((region * patches + patch)[labels >= 0], minlength=batch * count * patches)
    found = pixels.view(batch, count, patches).float()
    return found / found.sum(dim=2, keepdim=True).clamp_min(1)


def _check(teacher: nn.Module, student: nn.Module, matching: Matching, budgets: tuple[int, ...]) -> None:
    classes = [int(getattr(one, "num_classes", 0)) for one in (teacher, student)]
    if classes[0] != classes[1] or (matching.answer and classes[0] == 0):
        raise ValueError(
            f"expected a teacher and a student of the same classes, got {classes[0]} and {classes[1]}; make the student from the "
            "teacher, or set the weight of the answer to 0 for models without classes"
        )
    widths = [int(getattr(one, "embed_dim", 0)) for one in (teacher, student)]
    if widths[0] != widths[1]:
        raise ValueError(f"expected a teacher and a student of one width, got {widths[0]} and {widths[1]}; take another teacher")
    if not isinstance(student, PixtreeViT) and (matching.regions or budgets):
        raise ValueError("regions and budgets need a retrofitted student, got another model; remove both")


def teacher_of(model: Student, *, weights: bool = True) -> Any:
    """The model that is distilled, in `eval()`; without `weights`, as for a dry run, nothing is downloaded."""
    if model.start == "timm" and not weights and timm.is_model(model.name.partition(".")[0]):
        return timm.create_model(model.name).eval()
    return named_model(model.name, None if model.start == "timm" else model.start)


def student_of(teacher: Any, model: Student) -> nn.Module:
    """The teacher's copy, retrofitted or coarsened."""
    if model.compute is not None:
        return coarsen(copy.deepcopy(teacher), model.compute)
    return retrofit(teacher, tokens=model.tokens[0])


def keep_student(student: nn.Module, model: Student, folder: Path) -> None:
    """Write a retrofit as `PixtreeViT.from_pretrained` reads it; of a coarsened model, the timm model's weights."""
    if isinstance(student, PixtreeViT):
        student.save_pretrained(folder)
        return
    assert isinstance(student, CoarseViT)
    write_tensors(folder / "model.safetensors", {name: one.contiguous() for name, one in student.model.state_dict().items()})
    write_json(folder / "config.json", {"model": model.name, "compute": model.compute}, indent=1)
