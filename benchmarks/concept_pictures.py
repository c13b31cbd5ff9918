"""The drawings of `docs/concepts` and of the tutorial: `python benchmarks/concept_pictures.py [-o docs/pictures]`.

The photos come with scikit-image: a cup of coffee (Rachel Michetti, CC0) and a rocket (SpaceX, CC0).
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from numpy.typing import NDArray
from PIL import Image
from skimage import data

import pixtree
from pixtree.exports.pictures import boundaries, contour_map, mean_colours
from pixtree.files import replacing
from pixtree.trees.criteria import scores

GREEN, RED, INK = "#0a7d5a", "#c8372d", "#333333"
# A small image with plain structure: a dark square, a red corner and a ground that changes slowly.
TINY = np.array(
    [
        [[235, 225, 205], [232, 222, 203], [228, 220, 201], [190, 60, 50], [186, 55, 48]],
        [[230, 221, 200], [60, 70, 95], [66, 74, 99], [222, 213, 196], [182, 52, 45]],
        [[226, 217, 198], [55, 66, 90], [62, 70, 96], [216, 209, 192], [212, 206, 189]],
    ],
    np.uint8,
)


def positions(tree: pixtree.Hierarchy) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where to draw the nodes: leaves side by side in the order of the tree, inner nodes above the middle of their children."""
    left, right = tree.left.tolist(), tree.right.tolist()
    leaves, nodes = tree.leaves, len(tree.parent)
    x, y = np.zeros(nodes), np.zeros(nodes)
    order: list[int] = []
    waiting = [nodes - 1]
    while waiting:
        node = waiting.pop()
        if node < leaves:
            order.append(node)
        else:
            waiting += [right[node - leaves], left[node - leaves]]
    x[order] = np.arange(leaves)
    y[leaves:] = leaves - 1 - tree.rank.numpy()
    for node in range(leaves, nodes):
        x[node] = (x[left[node - leaves]] + x[right[node - leaves]]) / 2
    return x, y


def draw_tree(axes: Axes, tree: pixtree.Hierarchy, opened: int | None = None) -> None:
    """The tree with leaves in their colours; with `opened`, what lies above the cut with that many regions is grey."""
    x, y = positions(tree)
    leaves, rank = tree.leaves, tree.rank.tolist()
    for node in range(leaves, len(x)):
        above = opened is not None and rank[node - leaves] < opened - 1
        for child in (int(tree.left[node - leaves]), int(tree.right[node - leaves])):
            axes.plot(
                [x[child], x[child], x[node]],
                [y[child], y[node], y[node]],
                color="#bbbbbb" if above else INK,
                lw=1.1,
                ls=":" if above else "-",
                zorder=1,
            )
    colours = TINY.reshape(-1, 3) / 255
    axes.scatter(x[:leaves], y[:leaves], s=70, c=colours, edgecolors=INK, linewidths=0.6, marker="s", zorder=2)
    if opened is not None:
        level = leaves - opened + 0.5
        axes.axhline(level, color=GREEN, lw=1.4)
        axes.text(leaves - 0.4, level, f" {opened}", color=GREEN, va="center", fontsize=11, fontweight="bold")
    axes.axis("off")


def show(axes: Axes, picture: NDArray[np.generic], title: str = "") -> None:
    axes.imshow(picture, interpolation="nearest")
    axes.set_title(title, fontsize=10, color=INK)
    axes.set_xticks([])
    axes.set_yticks([])


def outlined(axes: Axes, labels: NDArray[np.int32]) -> None:
    """Lines between pixels of different regions."""
    height, width = labels.shape
    for row in range(height):
        for column in range(width):
            if column + 1 < width and labels[row, column] != labels[row, column + 1]:
                axes.plot([column + 0.5] * 2, [row - 0.5, row + 0.5], color=GREEN, lw=2.5)
            if row + 1 < height and labels[row, column] != labels[row + 1, column]:
                axes.plot([column - 0.5, column + 0.5], [row + 0.5] * 2, color=GREEN, lw=2.5)


