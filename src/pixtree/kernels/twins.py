"""CompiledKernels: the functions that have a compiled twin; all others stay what they are by definition."""

from pixtree.kernels.compiled import (
    aggregation,
    attributes,
    coarsening,
    colour,
    cutting,
    encoding,
    features,
    levels,
    merging,
    pieces,
    pixels,
    positions,
    pruning,
    sampling,
    segments,
)
from pixtree.kernels.definitions import Kernels


class CompiledKernels(Kernels):
    """Numba on the CPU. Trees, cuts and features are equal to their definitions bit for bit, learned values to the last digits."""

    aggregate = staticmethod(aggregation.aggregate)
    boxes = staticmethod(attributes.boxes)
    joins = staticmethod(attributes.joins)
    moments = staticmethod(attributes.moments)
    sizes = staticmethod(attributes.sizes)
    sum_upwards = staticmethod(attributes.sum_upwards)
    volumes = staticmethod(attributes.volumes)
    lab = staticmethod(colour.lab)
    cluster_labels = staticmethod(coarsening.cluster_labels)
    ward_labels = staticmethod(coarsening.ward_labels)
    best_ancestors = staticmethod(cutting.best_ancestors)
    cheapest_cut = staticmethod(cutting.cheapest_cut)
    cut_labels = staticmethod(cutting.cut_labels)
    open_largest = staticmethod(cutting.open_largest)
    persistence = staticmethod(cutting.persistence)
    relax = staticmethod(cutting.relax)
    encode = staticmethod(encoding.encode)
    all_within = staticmethod(features.all_within)
    colours = staticmethod(features.colours)
    distance_planes = staticmethod(features.distance_planes)
    tree_levels = staticmethod(levels.tree_levels)
    build = staticmethod(merging.build)
    connected_pieces = staticmethod(pieces.connected_pieces)
    denormalised = staticmethod(pixels.denormalised)
    whole_bytes = staticmethod(pixels.whole_bytes)
    cell_counts = staticmethod(positions.cell_counts)
    embed_cells = staticmethod(positions.embed_cells)
    joint_histogram = staticmethod(positions.joint_histogram)
    exact_cut = staticmethod(pruning.exact_cut)
    sample = staticmethod(sampling.sample)
    paint = staticmethod(segments.paint)
    region_boxes = staticmethod(segments.region_boxes)
    region_means = staticmethod(segments.region_means)
    region_sizes = staticmethod(segments.region_sizes)
    region_sums = staticmethod(segments.region_sums)


COMPILED = CompiledKernels()
