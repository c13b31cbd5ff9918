import numpy as np
import pytest
import torch
from PIL import Image

from pixtree.exports import write
from pixtree.exports.labels import label_maps, numbered, write_labels
from pixtree.trees.partition import Partition

LABELS = np.array([[0, 0, 1], [2, 2, 1]], dtype=np.int32)


def read(path):
    with Image.open(path) as image:
        return np.asarray(image), image.info


def test_a_png_holds_the_labels_in_sixteen_bits(tmp_path):
    wide = LABELS * 30_000
    write_labels(tmp_path / "labels.png", wide)
    values, info = read(tmp_path / "labels.png")
    assert values.dtype == np.uint16
    np.testing.assert_array_equal(values, wide)
    assert info["Description"] == "value = label"


def test_a_png_with_pixels_outside_stores_label_plus_one(tmp_path):
    labels = LABELS.copy()
    labels[0, 0] = -1
    write_labels(tmp_path / "labels.png", labels)
    values, info = read(tmp_path / "labels.png")
    np.testing.assert_array_equal(values, labels + 1)
    assert info["Description"] == "value = label + 1, 0 = outside the mask"


@pytest.mark.parametrize("labels", [[[0, 65_536]], [[-1, 65_535]]])
def test_a_png_refuses_more_values_than_it_has(tmp_path, labels):
    with pytest.raises(ValueError, match=r"\.tif or \.npz"):
        write_labels(tmp_path / "labels.png", np.array(labels))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".tif", ".tiff", ".TIF"])
def test_a_tiff_holds_any_label(tmp_path, suffix):
    labels = np.array([[0, 65_536, -1], [2**31 - 1, 70_000, 1]])
    write_labels(tmp_path / f"labels{suffix}", labels)
    np.testing.assert_array_equal(read(tmp_path / f"labels{suffix}")[0], labels)


def test_npz_holds_labels_counts_and_version(tmp_path):
    write_labels(tmp_path / "labels.npz", Partition.from_labels(LABELS))
    with np.load(tmp_path / "labels.npz", allow_pickle=False) as stored:
        np.testing.assert_array_equal(stored["labels"], LABELS)
        assert stored["counts"].tolist() == [3]
        assert stored["version"] == 1


def test_npz_holds_several_images(tmp_path):
    batch = torch.tensor([[[0, 0]], [[0, 1]]], dtype=torch.int32)
    write_labels(tmp_path / "labels.npz", batch)
    with np.load(tmp_path / "labels.npz") as stored:
        assert stored["labels"].shape == (2, 1, 2)
        assert stored["counts"].tolist() == [1, 2]


def test_a_named_format_needs_no_suffix(tmp_path):
    for format in ("png", "tiff", "npz", "geojson", "coco"):
        write(tmp_path / format, LABELS, format=format)
        assert (tmp_path / format).stat().st_size > 0
    assert len(list(tmp_path.iterdir())) == 5


def test_an_unknown_suffix_lists_the_choices(tmp_path):
    with pytest.raises(ValueError, match=r"\.png, \.tif, \.tiff, \.npz, got"):
        write_labels(tmp_path / "labels.bmp", LABELS)
    with pytest.raises(ValueError, match=r"\.geojson, \.coco\.json, \.gpkg, \.shp, got"):
        write(tmp_path / "labels.json", LABELS)
    with pytest.raises(ValueError, match="png, tiff, npz, geojson, coco, gpkg, shp, got 'bmp'"):
        write(tmp_path / "labels", LABELS, format="bmp")


def test_several_images_do_not_fit_one_picture(tmp_path):
    with pytest.raises(ValueError, match="2 images"):
        write_labels(tmp_path / "labels.png", np.zeros((2, 3, 3), dtype=int))


@pytest.mark.parametrize("labels", [np.zeros((2, 2)), np.zeros(4, dtype=int), np.array([[2**31]])])
def test_what_is_no_label_map_is_refused(labels):
    with pytest.raises(ValueError, match="labels"):
        label_maps(labels)


def test_numbering_keeps_the_order_and_leaves_the_outside():
    present, regions = numbered(np.array([[7, -3], [2_000_000_000, 0]]))
    assert present.tolist() == [0, 7, 2_000_000_000]
    assert regions.tolist() == [[1, -1], [2, 0]]
