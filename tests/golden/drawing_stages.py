"""Write the stored stages of a drawing that `tests/vector/test_golden_stages.py` compares with; run it only when a change is meant.

Every stage starts from pixels that are whole numbers and uses +, −, ×, ÷ and √ alone, so that all machines agree. Cubic
interpolation, powers and eigenvectors, which do not promise that, have tests of their own.
"""

import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
from pictures import photo

from pixtree.kernels.image.cracks import planar_map
from pixtree.trees.build import hierarchy_of_planes
from pixtree.trees.options import TreeOptions
from pixtree.vector.drawing import Drawing
from pixtree.vector.outlines.beziers import fit_curves
from pixtree.vector.outlines.pieces import exact_outlines, flattened
from pixtree.vector.outlines.placement import place_samples
from pixtree.vector.outlines.polylines import fit_polylines
from pixtree.vector.paint import layers_of
from pixtree.vector.path_data import path_data
from pixtree.vector.regions.colours import mean_colours, one_coloured
from pixtree.vector.regions.growing import local_variance, without_blends
from pixtree.vector.regions.merging import agglomerate
from pixtree.vector.regions.refinement import refined
from pixtree.vector.tracing import registered

FILE = Path(__file__).parent / "drawing_stages.npz"
HEIGHT, WIDTH, SHAPES, CELLS = 54, 68, 24, 2


def picture() -> np.ndarray:
    """Planes (3, H, W) float32: a photo with a flat disc, a soft-edged square and thin lines in it, which photos lack."""
    planes = photo(height=HEIGHT, width=WIDTH).numpy().astype(np.float32)
    down, across = np.mgrid[:HEIGHT, :WIDTH]
    planes[:, (down - 16) ** 2 + (across - 52) ** 2 < 130] = np.array([[240], [40], [16]])
    planes[:, 34:50, 8:26] = np.array([20, 60, 220])[:, None, None]
    planes[:, 33, 8:26] = (planes[:, 32, 8:26] + planes[:, 34, 8:26]) / 2
    planes[:, 38:52, 40:42], planes[:, 44:46, 34:66] = 255, 0
    return planes


def doubled(planes: np.ndarray) -> np.ndarray:
    """Two values per pixel and axis, each the mean of the pixels around it: sums of whole numbers by powers of two."""
    for axis in (1, 2):
        before = np.concatenate((planes.take([0], axis), planes.take(range(planes.shape[axis] - 1), axis)), axis)
        after = np.concatenate((planes.take(range(1, planes.shape[axis]), axis), planes.take([-1], axis)), axis)
        pairs = np.stack((0.25 * before + 0.75 * planes, 0.75 * planes + 0.25 * after), axis + 1)
        planes = pairs.reshape([size * (2 if k == axis else 1) for k, size in enumerate(planes.shape)])
    return np.ascontiguousarray(planes, np.float32)


def stages() -> dict[str, np.ndarray]:
    """What every step from pixels to path data gives, for a whole picture and for one with a hole."""
    found: dict[str, np.ndarray] = {}
    planes = picture()
    outside = np.zeros((HEIGHT, WIDTH), bool)
    outside[20:30, 20:34] = True
    for name, mask in (("whole", None), ("hole", torch.from_numpy(~outside))):
        tree = hierarchy_of_planes(torch.from_numpy(planes).flatten(1), (HEIGHT, WIDTH), TreeOptions("ward").rule, mask=mask)
        base = tree.cut(300).numpy()
        weights = (1 + np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH) % 5).astype(np.float32)
        regions = agglomerate(base, planes, weights)
        found |= {f"{name}_kept": regions.kept, f"{name}_absorbed": regions.absorbed, f"{name}_growth": regions.growth}
        labels = regions.labels(SHAPES)
        found[f"{name}_slope"] = np.array([regions.slope(count) for count in (SHAPES, 100, 299)])
        found |= {f"{name}_{key}": value for key, value in drawn(labels, planes).items()}
    found["variance"], found["sharp"] = local_variance(planes, 3), without_blends(planes)
    return found


def drawn(labels: np.ndarray, planes: np.ndarray) -> dict[str, np.ndarray]:
    """From a label map to lines, curves, layers, path data, coverage and colours."""
    fine_planes = doubled(planes)
    plain = one_coloured(labels, planes, mean_colours(labels, planes, SHAPES))
    fine = refined(labels, fine_planes, CELLS, 40.0)
    arcs = planar_map(fine)
    colours = mean_colours(fine, fine_planes, arcs.count)
    samples = place_samples(arcs, fine_planes, colours)
    lines = fit_polylines(samples, arcs, colours, unit=2, price=2_000.0)
    curves = fit_curves(samples, arcs, unit=5, tolerance=0.8)
    found = {
        "labels": labels,
        "plain": plain,
        "fine": fine,
        "colours": colours,
        "samples": samples.points,
        "lines": lines.points,
        "line_offsets": lines.offsets,
        "curves": curves.points,
        "curve_offsets": curves.offsets,
        "controls": curves.controls,
        "curved": curves.curved,
        "flat": flattened(curves)[0],
    }
    for kind, outlines, cells in (("lines", lines, CELLS), ("curves", curves, CELLS), ("exact", exact_outlines(arcs), CELLS)):
        drawing = Drawing(arcs, outlines, colours, layers_of(arcs), cells=cells)
        coverage = drawing.coverage(CELLS)
        found[f"{kind}_text"] = np.frombuffer("\n".join(path_data(arcs, outlines)).encode(), np.uint8)
        found |= {f"{kind}_begin": coverage.begin, f"{kind}_end": coverage.end, f"{kind}_share": coverage.share}
        fitted = registered(drawing, fine_planes, rounds=2, fixed=plain)
        found |= {f"{kind}_registered": fitted.colours, f"{kind}_pixels": fitted.pixels()}
        found[f"{kind}_layers"] = drawing.layers
    return found


if __name__ == "__main__":
    np.savez_compressed(FILE, **{name: np.float32(one) if one.dtype.kind == "f" else one for name, one in stages().items()})
