"""Reconstruction pretraining of the tokenizer: L_rec, and a loss that sees the regions. [`eq:recloss`]"""

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from pixtree.evaluation.tokenizer_measures import Pretrained
from pixtree.kernels import kernels_for
from pixtree.kernels.tokens.aggregate import Kernel
from pixtree.kernels.tokens.aggregate.definition import Rows, log_kernel
from pixtree.runtime.processes import gathered, interleaved, joined
from pixtree.runtime.transfer import scalar
from pixtree.tokenizer.region_encoder import EncodedRegions, RegionEncoder
from pixtree.tokenizer.tokenizer import PAPER, PAPER_BUDGET, Options, region_encoder
from pixtree.tokenizer.weights import load_weights
from pixtree.training.batches import Crops, Sample, reading_workers
from pixtree.training.loop import Objective
from pixtree.training.recipe import Encoder, Reconstruction, TokenizerRecipe, read_recipe
from pixtree.trees.criteria import Criterion
from pixtree.trees.cuts import Budget, Exactly

ENCODER, RECIPE = "encoder.safetensors", "recipe.yaml"  # of a run, in its folder


class Preset(NamedTuple):
    """The tokenizer that is pretrained, and the regions of each crop."""

    options: Options
    budget: Budget


PRESETS = {"default": Preset(Options().changed(compactness=0.0), Exactly(80)), "paper": Preset(PAPER, PAPER_BUDGET)}


def preset_of(encoder: Encoder) -> Preset:
    """The preset of a recipe with the recipe's changes."""
    options, budget = PRESETS[encoder.preset]
    options = options.changed(features=encoder.features, linear=encoder.linear)
    if encoder.compactness is not None:
        options = options.changed(compactness=encoder.compactness)
    if encoder.kernel is not None:
        options = options.changed(kernel=encoder.kernel, similarity=encoder.kernel)
    if isinstance(budget, Criterion):
        budget = replace(budget, name=encoder.criterion or budget.name, shape=encoder.shape or budget.shape)
    return Preset(options, budget if encoder.tokens is None else Exactly(encoder.tokens))


def load_encoder(folder: str | Path) -> Pretrained:
    """The encoder in the folder of a run of a tokenizer recipe, with the budget that it was trained with."""
    where = Path(folder)
    missing = next((name for name in (RECIPE, ENCODER) if not (where / name).is_file()), None)
    if missing is not None:
        raise FileNotFoundError(
            f"expected the folder of a run of a tokenizer recipe, found no {missing} in {str(where)!r}; train one by "
            "pixtree train recipe tokenizer"
        )
    recipe = read_recipe(str(where / RECIPE))
    if not isinstance(recipe, TokenizerRecipe):
        raise ValueError(f"expected a run of a tokenizer recipe, {str(where)!r} is one of {recipe.task}; give another folder")
    options, budget = preset_of(recipe.encoder)
    encoder = region_encoder(options)
    load_weights(where / ENCODER).into(encoder)
    given, usual = recipe.encoder.model_dump(), Encoder(preset=recipe.encoder.preset).model_dump()
    changed = ", ".join(f"{key} {value}" for key, value in given.items() if value != usual[key] and key != "crop")
    return Pretrained(encoder.eval(), budget, changed or recipe.encoder.preset)


def reconstruction_loss(pixels: Tensor, colours: Tensor, labels: Tensor, backend: str = "auto") -> Tensor:
    """L_rec = 1/|V| Σ_v ‖x(v) − W f*(v)‖², a scalar; pixels outside all regions count with their own square."""
    return (pixels - kernels_for(backend, pixels.device).paint(colours, labels)).square().sum(dim=1).mean()


def neighbour_labels(labels: Tensor) -> Tensor:
    """Labels of each pixel and its right, left, lower and upper neighbour, (5, B, H, W); at the border the pixel's own."""
    moved = [labels]
    for axis in (2, 1):
        size = labels.shape[axis]
        first, last = labels.narrow(axis, 0, 1), labels.narrow(axis, size - 1, 1)
        moved.append(torch.cat((labels.narrow(axis, 1, size - 1), last), axis))
        moved.append(torch.cat((first, labels.narrow(axis, 0, size - 1)), axis))
    return torch.stack(moved)