def the_tree() -> plt.Figure:
    tree = pixtree.hierarchy(TINY)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), width_ratios=(1, 2))
    show(left, TINY, "an image of 15 pixels")
    draw_tree(right, tree)
    right.set_title("its tree: pixels at the bottom, the whole image at the top", fontsize=10, color=INK)
    return figure


def the_cuts() -> plt.Figure:
    tree = pixtree.hierarchy(TINY)
    figure, axes = plt.subplots(2, 3, figsize=(10, 5), height_ratios=(1.3, 1))
    for above, below, count in zip(axes[0], axes[1], (2, 4, 7), strict=True):
        draw_tree(above, tree, count)
        labels = tree.cut(tokens=count).numpy()
        show(below, mean_colours(TINY, labels), f"{count} regions")
        outlined(below, labels)
    return figure


def the_criteria() -> plt.Figure:
    counts = np.unique(np.geomspace(10, 420, 60).astype(int))
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.0), width_ratios=(1.2, 1, 1))
    for name, colour, picture in (("coffee", GREEN, axes[1]), ("rocket", RED, axes[2])):
        photo = getattr(data, name)()
        tree = pixtree.hierarchy(photo)
        nodes = scores(tree, pixtree.Criterion("aicc")).numpy()
        costs = np.array([total_cost(tree, nodes, int(count)) for count in counts])
        chosen = tree.cut(criterion="aicc")
        found = int(chosen.counts[0])
        axes[0].plot(counts, costs / costs.min(), color=colour, label=f"{name}, {found} regions")
        axes[0].axvline(found, color=colour, lw=1, ls=":")
        show(picture, mean_colours(photo, chosen.numpy()), f"{name}: {found} regions")
    axes[0].set(xscale="log", xlabel="regions", ylabel="AICC, as a multiple of its least")
    axes[0].legend(frameon=False, fontsize=9)
    axes[0].spines[["top", "right"]].set_visible(False)
    return figure


def total_cost(tree: pixtree.Hierarchy, costs: NDArray[np.float64], count: int) -> float:
    """The sum of the criterion over the regions of a nested cut."""
    return float(costs[tree.table(tokens=count)["node"][:count]].sum())


def the_tokens() -> plt.Figure:
    photo = data.coffee()
    labels = pixtree.segment(photo, tokens=60)
    chosen = labels == labels[290, 365]  # the spoon
    rows, columns = np.nonzero(chosen)
    top, bottom, left, right = rows.min(), rows.max() + 1, columns.min(), columns.max() + 1
    box = photo[top:bottom, left:right]
    inside = np.asarray(Image.fromarray(chosen[top:bottom, left:right]).resize((16, 16), Image.Resampling.BOX))
    sample = np.asarray(Image.fromarray(box).resize((16, 16), Image.Resampling.BOX)).astype(float)
    mean = photo[chosen].mean(0)
    blended = np.where(inside[..., None], sample, 0.2 * sample + 0.8 * mean)
    figure, axes = plt.subplots(1, 4, figsize=(12, 3), width_ratios=(1.5, 1, 1, 1))
    show(axes[0], boundaries(photo, chosen.astype(np.int32)), "a region and its box")
    axes[0].add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, ec=GREEN, lw=2))
    show(axes[1], box, f"the box, {right - left}×{bottom - top} pixels")
    show(axes[2], sample.astype(np.uint8), "sampled at 16×16 points")
    show(axes[3], blended.astype(np.uint8), "outside it, blended to its mean")
    return figure


