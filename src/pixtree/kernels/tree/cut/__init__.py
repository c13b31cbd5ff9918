"""Cutting a tree: which nodes are opened, and the regions that remain."""
