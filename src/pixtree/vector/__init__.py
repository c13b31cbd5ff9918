"""From a partition to a drawing: arcs shared by two regions, placed below the pixel, fitted once, painted without hairlines."""
