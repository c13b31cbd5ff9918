"""Sums, means and boxes of regions, and painting: from regions back to pixels."""
