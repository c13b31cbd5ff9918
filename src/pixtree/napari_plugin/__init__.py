"""A plugin for napari: a slider from one region to thousands, and objects selected by pointing. Needs the extra `napari`."""
