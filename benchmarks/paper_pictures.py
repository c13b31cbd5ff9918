"""Pictures as in the paper, for `docs/paper.md`: `python benchmarks/paper_pictures.py [-o docs/pictures]`.

paper_granularity.jpg: a photo, then patches, a quadtree, SLIC and ours at equal counts. [`fig:teaser`, `fig:spatgran`]
paper_hierarchies.jpg: levels of hierarchies, from many regions to few. [`fig:arbopixels`]
paper_pipeline.jpg: features, regions, colours and residuals of the tokenizer, and the masks of single tokens. [`fig:pipeline`]
The photos come with scikit-image: the astronaut (NASA, public domain), a cup of coffee (Rachel Michetti, CC0), the cat Chelsea
(Stéfan van der Walt, CC0) and a rocket (SpaceX, CC0).
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image
from skimage import data

import pixtree
from pixtree.exports.pictures import boundaries, contour_map, mean_colours
from pixtree.files import replacing
from pixtree.kernels.image import psnr
from pixtree.kernels.image.cracks import boundary_pixels
from pixtree.kernels.tokens.sample import Injected
from pixtree.partitioners import partitioner
from pixtree.tokenizer.region_encoder import EncodedRegions
from pixtree.tokenizer.sampling import Sampler
from pixtree.tokenizer.tokenizer import Tokenizer

Picture = NDArray[np.uint8]
SIDE, COUNT = 320, 196
STACK = (2000, 500, 125, 32, 8)
INK = "#333333"


def photo(name: str, left: float = 0.5) -> Picture:
    """A square of a photo of scikit-image, 320 px a side; `left` says where it is cut from a wide one."""
    picture = Image.fromarray(getattr(data, name)()).convert("RGB")
    side = min(picture.size)
    corner = int((picture.width - side) * left), (picture.height - side) // 2
    square = picture.crop((*corner, corner[0] + side, corner[1] + side))
    return np.array(square.resize((SIDE, SIDE), Image.Resampling.LANCZOS))


def tensor(picture: Picture) -> torch.Tensor:
    return torch.from_numpy(picture).permute(2, 0, 1)[None].contiguous()


def drawn(picture: Picture, labels: NDArray[np.int32]) -> Picture:
    """Regions in their mean colours, with thin boundaries a little darker or lighter than these."""
    shown = mean_colours(picture, labels).astype(np.float32)
    edge = boundary_pixels(labels)
    dark = shown[edge].mean(1, keepdims=True) < 90
    shown[edge] = np.where(dark, shown[edge] * 0.6 + 255 * 0.4, shown[edge] * 0.62)
    return shown.astype(np.uint8)


def grid_of(rows: list[list[tuple[Picture, str]]], headings: list[str]) -> Figure:
    """Pictures in rows with a heading per column and words below each."""
    wide, high = len(rows[0]), len(rows)
    figure, axes = plt.subplots(high, wide, figsize=(2.05 * wide, 2.2 * high + 0.15), squeeze=False)
    for row, line in zip(axes, rows, strict=True):
        for axis, (picture, words) in zip(row, line, strict=True):
            axis.imshow(picture, interpolation="lanczos" if picture.shape[0] > 64 else "nearest")
            axis.set_xticks([])
            axis.set_yticks([])
            axis.set_xlabel(words, fontsize=8, color=INK, labelpad=2)
            for side in axis.spines.values():
                side.set_visible(False)
    for axis, heading in zip(axes[0], headings, strict=True):
        axis.set_title(heading, fontsize=10, color=INK, pad=4)
    figure.tight_layout(pad=0.4, h_pad=0.5, w_pad=0.4)
    return figure


def granularity() -> Figure:
    """The same number of tokens, four ways to spend them."""
    ways: dict[str, Callable[[Picture], NDArray[np.int32]]] = {
        "square patches": lambda one: partitioner("grid", COUNT).raw_labels(tensor(one)[0]),
        "quadtree": lambda one: partitioner("quadtree", COUNT).raw_labels(tensor(one)[0]),
        "SLIC": lambda one: partitioner("slic", COUNT).raw_labels(tensor(one)[0]),
        "pixtree": lambda one: pixtree.segment(one, tokens=COUNT),
    }
    rows = []
    for picture in (photo("astronaut"), photo("coffee", 0.75), photo("chelsea", 0.35), photo("rocket", 0.6)):
        row = [(picture, "")]
        for cut in ways.values():
            labels = cut(picture)
            error = float(np.square(mean_colours(picture, labels) / 255 - picture / 255).mean())
            row.append((drawn(picture, labels), f"{int(labels.max()) + 1} regions, {psnr(error):.1f} dB"))
        rows.append(row)
    return grid_of(rows, ["photo", *ways])


def hierarchies() -> Figure:
    """Cuts of one tree: every coarse region is made of finer ones."""
    rows = []
    for picture in (photo("astronaut"), photo("coffee", 0.75), photo("chelsea", 0.35)):
        tree = pixtree.hierarchy(picture)
        cuts = [tree.cut(tokens=count).numpy() for count in STACK]
        row = [(picture, ""), *((drawn(picture, cut) if cut.max() < 600 else mean_colours(picture, cut), "") for cut in cuts)]
        rows.append([*row, (contour_map(tree.contours()), "")])
    return grid_of(rows, ["photo", *(f"{count:,} regions" for count in STACK), "all boundaries"])


def stretched(values: NDArray[np.floating], low: float = 1.0, high: float = 99.0) -> Picture:
    """Any values as a picture, between two percentiles."""
    lower, upper = np.percentile(values, [low, high])
    return (np.clip((values - lower) / max(upper - lower, 1e-9), 0, 1) * 255).astype(np.uint8)


def components(features: torch.Tensor, shape: tuple[int, int]) -> Picture:
    """Three principal components of features (d, P) as colours."""
    centred = (features - features.mean(1, keepdim=True)).double()
    directions = torch.linalg.eigh(centred @ centred.T).eigenvectors[:, -3:].flip(1)
    found = (directions.T @ centred).view(3, *shape).permute(1, 2, 0).numpy()
    return np.stack([stretched(found[..., channel]) for channel in range(3)], -1)


def one_token(tokenizer: Tokenizer, regions: EncodedRegions, at: tuple[int, int]) -> list[Picture]:
    """The region at a pixel on the photo; its mask M⁺; its token, q×q samples of its box, with and without background."""
    labels = regions.partition.labels
    label = int(labels[0][at])
    options = tokenizer.options.sampling
    bare = Sampler(3, options.patch, *options.boxes, mix=0.0)
    one, none, still = torch.ones(3), torch.zeros(3), torch.zeros_like(regions.means)
    mask = bare(Injected(torch.ones_like(regions.images), still, one, none), labels)[0, label]
    normal = tokenizer.normalisation
    token = tokenizer.samples(regions)[0, label] * normal.std[:, None, None] + normal.mean[:, None, None]
    alone = bare(Injected(regions.images, regions.colours - regions.means, one, none), labels)[0, label] + (1 - mask)
    tiles = [(tile.clamp(0, 1).permute(1, 2, 0).numpy() * 255).astype(np.uint8) for tile in (mask, token, alone)]
    return [surroundings(regions.images[0], labels[0].numpy() == label), *tiles]


def surroundings(picture: torch.Tensor, inside: NDArray[np.bool_], margin: int = 12) -> Picture:
    """A square of the photo around a region, all else pale."""
    pixels = (picture.permute(1, 2, 0).numpy() * 255).astype(np.uint8)
    pixels[~inside] = (pixels[~inside] * 0.25 + 255 * 0.75).astype(np.uint8)
    rows, columns = (np.flatnonzero(inside.any(axis)) for axis in (1, 0))
    side = min(max(np.ptp(rows), np.ptp(columns)) + 2 * margin, *inside.shape)
    top, left = (int(np.clip(line.mean() - side / 2, 0, SIDE - side)) for line in (rows, columns))
    return pixels[top : top + side, left : left + side]


@torch.no_grad()
def pipeline() -> Figure:
    """What happens inside the tokenizer, stage by stage."""
    rows = []
    for picture, place in ((photo("astronaut"), (95, 130)), (photo("coffee", 0.75), (200, 180))):
        tokenizer = Tokenizer.pretrained(pixtree.Exactly(COUNT), width=None).eval()
        regions = tokenizer.encode(tensor(picture))
        labels = regions.partition.labels[0].numpy()
        means = regions.colours[0].numpy()[labels]
        residual = np.abs(regions.images[0].permute(1, 2, 0).numpy() - means).mean(-1)
        heat = (plt.get_cmap("magma")(np.clip(residual / 0.25, 0, 1))[..., :3] * 255).astype(np.uint8)
        shown = [
            picture,
            components(regions.features[0], labels.shape),
            boundaries(picture, labels),
            (np.clip(means, 0, 1) * 255).astype(np.uint8),
            heat,
            *one_token(tokenizer, regions, place),
        ]
        rows.append([(one, "") for one in shown])
    stages = ["photo x", "features f", "196 regions", "colours W f*", "residuals |x − W f*|"]
    headings = [*stages, "a region S", "its mask M⁺", "its token, λ = 0.9", "its token, λ = 0"]
    return grid_of(rows, headings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parents[1] / "docs" / "pictures")
    parser.add_argument("--only", choices=("granularity", "hierarchies", "pipeline"))
    options = parser.parse_args()
    for draw in (granularity, hierarchies, pipeline):
        if options.only in (None, draw.__name__):
            figure = draw()
            with replacing(options.output / f"paper_{draw.__name__}.jpg") as temporary:
                figure.savefig(temporary, dpi=105, pil_kwargs={"quality": 82, "optimize": True, "progressive": True})
            plt.close(figure)


if __name__ == "__main__":
    main()
