"""Layouts of labelled pictures: each is recognised, and ends in the classes that its authors meant."""

import json

import numpy as np
import pytest
from labelled_folders import class_folders, picture, table
from scipy.io import savemat

from pixtree.evaluation.classified_images import classified_images, with_bank, with_real_labels


def classes(data):
    return [picture.classes[0] for picture in data.images]


def test_a_table_names_files_and_classes(tmp_path):
    data = classified_images(table(tmp_path / "val", [7, 0, 7]))
    assert (data.layout, data.name, data.classes, classes(data)) == ("labels.csv", "val", 8, [7, 0, 7])


def test_folders_of_synsets_have_the_classes_of_imagenet(tmp_path):
    data = classified_images(class_folders(tmp_path, ["n01440764", "n03888257"], 1))
    assert classes(data) == [0, 701]


def test_folders_of_numbers_are_imagenet_v2s_classes_and_not_their_sorted_order(tmp_path):
    assert classes(classified_images(class_folders(tmp_path, ["10", "2"], 1))) == [10, 2]


def test_plain_folders_are_classes_in_the_order_of_their_names(tmp_path):
    assert classes(classified_images(class_folders(tmp_path, ["dog", "cat"], 1))) == [0, 1]


def test_parts_that_the_data_have_are_taken(tmp_path):
    class_folders(tmp_path / "train", ["cat", "dog"], 3)
    class_folders(tmp_path / "val", ["cat", "dog"], 1)
    assert [len(classified_images(tmp_path, part)) for part in ("train", "test", None)] == [6, 2, 2]


def test_data_without_parts_are_divided_and_no_picture_is_in_both(tmp_path):
    class_folders(tmp_path, ["cat", "dog"], 5)
    learned, tested = (classified_images(tmp_path, part) for part in ("train", "test"))
    assert (len(learned), len(tested)) == (8, 2)
    assert {one.path for one in learned.images}.isdisjoint(one.path for one in tested.images)
    assert len(classified_images(tmp_path)) == 10


def test_caltech_256_learns_from_sixty_pictures_per_class_and_leaves_out_clutter(tmp_path):
    class_folders(tmp_path, ["001.ak47", "002.american-flag", "257.clutter"], 1)
    for number in range(64):
        picture(tmp_path / "001.ak47" / f"more{number}.png", number)
    learned, tested = (classified_images(tmp_path, part) for part in ("train", "test"))
    assert learned.layout == "Caltech-256"
    assert classes(learned).count(0) == 60
    assert classes(tested) == [0] * 5
    assert 256 not in classes(classified_images(tmp_path))


def test_cub_has_its_own_lists(tmp_path):
    for number, name in enumerate(("001.a/x.png", "002.b/y.png", "002.b/z.png")):
        picture(tmp_path / "images" / name, number)
    (tmp_path / "images.txt").write_text("1 001.a/x.png\n2 002.b/y.png\n3 002.b/z.png\n")
    (tmp_path / "image_class_labels.txt").write_text("1 1\n2 2\n3 2\n")
    (tmp_path / "train_test_split.txt").write_text("1 1\n2 0\n3 1\n")
    assert classes(classified_images(tmp_path, "train")) == [0, 1]
    tested = classified_images(tmp_path, "test")
    assert (tested.layout, [one.path.name for one in tested.images]) == ("CUB-200", ["y.png"])


def cars(root, name, rows):
    kinds = [("fname", object), ("class", object)]
    table = np.array([[(fname, number) for fname, number in rows]], dtype=kinds)
    (root / "devkit").mkdir(exist_ok=True)
    savemat(root / "devkit" / name, {"annotations": table})


def test_stanford_cars_reads_matlabs_annotations(tmp_path):
    for name in ("cars_train/1.png", "cars_test/2.png"):
        picture(tmp_path / name)
    cars(tmp_path, "cars_train_annos.mat", [("1.png", 3)])
    with pytest.raises(FileNotFoundError, match=r"cars_test_annos_withlabels\.mat"):
        classified_images(tmp_path, "test")
    cars(tmp_path, "cars_test_annos_withlabels.mat", [("2.png", 196)])
    assert classes(classified_images(tmp_path, "train")) == [2]
    assert classes(classified_images(tmp_path, "test")) == [195]


def test_a_list_of_names_and_classes_is_read(tmp_path):
    picture(tmp_path / "val" / "a.png")
    (tmp_path / "val.txt").write_text("a.png 65\n")
    assert classes(classified_images(tmp_path)) == [65]


