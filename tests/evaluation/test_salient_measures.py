"""Measures of salient objects, and the table of ways to tokens."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pixtree.evaluation.label_maps import labelled_set
from pixtree.evaluation.salient_measures import Way, f_max, measured, overlap, precision_and_recall, summary

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
from tiny_models import tiny

WANTED = np.array([[True, True, False, False]])


def test_overlap_counts_the_pixels_that_count():
    found = np.array([[True, False, True, False]])
    assert overlap(found, WANTED) == 1 / 3
    assert overlap(found, WANTED, np.array([[True, True, False, False]])) == 1 / 2
    assert overlap(~found & found, ~WANTED & WANTED) == 1.0


def test_precision_and_recall_are_those_of_every_threshold():
    soft = np.array([[0.9, 0.4, 0.6, 0.0]])
    precision, recall = precision_and_recall(soft, WANTED)
    for step in (0, 50, 102, 120, 153, 200, 250):
        above = soft > step / 255
        assert precision[step] == pytest.approx((above & WANTED).sum() / max(above.sum(), 1) if above.any() else 1.0)
        assert recall[step] == pytest.approx((above & WANTED).sum() / 2)


def test_f_max_is_that_of_the_best_threshold_of_the_mean_curves():
    curve = precision_and_recall(np.array([[0.9, 0.4, 0.6, 0.0]]), WANTED)
    at_all, at_best = 1.3 * (2 / 3) * 1 / (0.3 * 2 / 3 + 1), 1.3 * 1 * 0.5 / (0.3 * 1 + 0.5)
    assert f_max([curve]) == pytest.approx(max(at_all, at_best))
    perfect = precision_and_recall(WANTED.astype(float), WANTED)
    assert f_max([perfect]) == 1.0
    assert f_max([curve, perfect]) > f_max([curve])


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        for part in ("images", "masks"):
            (tmp_path / part).mkdir(exist_ok=True)
        mask = np.zeros((40, 60), np.uint8)
        mask[10:30, 20:45] = 255
        photo = np.where(mask[..., None] > 0, (200, 40, 40), (60, 140, 60)) + rng.integers(-6, 7, (40, 60, 3))
        Image.fromarray(photo.astype(np.uint8)).save(tmp_path / "images" / f"{name}.png")
        Image.fromarray(mask).save(tmp_path / "masks" / f"{name}.png")
    return tmp_path


def test_every_way_has_a_row_with_means_over_photos(folder):
    model = tiny("vit_tiny_patch16_224", depth=5)
    ways = [Way("patches", None), Way("patches, snapped", None, "snap"), Way("20 regions", 20)]
    found = [one for photo in labelled_set(folder, "salient").images for one in measured(photo, model, ways, size=64)]
    rows = {row["way"]: row for row in summary(found)}
    assert list(rows) == [way.name for way in ways]
    assert rows["patches"]["photos"] == 2
    assert rows["patches"]["iou"] == pytest.approx(np.mean([one.iou for one in found if one.way == "patches"]))
    assert {"right_border", "right_occlusion"} <= rows["20 regions"].keys()
    assert "right_border" not in rows["patches, snapped"]
    assert all(0 <= row[key] <= 1 for row in rows.values() for key in ("iou", "accuracy", "f_max"))
