"""Presets: what is given wins over the preset, and the preset over the defaults."""

import pytest

from pixtree.vector.presets import DEFAULT, PRESETS, with_preset


def test_without_a_preset_the_defaults_hold_for_what_is_not_given():
    assert with_preset(None, {}) == DEFAULT
    assert with_preset(None, {"style": "smooth", "paths": None}) == DEFAULT | {"style": "smooth"}


@pytest.mark.parametrize("preset", PRESETS)
def test_options_of_a_preset_hold_unless_others_are_given(preset):
    assert with_preset(preset, {"tolerance": None}) == DEFAULT | PRESETS[preset]
    assert with_preset(preset, {"tolerance": 0.9})["tolerance"] == 0.9
    assert with_preset(preset, {"tolerance": 0.9})["paths"] == PRESETS[preset]["paths"]


def test_any_budget_replaces_all_budgets_of_a_preset():
    found = with_preset("photo", {"bytes": 5000})
    assert found == {"style": "polyline", "artwork": None, "tolerance": 0.4, "grey": False, "bytes": 5000}


def test_presets_for_graphics_treat_blends_as_anti_aliasing():
    assert [name for name in PRESETS if with_preset(name, {})["artwork"]] == ["poster", "icon", "lineart", "sketch"]


def test_an_unknown_preset_names_those_there_are():
    with pytest.raises(ValueError, match="one of photo, poster, icon, lineart, sketch, got 'logo'"):
        with_preset("logo", {})
