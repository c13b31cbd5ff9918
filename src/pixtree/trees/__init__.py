"""From features to regions: the tree, its cuts and the partitions they give; no weights, no gradient."""
