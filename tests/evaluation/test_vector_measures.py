"""Measures of drawings."""

import numpy as np
import PIL.Image
import pytest
from pictures import photo

from pixtree.evaluation.plots import plot_rate_distortion
from pixtree.evaluation.vectors import (
    at_size,
    compare,
    measure,
    own_method,
    resized,
    summary,
    vtracer_method,
)
from pixtree.kernels.image import mean_squared_error, psnr

RED = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="10"><path fill="#f00" d="M0 0h20v10H0z"/></svg>'
GAP = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="10"><path fill="#f00" d="M0 0h9v10H0z"/></svg>'


def test_a_drawing_equal_to_its_image_has_no_error():
    picture = np.zeros((10, 20, 3), np.uint8)
    picture[..., 0] = 255
    found = measure(RED, picture)
    assert found["mse"] == 0
    assert found["ssim"] == pytest.approx(1)
    assert found["gap_largest"] == 0
    assert found["paths"] == 1
    assert found["bytes"] == len(RED)


def test_what_is_not_covered_shows_as_a_gap():
    assert measure(GAP, np.zeros((10, 20, 3), np.uint8))["gap_largest"] == 255


def test_a_drawing_that_says_how_it_fills_its_window_is_stretched_all_the_same():
    text = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 4 4" preserveAspectRatio="xMidYMid"><path d="M0 0h4v4H0z"/></svg>'
    assert not at_size(text, (6, 12)).any()


def test_drawings_are_rendered_to_any_size():
    assert at_size(RED, (7, 31)).shape == (7, 31, 3)
    assert (at_size(RED, (7, 31)) == (255, 0, 0)).all()


def test_errors_and_decibels():
    a, b = np.zeros((2, 2, 3), np.uint8), np.full((2, 2, 3), 51, np.uint8)
    assert mean_squared_error(a, b) == pytest.approx(0.04)
    assert psnr(0.00178) == pytest.approx(27.5, abs=0.01)
    assert resized(np.zeros((100, 50, 3), np.uint8), 0.73).shape == (73, 36, 3)


def test_rows_are_means_over_images_and_plotted(tmp_path):
    paths = []
    for name in ("astronaut", "coffee"):
        paths.append(tmp_path / f"{name}.png")
        PIL.Image.fromarray(photo(name, 32, 40).permute(1, 2, 0).numpy()).save(paths[-1])
    methods = [own_method("pixtree 20 paths", paths=20), vtracer_method("defaults")]
    rows = list(compare(paths, methods, sizes=()))
    table = summary(rows)
    assert [row["method"] for row in table] == ["pixtree 20 paths", "vtracer defaults"]
    assert table[0]["images"] == 2
    assert table[0]["psnr"] == pytest.approx(np.mean([row["psnr"] for row in rows if row["method"] == "pixtree 20 paths"]))
    plot_rate_distortion(table, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").exists()


def test_an_unknown_setting_lists_the_choices():
    with pytest.raises(ValueError, match="defaults, photo"):
        vtracer_method("slow")
