"""Kernels: every heavy function of the library under its one name, here by its definition in plain torch."""

from pixtree.kernels.reference import (
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


class Kernels:
    """The definitions: plain torch on any device. A backend overrides those that it computes otherwise, to the same results."""

    aggregate = staticmethod(aggregation.aggregate)
    boxes = staticmethod(attributes.boxes)
    joins = staticmethod(attributes.joins)
    moments = staticmethod(attributes.moments)
    sizes = staticmethod(attributes.sizes)
    sum_upwards = staticmethod(attributes.sum_upwards)
    volumes = staticmethod(attributes.volumes)
    lab = staticmethod(colour.lab)
    lightness = staticmethod(colour.lightness)
    cluster_labels = staticmethod(coarsening.cluster_labels)
    ward_labels = staticmethod(coarsening.ward_labels)
    best_ancestors = staticmethod(cutting.best_ancestors)
    cheapest_cut = staticmethod(cutting.cheapest_cut)
    cut_labels = staticmethod(cutting.cut_labels)
    open_largest = staticmethod(cutting.open_largest)
    persistence = staticmethod(cutting.persistence)
    relax = staticmethod(cutting.relax)
    select_largest = staticmethod(cutting.select_largest)
    encode = staticmethod(encoding.encode)
    all_within = staticmethod(features.all_within)
    colours = staticmethod(features.colours)
    coordinates = staticmethod(features.coordinates)
    distance_planes = staticmethod(features.distance_planes)
    tree_levels = staticmethod(levels.tree_levels)
    build = staticmethod(merging.build)
    build_on_regions = staticmethod(merging.build_on_regions)
    pixel_edges = staticmethod(merging.pixel_edges)
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
    region_minima = staticmethod(segments.region_minima)
    region_sizes = staticmethod(segments.region_sizes)
    region_sums = staticmethod(segments.region_sums)
