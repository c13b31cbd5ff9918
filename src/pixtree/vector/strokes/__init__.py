"""Strokes: a picture as lines along the contours that are strong in its tree."""
