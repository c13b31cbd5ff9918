"""Colours of pixels: sRGB, Lab and lightness."""
