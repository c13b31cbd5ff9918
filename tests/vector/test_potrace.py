"""The paper's pipeline with the real potrace program."""

import os
import shutil
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from pictures import constant, photo

from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.tasks.vectorize import rendered, vectorize
from pixtree.vector.potrace import PROGRAM

IN_CI = os.environ.get("CI", "") in ("1", "true")  # there a missing program is a failure
pytestmark = pytest.mark.skipif(shutil.which(PROGRAM) is None and not IN_CI, reason=f"{PROGRAM} is not installed")


def layers_of(drawing):
    return [layer.findall("./{*}path") for layer in ET.fromstring(str(drawing)).findall("./{*}g")]


def test_a_fine_layer_lies_over_a_coarse_one_and_all_paths_asked_for_are_drawn():
    picture = photo().permute(1, 2, 0).contiguous().numpy()
    drawing = vectorize(picture, paths=510, style="paper")
    layers = layers_of(drawing)
    assert [len(layer) for layer in layers] == [10, 500]
    assert drawing.paths == 510
    assert all(path.attrib["d"].startswith("M") for layer in layers for path in layer)
    assert psnr(mean_squared_error(rendered(str(drawing)), picture)) > 20


@pytest.mark.parametrize("paths", [1, 2, 4, 5, 12, 61])
def test_no_layer_below_has_one_region_or_as_many_as_the_one_above(paths):
    counts = [len(layer) for layer in layers_of(vectorize(photo(), paths=paths, style="paper"))]
    assert sum(counts) == paths
    assert len(counts) == (1 if paths <= 4 else 2)
    assert all(2 <= count < counts[-1] for count in counts[:-1])


def test_more_paths_draw_more():
    picture = photo().permute(1, 2, 0).contiguous().numpy()
    quality = [
        psnr(mean_squared_error(rendered(str(vectorize(picture, paths=paths, style="paper"))), picture)) for paths in (20, 80, 320)
    ]
    assert quality[0] + 0.5 < quality[1] < quality[2] - 0.5


def test_regions_are_drawn_where_they_are():
    picture = np.full((40, 50, 3), 230, np.uint8)
    picture[5:15, 30:45] = (200, 0, 0)
    picture[22:36, 4:20] = (0, 0, 160)
    shown = rendered(str(vectorize(picture, paths=3, style="paper"))).astype(int)
    for box in ((slice(7, 13), slice(32, 43)), (slice(24, 34), slice(6, 18)), (slice(2, 4), slice(5, 25))):
        assert np.abs(shown[box] - picture[box]).max() <= 3


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (16, 16)])
def test_one_colour_is_drawn_whole(shape):
    picture = constant(*shape)
    drawing = vectorize(picture, paths=5, style="paper")
    assert drawing.paths == 1
    assert rendered(str(drawing)).shape == (*shape, 3)


def test_drawings_are_saved_as_others_are(tmp_path):
    drawing = vectorize(photo(height=30, width=30), paths=12, style="paper")
    drawing.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text() == str(drawing)
    assert drawing.bytes == (tmp_path / "a.svg").stat().st_size


def test_a_program_that_fails_is_named_in_one_sentence(tmp_path, monkeypatch):
    program = tmp_path / PROGRAM
    program.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(OSError, match=r"potrace must trace every region, but failed \(broken\); check it"):
        vectorize(photo(height=8, width=8), paths=4, style="paper")
