"""Exact cuts: the cut with n regions, mostly without the tree below it."""
