"""Clusters of tokens: trees of weighted points, cut at an exact count."""