def the_token_trees() -> plt.Figure:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.4))
    left.axis("off")
    left.set(xlim=(0, 10), ylim=(0, 4))
    for x, text, colour in ((0.3, "attention", "#e8e8e8"), (3.7, "merge along\na tree", "#cfe9df"), (7.1, "MLP", "#e8e8e8")):
        left.add_patch(FancyBboxPatch((x, 1.2), 2.5, 1.6, boxstyle="round,pad=0.05,rounding_size=0.2", fc=colour, ec=INK))
        left.text(x + 1.25, 2, text, ha="center", va="center", fontsize=11, color=INK)
    for x, text in ((2.95, "N rows"), (6.35, "n < N")):
        left.add_patch(FancyArrowPatch((x - 0.1, 2), (x + 0.7, 2), arrowstyle="-|>", mutation_scale=14, color=INK))
        left.text(x + 0.3, 3.05, text, ha="center", fontsize=9, color=INK)
    left.set_title("a block of the model", fontsize=10, color=INK)
    for compute, colour in ((0.7, "#7fc8ad"), (0.5, GREEN), (0.3, "#054232")):
        counts = pixtree.coarsen("vit_tiny_patch16_224", compute=compute).counts
        right.step(range(1, len(counts) + 1), counts, where="mid", color=colour, label=f"compute={compute}")
    right.set(xlabel="block", ylabel="tokens left", ylim=(0, 205), xticks=range(1, 13))
    right.legend(frameon=False, fontsize=9)
    right.spines[["top", "right"]].set_visible(False)
    right.set_title("tokens of a ViT-Tiny at 224 px", fontsize=10, color=INK)
    return figure


CONCEPTS = {
    "tree": the_tree,
    "cuts": the_cuts,
    "criteria": the_criteria,
    "tokens": the_tokens,
    "token_trees": the_token_trees,
}


def beside(*panels: NDArray[np.uint8]) -> Image.Image:
    """Pictures of equal height side by side, with a white gap."""
    gap = np.full((panels[0].shape[0], 8, 3), 255, np.uint8)
    return Image.fromarray(np.concatenate([part for panel in panels for part in (panel, gap)][:-1], axis=1))


def tutorial() -> dict[str, Image.Image]:
    """What the tutorial's code makes."""
    photo = data.coffee()
    tree = pixtree.hierarchy(photo)
    labels = pixtree.segment(photo, tokens=100)
    inside, outside = [(150, 300), (60, 300), (230, 280)], [(40, 60), (340, 250), (200, 120), (200, 440)]
    mask = pixtree.select(tree, inside=inside, outside=outside)
    marked = boundaries(photo, mask.astype(np.int32), colour=(40, 220, 70))
    marked[~mask] = (marked[~mask] * 0.4).astype(np.uint8)
    for points, colour in ((inside, (40, 220, 70)), (outside, (240, 40, 40))):
        for row, column in points:
            marked[row - 4 : row + 5, column - 4 : column + 5] = colour
    drawing = pixtree.vectorize(photo, paths=500).pixels()  # (H, W, 3) in 0..255
    painted = (drawing + 0.5).clip(0, 255).astype(np.uint8)
    return {
        "regions": beside(boundaries(photo, labels), mean_colours(photo, labels)),
        "cuts": beside(*(boundaries(photo, tree.cut(tokens=count).numpy()) for count in (10, 50, 300))),
        "contours": Image.fromarray(contour_map(tree.contours())),
        "select": beside(photo, marked),
        "drawing": beside(photo, painted),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parents[1] / "docs" / "pictures")
    folder = parser.parse_args().output
    for name, drawn in CONCEPTS.items():
        figure = drawn()
        figure.tight_layout()
        with replacing(folder / f"concept_{name}.png") as path:
            figure.savefig(path, dpi=110, format="png")
        plt.close(figure)
    for name, picture in tutorial().items():
        picture.thumbnail((1200, 1200), Image.Resampling.LANCZOS)
        with replacing(folder / f"tutorial_{name}.jpg") as path:
            picture.convert("RGB").save(path, "JPEG", quality=85)


if __name__ == "__main__":
    main()
