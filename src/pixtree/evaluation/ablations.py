"""Tables of the paper about retrofits: ablations, one change at a time, and accuracy at image sizes from 64 to 768 px.

[`tab:ablation_rebuttal`, `tab:hyperparam_ablations`, `tab:kernelpos`, `fig:scale_invariance`]
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pixtree.evaluation.classification import (
    Reading,
    check_same_classes,
    class_table,
    hits,
    image_side,
    logits_and_count,
    measures,
    outputs_of,
)
from pixtree.evaluation.classified_images import ClassifiedImages
from pixtree.evaluation.variants import Variant, cost_of, tokenizer_flops, variant_of, with_budget
from pixtree.models.retrofit import retrofit
from pixtree.models.vit import PixtreeViT
from pixtree.tokenizer.components import LEVEL, Component, fix_without, options_without
from pixtree.tokenizer.cutting import PerPatch, TokenBudget
from pixtree.tokenizer.tokenizer import PAPER_BUDGET, paper_changes
from pixtree.trees.cuts import AtMost, Exactly, criterion_of

ABLATION_COLUMNS = [
    ["table", "Varied", ""],
    ["name", "Value", ""],
    ["tokens", "Tokens", ".1f"],
    ["gflops", "GFLOPs of the tokenizer", ".3f"],
    ["top1", "Top-1 ↑", ".4f"],
    ["lost", "Against the first ↑", "+.4f"],
    ["paired", "± standard error", ".4f"],
    ["divergence", "KL from the patch model, nats ↓", ".4f"],
]
SCALE_COLUMNS = [
    ["size", "Side, px", ""],
    ["kind", "Tokens from", ""],
    ["tokens", "Tokens", ".5g"],
    ["gflops", "GFLOPs", ".2f"],
    ["top1", "Top-1 ↑", ".4f"],
    ["error", "± standard error", ".4f"],
    ["agreement", "Same answer as patches at the model's own size ↑", ".4f"],
]


@dataclass(frozen=True)
class Ablation:
    """One row: the table of the paper, the value, and the change.

    options: of the tokenizer. budget: in place of the base's. bins: resolution of the positions. without: the component that
    is left out.
    """

    table: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    budget: TokenBudget | None = None
    bins: int | None = None
    without: Component | None = None


@dataclass(frozen=True)
class Base:
    """The model that is varied: what makes its options of changes, and the budget of all rows that do not change it."""

    changed: Callable[..., dict[str, Any]]
    budget: TokenBudget


BASES = {"default": Base(dict, Exactly(196)), "paper": Base(paper_changes, PAPER_BUDGET)}


def ablations(base: Base) -> list[Ablation]:
    """All rows, the base first."""
    criterion = base.budget if base.budget == PAPER_BUDGET else PAPER_BUDGET
    return [
        Ablation("components", "all"),
        Ablation("components", "− CNN", without="cnn"),
        Ablation("components", "− mask blending (λ = 0)", without="blending"),
        Ablation("components", "− β", without="beta"),
        Ablation("components", "− kernel aggregation", without="kernel"),
        Ablation("components", f"− selection (level {LEVEL.level})", budget=LEVEL, without="selection"),
        *(Ablation("kernel κ", name, {"kernel": name, "similarity": name}) for name in ("cosine", "tanimoto", "gaussian")),
        *(Ablation("criterion", name, budget=replace(criterion, name=name)) for name in ("aic", "aicc", "bic", "cic")),
        *(Ablation("dimension d", str(count), {"features": count}) for count in (3, 6, 8, 16, 24, 32)),
        *(Ablation("shape b", str(shape), budget=replace(criterion, shape=shape)) for shape in (2.0, 1.0, 0.5)),
        *(Ablation("position bins", str(bins), bins=bins) for bins in (14, 16, 24, 28, 32, 48)),
    ]


def ablated(model: Any, base: Base, ablation: Ablation) -> PixtreeViT:
    """The retrofit of a timm model for one row."""
    options = base.changed(**ablation.options, **options_without(ablation.without))
    built = retrofit(model, budget=ablation.budget or base.budget, tokenizer=options or None, position_resolution=ablation.bins)
    fix_without(ablation.without, built.tokenizer)
    return built


def chosen_ablations(base: Base, tables: Sequence[str]) -> list[Ablation]:
    """The rows of some tables, or of all; the base is always the first."""
    rows = ablations(base)
    known = list(dict.fromkeys(row.table for row in rows))
    unknown = [table for table in tables if table not in known]
    if unknown:
        raise ValueError(f"tables of ablations are {', '.join(known)}, got {', '.join(unknown)}; choose among these")
    return [row for number, row in enumerate(rows) if number == 0 or not tables or row.table in tables]


def ablation_rows(
    model: Any,
    base: Base,
    wanted: Sequence[Ablation],
    data: ClassifiedImages,
    reading: Reading = Reading(),
    report: Callable[[int], None] = lambda count: None,
) -> list[dict[str, Any]]:
    """Accuracy of every row, compared with the first row; all models see the same images in one pass."""
    models = [ablated(model, base, one) for one in wanted]
    patches, *found = outputs_of([model, *models], data, logits_and_count, reading=reading, report=report)
    right = class_table(data, int(model.num_classes))
    first, rows = hits(found[0][:, :-1], right, 1), []
    for one, built, outputs in zip(wanted, models, found, strict=True):
        figures = measures(outputs[:, :-1], patches[:, :-1], right)
        paired, tokens = hits(outputs[:, :-1], right, 1) - first, outputs[:, -1].mean().item()
        rows.append(
            {
                "table": one.table,
                "name": one.name,
                "tokens": tokens,
                "gflops": tokenizer_flops(built, round(tokens)) / 1e9,
                "top1": figures["top1"],
                "lost": paired.mean().item(),
                "paired": (paired.std() / math.sqrt(len(paired))).item() if len(paired) > 1 else math.nan,
                "divergence": figures["divergence"],
            }
        )
    return rows


class Scaled(NamedTuple):
    """A model for images of one size, and the name of its row."""

    kind: str
    model: Any


def patch_tokens(model: Any, size: int) -> int:
    """The number of patches of a square image."""
    patches: int = math.ceil(size / model.patch_embed.patch_size[0])
    return patches**2


def at_size(model: Any, size: int, own: int, regions: Any | None = None) -> list[Scaled]:
    """A timm model at a size, and regions of it, whose counts follow from the size or stay.

    First its patches. Then as the paper has it, the regions that the criterion chooses, merged until there are at most as many as
    patches; as many regions by our nested cut; and as many as it has patches at its `own` size. regions: a trained retrofit of
    the model; without it, an untrained one, for the criterion that of the paper. A retrofit without a criterion has no such row.
    """
    base, matched, usual = model if regions is None else regions, patch_tokens(model, size), patch_tokens(model, own)
    found = [Scaled("patches", variant_of(model, Variant(size=size)))]
    chosen = retrofit(model, budget=PAPER_BUDGET, tokenizer=paper_changes()) if regions is None else regions
    budget = chosen.tokenizer.budget if isinstance(chosen, PixtreeViT) else None
    criterion = None if budget is None or isinstance(budget, PerPatch) else criterion_of(budget)
    if criterion is not None:
        found.append(Scaled("the criterion's regions, merged", with_budget(chosen, AtMost(matched, criterion))))
    found.append(Scaled("as many regions", variant_of(base, Variant(tokens=matched))))
    if usual <= size * size:
        found.append(Scaled(f"{usual} regions", variant_of(base, Variant(tokens=usual))))
    return found


def scale_rows(
    model: Any,
    regions: Any | None,
    data: ClassifiedImages,
    sizes: Sequence[int],
    reading: Reading = Reading(),
    report: Callable[[int], None] = lambda count: None,
) -> list[dict[str, Any]]:
    """Accuracy at every size, compared with the patch model at its own size; tokens are means over the images."""
    own, rows = image_side(model), []
    check_same_classes([model, *([] if regions is None else [regions])])
    scaled = {size: at_size(model, size, own, regions) for size in sizes}  # impossible sizes are refused before any work
    first = outputs_of([model], data, reading=reading)[0]
    right = class_table(data, int(model.num_classes))
    for size, models in scaled.items():
        outputs = outputs_of([one.model for one in models], data, logits_and_count, reading=reading, side=size, report=report)
        for one, found in zip(models, outputs, strict=True):
            cost = cost_of(one.model, size, counts=found[:, -1])
            figures = measures(found[:, :-1], first, right)
            rows.append({"size": size, "kind": one.kind, "tokens": cost.tokens, "gflops": cost.gflops, **figures})
    return rows
