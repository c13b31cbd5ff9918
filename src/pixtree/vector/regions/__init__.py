"""Regions of a drawing: which pixels, and which finer cells, belong together."""
