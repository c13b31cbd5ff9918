"""Plots of dense tasks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pixtree.files import replacing

MEASURES = (("miou", "mIoU"), ("boundary_f", "boundary F, 3 px"))


def plot_oracle(rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """mIoU and boundary F of the best labelling against the mean count of regions: a line per method."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    methods = list(dict.fromkeys(row["method"] for row in rows))
    axes = figure.subplots(1, len(MEASURES))
    for axis, (key, heading) in zip(axes, MEASURES, strict=True):
        for index, method in enumerate(methods):
            own = [row for row in rows if row["method"] == method]
            style = {"linewidth": 2.4 if method.startswith("pixtree") else 1.1, "marker": "osv^Dd<>p*hX8"[index % 13]}
            axis.plot([row["regions"] for row in own], [row[key] for row in own], label=method, color=f"C{index % 10}", **style)
        axis.set_xscale("log")
        axis.set_xlabel("regions")
        axis.set_title(heading, fontsize=10)
        axis.grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=120)
