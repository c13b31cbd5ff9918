"""The widget: choose an image, move the slider, point at objects."""

from typing import Any

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QComboBox, QFormLayout, QLabel, QPushButton, QSlider, QSpinBox, QWidget

from pixtree.napari_plugin.session import STEPS, Session

REGIONS, SELECTION, INSIDE, OUTSIDE = "pixtree regions", "pixtree selection", "inside", "outside"
FIRST_COUNT = 200


class RegionsWidget(QWidget):
    """A dock widget of napari; `napari_viewer` is a Viewer, or a ViewerModel without a window."""

    def __init__(self, napari_viewer: Any) -> None:
        super().__init__()
        self.viewer = napari_viewer
        self.session: Session | None = None
        self.source: Any = None
        self.image, self.grow = QComboBox(), QPushButton("Grow the tree")
        self.slider, self.count = QSlider(Qt.Orientation.Horizontal), QSpinBox()
        self.point, self.message = QPushButton("Select by pointing"), QLabel("")
        self.slider.setRange(0, STEPS)
        layout = QFormLayout(self)
        for name, widget in (("Image", self.image), ("", self.grow), ("Regions", self.slider), ("", self.count)):
            layout.addRow(name, widget)
        layout.addRow(self.point)
        layout.addRow(self.message)
        self._enable(False)
        self.grow.clicked.connect(self.grow_tree)
        self.slider.valueChanged.connect(self._slid)
        self.count.valueChanged.connect(self._counted)
        self.point.clicked.connect(self.start_pointing)
        for event in (self.viewer.layers.events.inserted, self.viewer.layers.events.removed):
            event.connect(self._list_images)
        self._list_images()

    def _enable(self, ready: bool) -> None:
        for widget in (self.slider, self.count, self.point):
            widget.setEnabled(ready)

    def _list_images(self, event: Any = None) -> None:
        """List the image layers of the viewer; the chosen one stays chosen."""
        from napari.layers import Image

        chosen = self.image.currentText()
        self.image.clear()
        self.image.addItems([layer.name for layer in self.viewer.layers if isinstance(layer, Image)])
        self.image.setCurrentText(chosen)
        self.grow.setEnabled(self.image.count() > 0)

    def grow_tree(self) -> None:
        """Grow the tree of the chosen image and show its first cut, or the error."""
        self.source = self.viewer.layers[self.image.currentText()]
        try:
            self.session = Session.of_layer(self.source, self.viewer.dims.current_step)
        except (ValueError, TypeError) as fault:
            self.message.setText(str(fault))
            return
        self.message.setText("")
        self._enable(True)
        self.count.setRange(1, self.session.most)
        self.count.setValue(min(FIRST_COUNT, self.session.most))
        self._show_regions(self.count.value())

    def _slid(self, place: int) -> None:
        if self.session is not None and self.session.place_of(self.count.value()) != place:
            self.count.setValue(self.session.count_at(place))

    def _counted(self, count: int) -> None:
        if self.session is not None:
            self.slider.setValue(self.session.place_of(count))
            self._show_regions(count)

    def _show_regions(self, count: int) -> None:
        assert self.session is not None
        self._show(REGIONS, self.session.regions(count))

    def _show(self, name: str, labels: Any) -> None:
        """Put labels into the layer of this name, which is created if missing."""
        if name in self.viewer.layers:
            self.viewer.layers[name].data = labels
        else:
            self.viewer.add_labels(labels, name=name, **self._placing())

    def _placing(self) -> dict[str, Any]:
        """Scale and position of the image in the plane, so that other layers lie over it."""
        return {"scale": self.source.scale[-2:], "translate": self.source.translate[-2:]}

    def start_pointing(self) -> None:
        """Add the two layers of points; every point that is added, moved or removed selects again."""
        for name, colour in ((OUTSIDE, "red"), (INSIDE, "lime")):
            if name not in self.viewer.layers:
                points = self.viewer.add_points(ndim=2, name=name, face_color=colour, size=8, **self._placing())
                points.events.data.connect(self.select)
        self.viewer.layers[INSIDE].mode = "add"
        self.viewer.layers.selection.active = self.viewer.layers[INSIDE]
        self.message.setText("Click on the object; add points to the layer 'outside' where the selection is too large.")

    def select(self, event: Any = None) -> None:
        """Show the object that the points select."""
        assert self.session is not None
        inside, outside = (self.viewer.layers[name].data if name in self.viewer.layers else [] for name in (INSIDE, OUTSIDE))
        try:
            self._show(SELECTION, self.session.selection(inside, outside))
            self.message.setText("")
        except ValueError as fault:
            self.message.setText(str(fault))
