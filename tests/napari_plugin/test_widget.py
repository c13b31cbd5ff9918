"""The plugin of napari, without a window: a widget over a viewer's model, driven as a hand would."""

import os
from pathlib import Path

import numpy as np
import pytest
from pictures import photo

import pixtree
from pixtree.napari_plugin.session import Session, shown_plane

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("QT_API", "pyside6")

from qtpy.QtWidgets import QApplication

from pixtree.napari_plugin.widget import INSIDE, OUTSIDE, REGIONS, SELECTION, RegionsWidget

PIXELS = photo(height=40, width=48).permute(1, 2, 0).numpy()


def empty_viewer():
    from napari.components import ViewerModel  # imported late: it takes seconds, and every run would wait for it at collection

    return ViewerModel()


@pytest.fixture(scope="module")
def application():
    return QApplication.instance() or QApplication([])


@pytest.fixture
def viewer():
    model = empty_viewer()
    model.add_image(PIXELS, rgb=True, name="photo", scale=(2, 2))
    return model


@pytest.fixture
def widget(application, viewer):
    return RegionsWidget(viewer)


def clicked(button):
    button.click()
    QApplication.processEvents()


def regions(viewer):
    return len(np.unique(viewer.layers[REGIONS].data))


def test_growing_the_tree_shows_a_layer_of_regions(widget, viewer):
    assert not widget.slider.isEnabled()
    clicked(widget.grow)
    assert viewer.layers[REGIONS].data.shape == (40, 48)
    assert regions(viewer) == widget.count.value() == 200
    assert np.array_equal(viewer.layers[REGIONS].scale, [2, 2])
    assert np.array_equal(viewer.layers[REGIONS].data, pixtree.segment(PIXELS, tokens=200) + 1)


def test_the_slider_goes_from_one_region_to_thousands(widget, viewer):
    clicked(widget.grow)
    for place in (0, 300, 700, 1000):
        widget.slider.setValue(place)
        assert widget.count.value() == widget.session.count_at(place)
        assert regions(viewer) == widget.session.count_at(place)
    assert widget.count.maximum() == 40 * 48
    widget.slider.setValue(0)
    assert regions(viewer) == 1
    assert len([layer for layer in viewer.layers if layer.name.startswith("pixtree")]) == 1


def test_a_typed_count_is_exact(widget, viewer):
    clicked(widget.grow)
    widget.count.setValue(37)
    assert regions(viewer) == 37
    assert widget.slider.value() == widget.session.place_of(37)


def test_points_select_an_object(widget, viewer, monkeypatch):
    asked, answer = {}, pixtree.select

    def select(tree, inside, outside=None):
        asked.update(tree=tree, inside=inside, outside=outside)
        return answer(tree, inside, outside)

    monkeypatch.setattr(pixtree, "select", select)
    clicked(widget.grow)
    clicked(widget.point)
    assert viewer.layers.selection.active.name == INSIDE
    assert viewer.layers[INSIDE].mode == "add"
    viewer.layers[INSIDE].add([20.2, 10.4])
    assert asked["inside"] == [(20, 10)]
    assert asked["outside"] is None
    assert viewer.layers[SELECTION].data[20, 10] == 1
    viewer.layers[OUTSIDE].add([[3, 4], [99, 3]])  # the second is beside the image
    assert asked["outside"] == [(3, 4)]
    viewer.layers[INSIDE].selected_data = {0}
    viewer.layers[INSIDE].remove_selected()
    assert not viewer.layers[SELECTION].data.any()


def test_what_is_refused_is_said(application):
    model = empty_viewer()
    model.add_image(np.full((8, 9), np.nan, np.float32), name="empty", contrast_limits=(0, 1))
    widget = RegionsWidget(model)
    clicked(widget.grow)
    assert "pixels must be finite" in widget.said.text()
    assert not widget.slider.isEnabled()


def test_images_that_come_and_go_are_offered(widget, viewer):
    viewer.add_image(np.zeros((5, 5)), name="later")
    assert [widget.image.itemText(index) for index in range(widget.image.count())] == ["photo", "later"]
    viewer.layers.remove("later")
    viewer.layers.remove("photo")
    assert widget.image.count() == 0
    assert not widget.grow.isEnabled()


def test_a_volume_is_cut_where_the_viewer_looks():
    model = empty_viewer()
    volume = np.stack([np.full((6, 7), 100 * index, np.int16) for index in range(4)])
    volume[2, :, 3:] = -50
    layer = model.add_image(volume, contrast_limits=(-50, 300))
    plane, window = shown_plane(layer, (2, 0, 0))
    assert np.array_equal(plane, volume[2])
    assert window == (-50, 300)
    assert Session.of_layer(layer, (2, 0, 0)).regions(2)[0].tolist() == [1, 1, 1, 2, 2, 2, 2]


def test_the_manifest_is_valid_and_its_commands_exist():
    from npe2 import PluginManifest

    path = Path(pixtree.__file__).parent / "napari_plugin" / "napari.yaml"
    manifest = PluginManifest.from_file(path)
    manifest.validate_imports()
    assert [one.display_name for one in manifest.contributions.widgets] == ["Regions of an image"]
