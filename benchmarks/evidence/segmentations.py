"""Figures of segmentations: rows of image, target and predictions with a legend, and curves of training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixtree.evaluation.label_maps import GAP, Picture, class_colours, class_picture, legend, occurring
from pixtree.files import replacing


class Row(NamedTuple):
    """One row: an image (H, W, 3), and label maps (H, W) next to it, such as the target and predictions."""

    image: Picture
    maps: tuple[NDArray[np.integer], ...]


def class_rows(rows: Sequence[Row], names: Sequence[str], headings: Sequence[str]) -> Picture:
    """Images next to their label maps, a row each, under headings, with a legend of all classes that occur."""
    if not rows or any(len(row.maps) != len(headings) - 1 for row in rows):
        found = [len(row.maps) for row in rows]
        raise ValueError(
            f"expected rows with a map for each of the {len(headings) - 1} headings after the first, got {found}; add maps"
        )
    colours = class_colours(len(names))
    lines = [_beside([row.image, *(class_picture(one, colours) for one in row.maps)]) for row in rows]
    width = max(line.shape[1] for line in lines)
    top = _beside([_words(heading, rows[0].image.shape[1]) for heading in headings])
    parts = [top, *lines, legend(names, occurring([one for row in rows for one in row.maps]), width)]
    padded = [np.pad(part, ((0, GAP), (0, width - part.shape[1]), (0, 0)), constant_values=255) for part in parts]
    return np.concatenate(padded)[:-GAP]


def _beside(pictures: Sequence[Picture]) -> Picture:
    padded = [np.pad(picture, ((0, 0), (0, GAP), (0, 0)), constant_values=255) for picture in pictures]
    return np.concatenate(padded, axis=1)[:, :-GAP]


def _words(words: str, width: int) -> Picture:
    from PIL import Image, ImageDraw, ImageFont

    strip = Image.new("RGB", (width, 20), "white")
    ImageDraw.Draw(strip).text((2, 1), words, "black", ImageFont.load_default(14))
    return np.array(strip)


def plot_segmenters(runs: Sequence[Mapping[str, Any]], names: Mapping[str, str], path: str | Path) -> None:
    """Loss and mIoU of segmenters over the steps of their training: a line per way, the mean over its runs, and their range.

    A run has "way", "steps", "losses" (means over equal parts of the steps) and "tested" (pairs of step and mIoU). names: the ways
    that are shown, and the words for them.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    axes = figure.subplots(1, 2)
    for index, (way, words) in enumerate(names.items()):
        own = [run for run in runs if run["way"] == way]
        if not own:
            continue
        losses, tested = np.array([run["losses"] for run in own]), np.array([run["tested"] for run in own])
        steps = (np.arange(losses.shape[1]) + 0.5) * own[0]["steps"] / losses.shape[1]
        for axis, places, values in ((axes[0], steps, losses), (axes[1], tested[0, :, 0], tested[:, :, 1])):
            axis.plot(places, values.mean(axis=0), color=f"C{index}", label=words, linewidth=2.2 if index == 0 else 1.3)
            axis.fill_between(places, values.min(axis=0), values.max(axis=0), color=f"C{index}", alpha=0.15, linewidth=0)
    for axis, heading in zip(axes, ("loss per token, training", "mIoU, every fourth validation image"), strict=True):
        axis.set_xlabel("steps")
        axis.set_title(heading, fontsize=10)
        axis.grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=110)
