"""Presets: named sets of options for common kinds of drawings."""

from typing import Any

# Each is a set of options of `vectorize`; options given as well as a preset win.
PRESETS: dict[str, dict[str, Any]] = {
    "photo": {"paths": 3000, "points": 60_000, "style": "polyline"},
    "poster": {"paths": 1000, "colors": 16, "style": "smooth", "artwork": True, "tolerance": 0.6},
    "icon": {"paths": 300, "points": 2000, "colors": 8, "style": "smooth", "artwork": True, "tolerance": 0.4},
    "lineart": {"paths": None, "style": "lineart", "artwork": True, "tolerance": 0.3},
    "sketch": {"paths": 200, "colors": 4, "style": "strokes", "artwork": True, "tolerance": 1.0, "grey": True},
}
# One line each, for help texts.
ABOUT = {
    "photo": "up to 3000 straight-edged shapes; for photographs",
    "poster": "16 colours, smooth curves, up to 1000 shapes; for posters and screen prints",
    "icon": "8 colours, smooth curves, up to 300 shapes and 2000 points; for logos and icons",
    "lineart": "smooth shapes of ink on white paper, as many as there are; for scans and for photos of pages and whiteboards",
    "sketch": "up to 200 strokes of 4 pens along the strongest contours; for line drawings",
}
DEFAULT: dict[str, Any] = {"paths": 1000, "style": None, "artwork": None, "tolerance": 0.4, "grey": False}
BUDGETS = ("paths", "bytes", "psnr", "points")


def with_preset(preset: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """The options that are given (not None), over those of the preset, over the defaults; a budget given replaces the preset's."""
    if preset is not None and preset not in PRESETS:
        raise ValueError(f"a preset is one of {', '.join(PRESETS)}, got {preset!r}; choose one of these")
    chosen = {name: value for name, value in given.items() if value is not None}
    ground = DEFAULT | (PRESETS[preset] if preset else {})
    if any(name in chosen for name in BUDGETS):
        ground = {name: value for name, value in ground.items() if name not in BUDGETS}
    return ground | chosen