def test_real_labels_replace_the_classes_and_leave_out_pictures_without(tmp_path):
    data = classified_images(table(tmp_path, [1, 2, 3]))
    path = tmp_path / "real.json"
    path.write_text(json.dumps([[4, 5], [], [3]]))
    found = with_real_labels(data, path)
    assert [one.classes for one in found.images] == [(4, 5), (3,)]
    assert all(one.classes for one in with_real_labels(data).images)  # timm's own


def test_real_labels_may_name_classes_above_those_of_the_pictures(tmp_path):
    data = classified_images(table(tmp_path, [1, 2]))
    (tmp_path / "real.json").write_text(json.dumps([[950], [2]]))
    assert with_real_labels(data, tmp_path / "real.json").classes == 951
    (tmp_path / "real.json").write_text(json.dumps([[], []]))
    with pytest.raises(ValueError, match="got none among the 2 of"):
        with_real_labels(data, tmp_path / "real.json")


def test_pictures_in_the_form_of_caffe_have_their_training_pictures_in_train(tmp_path):
    picture(tmp_path / "val" / "a.png")
    (tmp_path / "val.txt").write_text("a.png 65\n")
    class_folders(tmp_path / "train", ["n01440764", "n03888257"], 2)
    assert classes(classified_images(tmp_path, "train")) == [0, 0, 701, 701]
    assert classes(classified_images(tmp_path, "test")) == [65]
    (tmp_path / "train.txt").write_text("n01440764/1.png 0\n")
    assert classes(classified_images(tmp_path, "train")) == [0]


def test_a_bank_is_whole_and_numbers_plain_folders(tmp_path):
    class_folders(tmp_path / "bank", ["bird", "cat", "dog"], 2)
    class_folders(tmp_path / "tested", ["cat", "dog"], 1)
    bank = classified_images(tmp_path / "bank", "train", divide=False)
    tested = classified_images(tmp_path / "tested", "test", divide=False)
    assert (len(bank), classes(tested)) == (6, [0, 1])
    assert (classes(with_bank(tested, bank)), with_bank(tested, bank).classes) == ([1, 2], 3)
    class_folders(tmp_path / "tested", ["horse"], 1)
    with pytest.raises(ValueError, match="expected the classes of the bank bank, got 'horse' in tested"):
        with_bank(classified_images(tmp_path / "tested"), bank)
    with pytest.raises(ValueError, match="6 of bank are in it"):
        with_bank(bank, bank)


def test_imagenet_v2_and_synsets_have_the_same_numbers(tmp_path):
    class_folders(tmp_path / "train", ["n01440764", "n01443537", "n03888257"], 1)
    class_folders(tmp_path / "v2", ["0", "701"], 1)
    bank = classified_images(tmp_path / "train", "train", divide=False)
    tested = with_bank(classified_images(tmp_path / "v2", "test", divide=False), bank)
    assert (classes(bank), classes(tested)) == ([0, 1, 701], [0, 701])


def test_a_limit_takes_pictures_evenly(tmp_path):
    data = classified_images(table(tmp_path, [0, 1, 2, 3]))
    assert classes(data.limited(2)) == [0, 2]
    assert data.limited(9) is data
    with pytest.raises(ValueError, match="at least 1, got 0"):
        data.limited(0)


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="found none at"):
        classified_images(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="found none of them"):
        classified_images(tmp_path)
    (tmp_path / "cat").mkdir()
    with pytest.raises(FileNotFoundError, match="expected images in"):
        classified_images(tmp_path)
    data = table(tmp_path / "val", [0])
    (data / "images" / "ILSVRC2012_val_00000001.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"'ILSVRC2012_val_00000001.png' that is not there"):
        classified_images(data)
    (data / "labels.csv").write_text("filename,class\na.png,cat\n")
    with pytest.raises(ValueError, match="file name and class number"):
        classified_images(data)
    with pytest.raises(FileNotFoundError, match="as a JSON file"):
        with_real_labels(classified_images(table(tmp_path / "other", [0])), tmp_path / "none.json")
    (tmp_path / "real.json").write_text("[")
    with pytest.raises(ValueError, match=r"take real.json"):
        with_real_labels(classified_images(tmp_path / "other"), tmp_path / "real.json")


def test_real_labels_refuse_pictures_that_are_not_imagenets(tmp_path):
    data = classified_images(class_folders(tmp_path, ["cat"], 1))
    with pytest.raises(ValueError, match="leave them out for other data"):
        with_real_labels(data)


def test_a_part_that_is_missing_beside_another_is_an_error(tmp_path):
    class_folders(tmp_path / "train", ["cat"], 1)
    with pytest.raises(FileNotFoundError, match="expected a folder val/"):
        classified_images(tmp_path, "test")
