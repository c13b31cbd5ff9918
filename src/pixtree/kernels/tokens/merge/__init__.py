"""Tokens of one cluster as one token: means by size, and the sizes of the clusters."""
