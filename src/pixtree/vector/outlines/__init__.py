"""Outlines of a drawing: where the arcs between regions run, and the lines and curves that describe them."""
