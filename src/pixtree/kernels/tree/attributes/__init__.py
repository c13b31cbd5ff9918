"""Attributes of tree nodes: sizes, moments, boxes, volumes and levels."""
