"""Distillation without labels: a retrofitted or coarsened model learns to answer as the untouched one does."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pixtree.models.vit import PixtreeViT
from pixtree.tokenizer.tokens import Tokens
from pixtree.training.loop import Objective
from pixtree.training.pictures import Item


@dataclass(frozen=True)
class Matching:
    """Weights of what is matched: the answer (KL of the classes), what the head reads, and the patch features of every region."""

    answer: float = 1.0
    pooled: float = 1.0
    regions: float = 0.0

    def __post_init__(self) -> None:
        if min(self.answer, self.pooled, self.regions) < 0 or self.answer + self.pooled + self.regions == 0:
            raise ValueError(
                f"expected weights of at least 0, one of them above 0, got {self.answer}, {self.pooled} and "
                f"{self.regions}; try 1, 1, 0"
            )


class Distillation(Objective):
    """The student's answers against the teacher's, on normalised images (B, 3, H, W).

    budgets: the numbers of tokens that are trained for, one of them drawn for each batch; none for a coarsened model, and for a
    retrofit that keeps its own count.
    """

    def __init__(
        self, teacher: nn.Module, student: nn.Module, matching: Matching = Matching(), budgets: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        _check(teacher, student, matching, budgets)
        self.teacher, self.learner, self.matching, self.budgets = teacher.eval().requires_grad_(False), student, matching, budgets

    def train(self, mode: bool = True) -> "Distillation":
        """The teacher never drops anything."""
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, batch: Item | Tensor) -> dict[str, Tensor]:
        """The weighted sum of what is matched, and its parts."""
        images = batch if isinstance(batch, Tensor) else batch.images
        teacher, student, weights = _any(self.teacher), _any(self.learner), self.matching
        with torch.no_grad():
            taught = teacher.forward_features(images)
        tokens, rows, seen = self._student(images)
        found: dict[str, Tensor] = {}
        if weights.answer:
            with torch.no_grad():
                answer = teacher.forward_head(taught)
            found["answer"] = divergence(_head(student, rows, seen), answer)
        if weights.pooled:
            with torch.no_grad():
                pooled = teacher.forward_head(taught, pre_logits=True)
            found["pooled"] = relative_error(_head(student, rows, seen, pre_logits=True), pooled)
        if weights.regions:
            assert tokens is not None
            found["regions"] = relative_error(*_region_rows(teacher, student, taught, tokens, rows))
        loss = sum(getattr(weights, name) * value for name, value in found.items())
        counted = {} if tokens is None else {"tokens": tokens.valid.sum(dim=1).float().mean()}
        return {"loss": torch.as_tensor(loss), **{name: value.detach() for name, value in found.items()}, **counted}

    def _student(self, images: Tensor) -> tuple[Tokens | None, Tensor, Tensor | None]:
        """The student's tokens, its rows after all blocks, and which of them are regions."""
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
    """Mean ‖found − wanted‖² over mean ‖wanted‖² of rows (…, D)."""
    return (found - wanted).square().sum(dim=-1).mean() / wanted.square().sum(dim=-1).mean().clamp_min(1e-12)


def _any(module: nn.Module) -> Any:
    return module


def _head(student: Any, rows: Tensor, seen: Tensor | None, pre_logits: bool = False) -> Tensor:
    found: Tensor = student.forward_head(rows, pre_logits=pre_logits, **({} if seen is None else {"seen": seen}))
    return found


def _region_rows(teacher: Any, student: Any, taught: Tensor, tokens: Tokens, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The student's rows of all regions, and the teacher's patch features averaged over the same pixels."""
    patches = taught[:, teacher.num_prefix_tokens :]
    with torch.autocast(rows.device.type, enabled=False):
        shares = patch_shares(tokens.partition.labels, teacher.patch_embed.patch_size, tokens.features.shape[1])
        wanted = shares @ patches.float()
    return rows[:, student.num_prefix_tokens :][tokens.valid], wanted[tokens.valid]


def patch_shares(labels: Tensor, side: tuple[int, int], count: int) -> Tensor:
    """How the pixels of every region are spread over the patches of `side`: (B, count, patches) float32, rows that sum to 1.

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
            f"expected a teacher and a student of the same classes, got {classes[0]} and {classes[1]}; take the student from the "
            "teacher, or set the weight of the answer to 0 where there are none"
        )
    widths = [int(getattr(one, "embed_dim", 0)) for one in (teacher, student)]
    if widths[0] != widths[1]:
        raise ValueError(f"expected a teacher and a student of one width, got {widths[0]} and {widths[1]}; take another teacher")
    if not isinstance(student, PixtreeViT) and (matching.regions or budgets):
        raise ValueError("regions and budgets need a retrofitted student, got another model; leave both out")
