"""The kernels as operators of torch (`torch.ops.pixtree.*`), with shapes and gradients, so that models compile and export whole.

Numba is imported when an operator first runs, so that `import pixtree` can register all of them.
"""

from pixtree.kernels.operators.aggregation import straight_means
from pixtree.kernels.operators.cuts import cut_exactly
from pixtree.kernels.operators.encoding import encode
from pixtree.kernels.operators.pixels import denormalised, whole_bytes
from pixtree.kernels.operators.positions import cell_counts, embed_cells
from pixtree.kernels.operators.sampling import sample_boxes
from pixtree.kernels.operators.segments import means_and_sizes, paint, region_boxes, region_sizes, region_sums
from pixtree.kernels.operators.structure import build, connected_pieces, cut_labels, exact_labels, lab, open_largest, relax

__all__ = [
    "build",
    "cell_counts",
    "connected_pieces",
    "cut_exactly",
    "cut_labels",
    "denormalised",
    "embed_cells",
    "encode",
    "exact_labels",
    "lab",
    "means_and_sizes",
    "open_largest",
    "paint",
    "region_boxes",
    "region_sizes",
    "region_sums",
    "relax",
    "sample_boxes",
    "straight_means",
    "whole_bytes",
]
