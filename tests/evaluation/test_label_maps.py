"""Folders of segmentation and saliency sets, in the layouts in which they are distributed."""

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from pixtree.evaluation.label_maps import IGNORED, LAYOUTS, UNUSED, VOC_CLASSES, labelled_set

VALUES = np.array([[0, 1, 2, 255]] * 3, np.uint8)


def write(root, image, target, values=VALUES, mode=None):
    for path in (root / image, root / target):
        path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((*values.shape, 3), 90, np.uint8)).save(root / image)
    if target.endswith(".mat"):
        savemat(root / target, {"S": values})
    else:
        Image.fromarray(values).convert(mode).save(root / target) if mode else Image.fromarray(values).save(root / target)


def only(root, layout, split="val"):
    found = labelled_set(root, layout, split)
    assert len(found) == 1
    return found, found.images[0].labels()[0].tolist()


def test_ade20k_counts_from_one_and_zero_is_no_class(tmp_path):
    write(tmp_path, "images/validation/a.jpg", "annotations/validation/a.png")
    lines = [f"{number}\t0.1\t10\t1\tname {number}, other" for number in range(1, 151)]
    (tmp_path / "objectInfo150.txt").write_text("Idx\tRatio\tTrain\tVal\tName\n" + "\n".join(lines))
    found, labels = only(tmp_path, "ade20k")
    assert labels == [IGNORED, 0, 1, IGNORED]
    assert (len(found.classes), found.classes[0], found.classes[149]) == (150, "name 1", "name 150")


def test_coco_stuff_skips_the_numbers_that_no_class_has(tmp_path):
    values = np.array([[0, UNUSED[0] - 1, UNUSED[0], 181, 255]], np.uint8)
    write(tmp_path, "images/val2017/a.jpg", "stuffthingmaps/val2017/a.png", values)
    found, labels = only(tmp_path, "coco-stuff-164k")
    assert labels == [0, IGNORED, 11, 170, IGNORED]
    assert len(found.classes) == 171


def test_coco_stuff_10k_reads_matlab_files_of_its_lists(tmp_path):
    values = np.array([[0, 1, 182, 13]], np.uint8)
    for name in ("a", "b"):
        write(tmp_path, f"images/{name}.jpg", f"annotations/{name}.mat", values)
    (tmp_path / "imageLists").mkdir()
    (tmp_path / "imageLists" / "test.txt").write_text("b\n")
    found, labels = only(tmp_path, "coco-stuff-10k")
    assert labels == [IGNORED, 0, 170, 11]
    assert found.images[0].name == "b"


@pytest.mark.parametrize(("images", "labels"), [("images/val", "labels/val"), ("val", "valannot")])
def test_camvid_has_eleven_classes_and_void(tmp_path, images, labels):
    write(tmp_path, f"{images}/a.jpg", f"{labels}/a.png", np.array([[0, 10, 11]], np.uint8))
    (tmp_path / "classes.txt").write_text("# index name\n" + "\n".join(f"{number} Name{number} 1 2 3" for number in range(12)))
    found, values = only(tmp_path, "camvid")
    assert values == [0, 10, IGNORED]
    assert found.classes == tuple(f"Name{number}" for number in range(11))


def test_voc_reads_palette_pictures_of_its_lists(tmp_path):
    write(tmp_path, "JPEGImages/a.jpg", "SegmentationClass/a.png", mode="P")
    write(tmp_path, "JPEGImages/b.jpg", "SegmentationClass/b.png")
    picture = Image.fromarray(VALUES)
    picture.putpalette([0, 0, 0] * 256)
    picture.save(tmp_path / "SegmentationClass" / "a.png")
    (tmp_path / "ImageSets" / "Segmentation").mkdir(parents=True)
    (tmp_path / "ImageSets" / "Segmentation" / "val.txt").write_text("a\n")
    found, labels = only(tmp_path, "voc")
    assert labels == [0, 1, 2, IGNORED]
    assert found.classes == VOC_CLASSES
    assert len(VOC_CLASSES) == 21


@pytest.mark.parametrize(
    ("images", "masks"),
    [
        ("images", "masks"),
        ("images", "ground_truth_mask"),
        ("DUTS-TE-Image", "DUTS-TE-Mask"),
        ("DUT-OMRON-image", "pixelwiseGT-new-PNG"),
    ],
)
def test_saliency_sets_have_masks_that_are_white_inside(tmp_path, images, masks):
    write(tmp_path, f"{images}/a.jpg", f"{masks}/a.png", np.array([[0, 100, 200, 255]], np.uint8))
    assert only(tmp_path, "salient")[1] == [0, 0, 1, 1]


def test_a_limit_takes_images_evenly(tmp_path):
    for name in "abcdef":
        write(tmp_path, f"images/{name}.jpg", f"masks/{name}.png")
    assert [one.name for one in labelled_set(tmp_path, "salient", limit=3).images] == ["a", "c", "e"]
    assert labelled_set(tmp_path, "salient").images[0].pixels().shape == (3, 4, 3)


def test_wrong_folders_are_refused_in_one_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match="check the path"):
        labelled_set(tmp_path / "none", "voc")
    with pytest.raises(ValueError, match=", ".join(LAYOUTS)):
        labelled_set(tmp_path, "cityscapes")
    with pytest.raises(ValueError, match="limit"):
        labelled_set(tmp_path, "salient", limit=0)
    with pytest.raises(FileNotFoundError, match="images or DUTS-TE-Image"):
        labelled_set(tmp_path, "salient")
    write(tmp_path, "images/a.jpg", "masks/b.png")
    with pytest.raises(FileNotFoundError, match=r"a\.png .* 1 of 1 images have none"):
        labelled_set(tmp_path, "salient")
    with pytest.raises(FileNotFoundError, match="list of images"):
        labelled_set(tmp_path, "voc")


def test_labels_of_another_size_or_of_too_many_values_are_refused(tmp_path):
    write(tmp_path, "images/a.jpg", "masks/a.png")
    Image.fromarray(np.zeros((5, 4), np.uint8)).save(tmp_path / "masks" / "a.png")
    with pytest.raises(ValueError, match=r"a\.jpg has \(3, 4\) and a\.png \(5, 4\)"):
        labelled_set(tmp_path, "salient").images[0].labels()
    Image.fromarray(np.full((3, 4), 300, np.uint16)).save(tmp_path / "masks" / "a.png")
    with pytest.raises(ValueError, match="values up to 300"):
        labelled_set(tmp_path, "salient").images[0].labels()
