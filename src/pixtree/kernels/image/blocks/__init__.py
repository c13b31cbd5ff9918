"""Block moves: small regions of a finer cut move between the regions of a coarser one where that lowers the energy."""