def association_loss(regions: EncodedRegions, encoder: RegionEncoder) -> Tensor:
    """Mean ‖x − Σ_r q_r x̄_r‖² over pixels, q ∝ κ(pixel, r) over the regions r that each pixel and its 4-neighbours are in.

    κ is the encoder's kernel on the distance that decides the partition, between a pixel and the mean of a region: for the
    Gaussian q = softmax(−D/2σ²). L_rec with plain means has no gradient for the partition once W f* = x̄*; this one falls when
    the distance moves border pixels to the region whose mean is nearest to their colour.
    """
    labels, shape = regions.labels, regions.partition.labels.shape
    if regions.fixed is None:
        raise ValueError("the association loss needs regions that were encoded with gradients, got some without; remove no_grad")
    fixed, kernels = regions.fixed, kernels_for(encoder.backend, regions.fixed.device)
    means = [kernels.region_means(planes, labels, regions.count) for planes in (regions.features, fixed)]
    weight, precision = (scalar(one, fixed) for one in (encoder.decision.weight, encoder.similarity.precision))
    kernel = Kernel(weight, precision, encoder.similarity.kernel, encoder.decision.compared)
    pixels = _rows(regions.features, fixed)
    candidates = neighbour_labels(regions.partition.labels).flatten(2)
    scores, colours = [], []
    for number, candidate in enumerate(candidates):
        # A region counts once, however many neighbours are in it.
        repeated = (candidates[:number] == candidate).any(0)
        painted = _rows(*(kernels.paint(one, candidate) for one in means))
        score = log_kernel(pixels, painted, kernel).view_as(repeated)
        scores.append(score.masked_fill(repeated, -torch.inf))
        colours.append(kernels.paint(regions.means, candidate))
    share = torch.softmax(torch.stack(scores), dim=0)
    image = (share[:, :, None] * torch.stack(colours)).sum(0)
    return (regions.pixels - image).square().sum(1).sum() / (shape[0] * shape[1] * shape[2])


def _rows(features: Tensor, fixed: Tensor) -> Rows:
    """Planes (B, d, P) and (B, K, P) as the rows of all pixels."""
    learned, given = (planes.transpose(1, 2).flatten(0, 1) for planes in (features, fixed))
    size = learned.new_ones(len(learned))
    return Rows(learned, given, size, size.to(torch.int64))


class Pretraining(Objective):
    """Reconstruction and association of the regions of a batch of images (B, C, H, W); the encoder learns."""

    def __init__(self, encoder: RegionEncoder, budget: Budget, losses: Reconstruction = Reconstruction(association=1.0)) -> None:
        super().__init__()
        self.learner, self.budget, self.losses = encoder, budget, losses

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """The weighted sum of both losses."""
        encoder: RegionEncoder = self.learner  # type: ignore[assignment]
        regions = encoder(images, self.budget)
        loss = self.losses.reconstruction * reconstruction_loss(regions.pixels, regions.colours, regions.labels)
        if self.losses.association > 0:
            loss = loss + self.losses.association * association_loss(regions, encoder)
        return {"loss": loss, "tokens": regions.partition.counts.float().mean()}


@torch.no_grad()
def held_out_error(encoder: Any, budget: Budget, crops: Crops, workers: int = 0, batch: int = 16) -> dict[str, float]:
    """The mean reconstruction loss of one crop of every held-out image, always the same ones; processes share them."""
    own: list[float] = []
    places = [Sample(0, place) for place in joined().places(len(crops))]
    was = encoder.training
    encoder.eval()
    with reading_workers():
        for images in DataLoader(crops, batch, sampler=places, num_workers=workers):
            regions = encoder(images.to(next(encoder.parameters()).device), budget)
            parts = zip(regions.pixels, regions.colours, regions.labels, strict=True)
            own += [float(reconstruction_loss(*(one[None] for one in part))) for part in parts]
    encoder.train(was)
    return {"loss": statistics.fmean(interleaved(gathered(own)))}


@torch.no_grad()
def reconstruction_error(encoder: RegionEncoder, image: Tensor, budget: Budget) -> float:
    """Mean squared error over pixels and channels of an image (3, H, W) painted with W f*."""
    regions = encoder(image[None], budget)
    return float(reconstruction_loss(regions.pixels, regions.colours, regions.labels)) / image.shape[0]
