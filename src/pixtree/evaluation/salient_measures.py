"""Measures of salient objects, and a comparison of tokens and of rules for the object's side over a folder."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pixtree.evaluation.label_maps import IGNORED, LabelledImage
from pixtree.models.facets import Facet, Reading
from pixtree.tasks.salient import SIZE, TOKENS, Scenery, refined, scenery_of
from pixtree.tasks.segment import hierarchy
from pixtree.tasks.token_graph import RULES, Affinity, affinity_for

Values = NDArray[np.float64]
Mask = NDArray[np.bool_]

THRESHOLDS, BETA = 255, 0.3  # of F_max: β² as in the papers on saliency


def overlap(found: Mask, wanted: Mask, counted: Mask | None = None) -> float:
    """Intersection over union of two masks (H, W), over the pixels that are counted; 1 for two empty masks."""
    inside = np.ones(found.shape, bool) if counted is None else counted
    union = ((found | wanted) & inside).sum()
    return 1.0 if union == 0 else float((found & wanted & inside).sum() / union)


def precision_and_recall(soft: Values, wanted: Mask) -> tuple[Values, Values]:
    """Precision and recall (255,) of soft values in 0..1, cut above t/255 for t = 0 … 254; an empty cut has precision 1."""
    step = np.ceil(np.clip(soft, 0, 1) * THRESHOLDS).astype(np.int64)  # pixels above t/255 are those of a step beyond t
    found, right = (np.bincount(step[area], minlength=THRESHOLDS + 1) for area in (np.ones_like(wanted), wanted))
    above, hits = (np.cumsum(counts[::-1])[::-1][1:] for counts in (found, right))
    return np.where(above > 0, hits / np.maximum(above, 1), 1.0), hits / max(int(wanted.sum()), 1)


def f_max(curves: Iterable[tuple[Values, Values]]) -> float:
    """F_max of images: the largest F_β over thresholds of mean precision and mean recall, β² = 0.3."""
    precision, recall = (np.mean(values, axis=0) for values in zip(*curves, strict=True))
    return float(((1 + BETA) * precision * recall / np.maximum(BETA * precision + recall, 1e-12)).max())


@dataclass(frozen=True)
class Way:
    """One way to a mask: regions that the model's tokens are pooled into (None for its own), the refinement and the affinity."""

    name: str
    tokens: int | None = TOKENS
    refine: str | None = None
    affinity: Affinity | None = None


@dataclass(frozen=True, eq=False)
class Prediction:
    """The object of one photo by one way: its mask, a soft map, and the unrefined mask of each rule for the side."""

    way: Way
    mask: Mask
    soft: Values
    sides: dict[str, Mask]
    halves: tuple[Mask, Mask]


@dataclass(frozen=True)
class Found:
    """The measures of one prediction, and which rules choose the side that overlaps more."""

    photo: str
    way: str
    iou: float
    accuracy: float
    curve: tuple[Values, Values]
    right: dict[str, bool]


def predictions(
    pixels: NDArray[np.uint8],
    model: Any,
    ways: Iterable[Way],
    *,
    side: str = "border",
    rules: Iterable[str] = RULES,
    size: int = SIZE,
) -> Iterator[Prediction]:
    """One photo (H, W, 3) by several ways, the object being the side that the rule `side` chooses."""
    image = torch.from_numpy(pixels).permute(2, 0, 1).contiguous()  # HWC -> CHW
    tree = hierarchy(image)
    readings: dict[tuple[Facet, ...], Reading] = {}
    for way in ways:
        affinity = way.affinity or affinity_for(model, pooled=way.tokens is not None)
        scenery = scenery_of(
            image, model, tree=tree, tokens=way.tokens, affinity=affinity, size=size, reading=readings.get(affinity.facets)
        )
        readings[affinity.facets] = scenery.reading
        vector = scenery.cut()
        inside = scenery.side(vector, side)
        mask = refined(scenery.mask(inside), image, tree, way.refine)
        soft = mask.astype(np.float64) if way.refine else _soft(scenery, vector, inside)
        sides = {} if way.refine else {rule: scenery.mask(scenery.side(vector, rule)) for rule in rules}
        yield Prediction(way, mask, soft, sides, (scenery.mask(vector > 0), scenery.mask(vector <= 0)))


def scored(photo: str, predicted: Prediction, truth: NDArray[np.int64]) -> Found:
    """A prediction against labels (H, W): 1 is the object, and IGNORED pixels do not count."""
    wanted, counted = truth == 1, truth != IGNORED
    best = max(overlap(half, wanted, counted) for half in predicted.halves)
    return Found(
        photo,
        predicted.way.name,
        overlap(predicted.mask, wanted, counted),
        float((predicted.mask == wanted)[counted].mean()),
        precision_and_recall(predicted.soft[counted], wanted[counted]),
        {rule: overlap(mask, wanted, counted) == best for rule, mask in predicted.sides.items()},
    )


def measured(image: LabelledImage, model: Any, ways: Iterable[Way], **options: Any) -> Iterator[Found]:
    """One photo of a folder by several ways; the options are those of `predictions`."""
    truth = image.labels()
    for predicted in predictions(image.pixels(), model, ways, **options):
        yield scored(image.name, predicted, truth)


def summary(found: Iterable[Found]) -> list[dict[str, Any]]:
    """One row per way: means over photos, the standard error of the IoU, and the share of right sides per rule."""
    groups: dict[str, list[Found]] = {}
    for one in found:
        groups.setdefault(one.way, []).append(one)
    return [_row(way, group) for way, group in groups.items()]


def _row(way: str, group: list[Found]) -> dict[str, Any]:
    scores = np.array([one.iou for one in group])
    row: dict[str, Any] = {
        "way": way,
        "photos": len(group),
        "iou": float(scores.mean()),
        "iou_se": float(scores.std(ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else None,
        "accuracy": float(np.mean([one.accuracy for one in group])),
        "f_max": f_max(one.curve for one in group),
    }
    return row | {f"right_{rule}": float(np.mean([one.right[rule] for one in group])) for rule in group[0].right}


def _soft(scenery: Scenery, vector: Values, inside: Mask) -> Values:
    """The vector as values in 0..1 over the pixels (H, W): above a half on the object's side."""
    towards = vector if inside[np.abs(vector).argmax()] == (vector[np.abs(vector).argmax()] > 0) else -vector
    highest = np.abs(vector).max()
    return scenery.graph.painted(0.5 + 0.5 * towards / highest) if highest > 0 else np.zeros(scenery.graph.labels.shape)
