"""Curves of superpixel measures against the count of regions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pixtree.evaluation.superpixels import MEASURES
from pixtree.files import replacing

LEFT_OUT = ("squared_error",)  # the same curve as the PSNR
COLUMNS = 4


def plot_superpixels(rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """One small picture per measure: a line per method against its mean count of segments, on a logarithmic axis."""
    from matplotlib.figure import Figure

    measures = [measure for measure in MEASURES if measure.key not in LEFT_OUT]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    counts = sorted({row["tokens"] for row in rows})
    figure = Figure(figsize=(15, 3.6 * -(-len(measures) // COLUMNS)), layout="constrained")
    axes = figure.subplots(-(-len(measures) // COLUMNS), COLUMNS).ravel()
    for axis, measure in zip(axes, measures, strict=False):
        arrow = {True: " ↑", False: " ↓", None: ""}[measure.more_is_better]
        axis.set_title(measure.name + arrow, fontsize=10)
        axis.set_xscale("log")
        axis.set_xticks(counts, [str(count) for count in counts])
        axis.minorticks_off()
        axis.set_xlabel("regions")
        axis.grid(alpha=0.3)
        for index, method in enumerate(methods):
            _draw(axis, [row for row in rows if row["method"] == method], measure.key, index)
    for axis in axes[len(measures) :]:
        axis.set_axis_off()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(len(methods), 7))
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=120)


def _draw(axis: Any, rows: Sequence[Mapping[str, Any]], key: str, index: int) -> None:
    """Our own methods stand out by a thicker line."""
    own = rows[0]["method"].startswith("pixtree")
    marker = "osv^Dd<>p*hX8"[index % 13]
    style = {"linewidth": 2.2 if own else 1.0, "marker": marker, "markersize": 4, "color": f"C{index % 10}"}
    style["linestyle"] = "-" if index < 10 else "--"
    axis.plot([row["segments"] for row in rows], [row[key] for row in rows], label=rows[0]["method"], **style)
