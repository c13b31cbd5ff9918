"""Plots of benchmarks: measures against the number of regions, curves, points and bars of models."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pixtree.evaluation.superpixels import MEASURES
from pixtree.files import replacing

LEFT_OUT = ("squared_error",)  # the same curve as the PSNR
COLUMNS = 4
MARKERS = "osv^Dd<>p*hX8"
ORACLE_MEASURES = (("miou", "mIoU"), ("boundary_f", "boundary F, 3 px"))
TICKS = [2**power * 25 for power in range(-4, 8)]


def plot_superpixels(rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """One panel per measure: a line per method against its mean count of segments, on a logarithmic axis."""
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
    _save(figure, path)


def _draw(axis: Any, rows: Sequence[Mapping[str, Any]], key: str, index: int) -> None:
    """Our own methods stand out by a thicker line."""
    own = rows[0]["method"].startswith("pixtree")
    marker = MARKERS[index % 13]
    style = {"linewidth": 2.2 if own else 1.0, "marker": marker, "markersize": 4, "color": f"C{index % 10}"}
    style["linestyle"] = "-" if index < 10 else "--"
    axis.plot([row["segments"] for row in rows], [row[key] for row in rows], label=rows[0]["method"], **style)


def plot_curves(
    curves: Mapping[str, Sequence[tuple[float, float]]], path: str | Path, *, x: str, y: str, logarithmic: bool = False
) -> None:
    """One line per name through its points; a name with one point is a dot."""
    figure, axis = _axes(8.0, 5.0)
    for index, (name, points) in enumerate(curves.items()):
        style = {"marker": MARKERS[index % 13], "linestyle": "-" if index < 10 else "--", "color": f"C{index % 10}"}
        axis.plot(*zip(*sorted(points), strict=True), label=name, **style)
    if logarithmic:
        places = sorted({place for points in curves.values() for place, _ in points})
        axis.set_xscale("log")
        axis.set_xticks(places, [f"{place:g}" for place in places])
        axis.minorticks_off()
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=8)
    _save(figure, path)


def plot_bars(bars: Mapping[str, float], path: str | Path, *, x: str) -> None:
    """A horizontal bar per name, the first on top, labelled with its value."""
    figure, axis = _axes(8.0, 0.8 + 0.32 * len(bars))
    drawn = axis.barh(range(len(bars)), list(bars.values()), color="C0")
    labels = [f"{value:.3f}" if abs(value) >= 0.1 or value == 0 else f"{value:.3g}" for value in bars.values()]
    axis.bar_label(drawn, labels=labels, padding=3, fontsize=8)
    axis.set_yticks(range(len(bars)), list(bars), fontsize=8)
    axis.invert_yaxis()
    axis.margins(x=0.12)
    axis.set_xlabel(x)
    _save(figure, path)


def plot_oracle(rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """mIoU and boundary F of the best labelling against the mean count of regions: a line per method."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    methods = list(dict.fromkeys(row["method"] for row in rows))
    axes = figure.subplots(1, len(ORACLE_MEASURES))
    for axis, (key, heading) in zip(axes, ORACLE_MEASURES, strict=True):
        for index, method in enumerate(methods):
            own = [row for row in rows if row["method"] == method]
            style = {"linewidth": 2.4 if method.startswith("pixtree") else 1.1, "marker": MARKERS[index % 13]}
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
    _save(figure, path)


def plot_rate_distortion(table: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Mean PSNR against mean bytes, as .png: every drawing a named point, a line through the best of each program."""
    from matplotlib.ticker import FuncFormatter

    figure, axis = _axes(8.0, 4.8)
    for index, family in enumerate(dict.fromkeys(row["method"].split()[0] for row in table)):
        own = sorted((row for row in table if row["method"].split()[0] == family), key=lambda row: (row["bytes"], -row["psnr"]))
        best = [row for place, row in enumerate(own) if all(row["psnr"] > other["psnr"] for other in own[:place])]
        axis.scatter([row["bytes"] / 1000 for row in own], [row["psnr"] for row in own], color=f"C{index}", s=22, zorder=3)
        line = [row["bytes"] / 1000 for row in best], [row["psnr"] for row in best]
        axis.plot(*line, color=f"C{index}", label=family, linewidth=2)
        for row in own:
            name, point = row["method"].removeprefix(family).strip(" ,"), (row["bytes"] / 1000, row["psnr"])
            axis.annotate(name, point, (5, -3), textcoords="offset points", va="top", fontsize=7.5, color=f"C{index}")
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.margins(x=0.12, y=0.1)
    axis.set_xlabel("kB of SVG, mean")
    axis.set_ylabel("PSNR in dB, mean")
    axis.grid(alpha=0.3)
    axis.legend(loc="upper left")
    _save(figure, path, dpi=110)


def _axes(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _save(figure: Any, path: str | Path, dpi: int = 120) -> None:
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=dpi)
