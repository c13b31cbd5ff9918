"""Reading folders in the layout of BSDS500."""

import numpy as np
import pytest
from PIL import Image

from pixtree.evaluation.annotated_photos import annotated_photos


def write_photo(root, name, segmentations, split="val"):
    for folder in ("images", "groundTruth"):
        (root / folder / split).mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((4, 6, 3), 99, np.uint8)).save(root / "images" / split / f"{name}.jpg")
    for index, segmentation in enumerate(segmentations):
        Image.fromarray(segmentation).save(root / "groundTruth" / split / f"{name}_{index}.png")


HALVES = np.repeat(np.array([[1, 1, 1, 2, 2, 2]], np.uint8), 4, axis=0)


def test_a_photo_comes_with_all_its_annotators_in_order(tmp_path):
    write_photo(tmp_path, "a", [np.full((4, 6), k, np.uint8) for k in range(11)])
    write_photo(tmp_path, "a_1", [HALVES])
    first, second = annotated_photos(tmp_path)
    assert first.pixels().shape == (4, 6, 3)
    assert [labels[0, 0] for labels in first.segmentations()] == list(range(11))
    assert second.name == "a_1"
    assert (second.segmentations()[0] == HALVES).all()


def test_official_matlab_files_are_read(tmp_path):
    scipy_io = pytest.importorskip("scipy.io")
    write_photo(tmp_path, "a", [])
    cells = np.empty((1, 2), object)
    for index in range(2):
        cells[0, index] = {"Segmentation": (HALVES + index).astype(np.uint16), "Boundaries": HALVES}
    scipy_io.savemat(tmp_path / "groundTruth" / "val" / "a.mat", {"groundTruth": cells})
    maps = annotated_photos(tmp_path)[0].segmentations()
    assert len(maps) == 2
    assert (maps[1] == HALVES + 1).all()


def test_a_limit_takes_photos_evenly_spaced_over_the_names(tmp_path):
    for name in "abcdefgh":
        write_photo(tmp_path, name, [HALVES])
    assert [photo.name for photo in annotated_photos(tmp_path, limit=4)] == ["a", "c", "e", "g"]
    assert [photo.name for photo in annotated_photos(tmp_path, limit=99)] == list("abcdefgh")


def test_the_environment_names_the_folder_when_no_argument_does(tmp_path, monkeypatch):
    write_photo(tmp_path / "bsds500", "a", [HALVES])
    monkeypatch.setenv("PIXTREE_DATA", str(tmp_path))
    assert annotated_photos()[0].name == "a"
    monkeypatch.delenv("PIXTREE_DATA")
    with pytest.raises(FileNotFoundError, match="PIXTREE_DATA"):
        annotated_photos()


def test_missing_folders_splits_photos_and_annotators_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere"):
        annotated_photos(tmp_path / "nowhere")
    write_photo(tmp_path, "a", [])
    with pytest.raises(FileNotFoundError, match=r"no folder .*test"):
        annotated_photos(tmp_path, split="test")
    with pytest.raises(FileNotFoundError, match="photo a has no annotators"):
        annotated_photos(tmp_path)
    (tmp_path / "images" / "val" / "a.jpg").unlink()
    with pytest.raises(FileNotFoundError, match="found none"):
        annotated_photos(tmp_path)
    with pytest.raises(ValueError, match="at least 1"):
        annotated_photos(tmp_path, limit=0)
