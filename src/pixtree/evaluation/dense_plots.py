"""Plots of dense tasks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pixtree.files import replacing

MEASURES = (("miou", "mIoU"), ("boundary_f", "boundary F, 3 px"))
TICKS = [2**power * 25 for power in range(-4, 8)]


def plot_oracle(rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """mIoU and boundary F of the best labelling against the mean count of regions: a line per method."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    methods = list(dict.fromkeys(row["method"] for row in rows))
    axes = figure.subplots(1, len(MEASURES))
    for axis, (key, heading) in zip(axes, MEASURES, strict=True):
        for index, method in enumerate(methods):
            own = [row for row in rows if row["method"] == method]
            style = {"linewidth": 2.4 if method.startswith("pixtree") else 1.1, "marker": "osv^Dd<>p*hX8"[index % 13]}
            style["linestyle"] = "--" if "compute" in own[0] else "-"  # tokens that merge inside a model
            axis.plot([row["regions"] for row in own], [row[key] for row in own], label=method, color=f"C{index % 10}", **style)
        axis.set_xscale("log")
        counts = [row["regions"] for row in rows]
        axis.set_xticks([count for count in TICKS if min(counts) / 1.3 <= count <= max(counts) * 1.3], minor=False)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_xlabel("regions")
        axis.set_title(heading, fontsize=10)
        axis.grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=120)


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
