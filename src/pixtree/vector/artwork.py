"""Artwork: flat regions as lines and circular arcs, with the colours that they have, placed by their anti-aliasing."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.image.cracks import planar_map
from pixtree.vector.drawing import Drawing
from pixtree.vector.outlines.corners import place_sharp_samples
from pixtree.vector.outlines.joints import fit_shapes
from pixtree.vector.outlines.primitives import Prices
from pixtree.vector.paint.layers import layers_of
from pixtree.vector.svg.document import Markup

Array = NDArray[Any]
UNIT = 20  # grid steps per pixel
PRICES = Prices(noise=0.1, line=6.0, circle=6.0)  # noise as a share of the tolerance


def trace_artwork(labels: NDArray[np.int32], planes: Array, colours: Array, *, tolerance: float, markup: Markup) -> Drawing:
    """The drawing of a label map (H, W) with regions 0…N−1 of colours (N, C), −1 outside; planes (C, H, W) in 0…255.

    Boundaries run where the blends of the pixels on both sides put them, and lines and arcs are fitted to that.
    """
    arcs = planar_map(labels)
    prices = PRICES._replace(noise=PRICES.noise * tolerance)
    outlines = fit_shapes(place_sharp_samples(labels, arcs, planes, colours), arcs, unit=UNIT, prices=prices)
    return Drawing(arcs, outlines, colours, layers_of(arcs), markup, artwork=True)
