"""Boundary polishing: border pixels move to the neighbouring region that fits them best."""
