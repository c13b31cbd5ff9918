"""Region tables: columns that hold what the regions of a cut are, and what they merge into."""

import numpy as np
import pandas
import pytest
import torch
from pictures import photo
from skimage.measure import regionprops

import pixtree

PICTURE = photo(height=24, width=30)
TREE = pixtree.hierarchy(PICTURE)


def test_a_row_is_the_region_of_its_label():
    table, labels = TREE.table(tokens=9), TREE.cut(tokens=9).numpy()
    assert {len(column) for column in table.values()} == {17}
    for region in regionprops(labels + 1):
        row = region.label - 1
        assert table["area"][row] == region.area
        assert tuple(int(table[name][row]) for name in ("top", "left", "bottom", "right")) == region.bbox


def test_means_are_those_of_the_features_or_of_any_values():
    values = np.random.default_rng(0).normal(1000, 500, (24, 30, 2))
    labels = TREE.cut(tokens=9).numpy()
    table, own = TREE.table(tokens=9, values=values), TREE.table(tokens=9)
    for row in range(9):
        assert table["mean_1"][row] == pytest.approx(values[labels == row, 1].mean(), rel=1e-5)
        assert own["mean_2"][row] == pytest.approx(
            float(TREE.features[2][torch.from_numpy(labels).flatten() == row].mean()), abs=1e-3
        )
    assert table["mean_0"][-1] == pytest.approx(values[..., 0].mean(), rel=1e-5)
    assert [name for name in own if name.startswith("mean")] == ["mean_0", "mean_1", "mean_2"]


def test_coordinates_are_no_means():
    table = pixtree.hierarchy(PICTURE, compactness=0.1).table(tokens=2)
    assert [name for name in table if name.startswith("mean")] == ["mean_0", "mean_1", "mean_2"]


def test_parents_are_rows_and_areas_add_up():
    table = TREE.table(tokens=9)
    assert table["parent"].tolist().count(-1) == 1
    assert table["parent"][-1] == -1
    assert table["area"][-1] == 720
    for row in range(9, 17):
        assert table["area"][table["parent"] == row].sum() == table["area"][row]
    assert (table["parent"][:-1] > np.arange(16)).all() or (table["parent"][:9] >= 9).all()


def test_a_perimeter_counts_the_pixel_edges_around():
    labels = np.pad(TREE.cut(tokens=9).numpy(), 1, constant_values=-1)
    around = [
        sum(int(((labels == row) & (np.roll(labels, shift, axis) != row)).sum()) for shift in (-1, 1) for axis in (0, 1))
        for row in range(9)
    ]
    assert TREE.table(tokens=9)["perimeter"][:9].tolist() == around


def test_without_a_count_all_nodes_are_in_it():
    table = TREE.table()
    assert len(table["area"]) == 2 * 720 - 1
    assert table["node"].tolist() == list(range(1439))
    assert (table["level"][:720] == 0).all()


def test_pixels_outside_a_mask_are_in_no_row():
    mask = np.ones((24, 30), bool)
    mask[:, 10:20] = False
    table = pixtree.hierarchy(PICTURE, mask=mask).table(tokens=4)
    assert table["area"][-1] == mask.sum()
    assert table["area"][:4].sum() == mask.sum()


def test_pandas_takes_it_as_it_is():
    frame = pandas.DataFrame(TREE.table(tokens=9))
    assert frame.shape == (17, 13)
    assert frame.query("parent == -1").area.item() == 720


def test_other_sizes_are_refused():
    with pytest.raises(ValueError, match=r"tree's height and width, \(24, 30\), got shape \(30, 24\); resize them"):
        TREE.table(tokens=9, values=np.zeros((30, 24)))


def test_values_have_their_channels_last_even_in_an_image_of_three_rows_and_one_plane_needs_none():
    image = photo(height=3, width=30)
    tree, values = pixtree.hierarchy(image), np.random.default_rng(0).normal(0, 1, (3, 30, 4))
    labels = tree.cut(tokens=5).numpy()
    table, single = tree.table(tokens=5, values=values), tree.table(tokens=5, values=values[..., 0])
    assert [name for name in table if name.startswith("mean")] == [f"mean_{channel}" for channel in range(4)]
    assert [name for name in single if name.startswith("mean")] == ["mean_0"]
    for row in range(5):
        assert table["mean_3"][row] == pytest.approx(values[labels == row, 3].mean(), rel=1e-4, abs=1e-6)
        assert single["mean_0"][row] == pytest.approx(values[labels == row, 0].mean(), rel=1e-4, abs=1e-6)
