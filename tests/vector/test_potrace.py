"""The paper's pipeline with the real potrace program."""

import os
import shutil
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from pictures import constant, photo

from pixtree.kernels.fidelity import mean_squared_error, psnr
from pixtree.tasks.vectorize import rendered, vectorize
from pixtree.vector.potrace import PROGRAM

IN_CI = os.environ.get("CI", "") in ("1", "true")  # there a missing program is a failure
pytestmark = pytest.mark.skipif(shutil.which(PROGRAM) is None and not IN_CI, reason=f"{PROGRAM} is not installed")


def test_a_photo_is_traced_in_two_layers_of_at_most_so_many_paths():
    picture = photo().permute(1, 2, 0).contiguous().numpy()
    drawing = vectorize(picture, paths=60, style="paper")
    root = ET.fromstring(str(drawing))
    layers = root.findall("./{*}g")
    assert len(layers) == 2
    assert len(root.findall(".//{*}path")) == drawing.paths <= 60
    assert all(path.attrib["d"].startswith("M") for path in root.iter("{http://www.w3.org/2000/svg}path"))
    assert psnr(mean_squared_error(rendered(str(drawing)), picture)) > 17


def test_regions_are_drawn_where_they_are():
    picture = np.full((40, 50, 3), 230, np.uint8)
    picture[5:15, 30:45] = (200, 0, 0)
    picture[22:36, 4:20] = (0, 0, 160)
    shown = rendered(str(vectorize(picture, paths=30, style="paper"))).astype(int)
    for box in ((slice(7, 13), slice(32, 43)), (slice(24, 34), slice(6, 18)), (slice(2, 4), slice(5, 25))):
        assert np.abs(shown[box] - picture[box]).max() <= 3


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (16, 16)])
def test_one_colour_is_drawn_whole(shape):
    drawing = vectorize(constant(*shape), paths=5, style="paper")
    assert rendered(str(drawing)).shape == (*shape, 3)


def test_drawings_are_saved_as_others_are(tmp_path):
    drawing = vectorize(photo(height=30, width=30), paths=12, style="paper")
    drawing.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text() == str(drawing)
    assert drawing.bytes == (tmp_path / "a.svg").stat().st_size
