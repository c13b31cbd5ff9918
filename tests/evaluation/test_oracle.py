"""The oracle of partitions: what no model without a decoder can do better."""

import json

import numpy as np
import pytest
from commands import invoke
from evidence.segmentations import plot_segmenters
from PIL import Image

import pixtree
from pixtree.cli.main import app
from pixtree.evaluation.label_maps import IGNORED, labelled_set
from pixtree.evaluation.segmentation_measures import coarse_oracle, majority, oracle
from pixtree.models.timm_import import timm


def test_every_region_takes_the_class_of_most_counted_pixels():
    regions = np.array([[0, 0, 0, 1, 1, 2]])
    truth = np.array([[2, 1, 1, IGNORED, 0, IGNORED]])
    assert majority(regions, truth, 3).tolist() == [[1, 1, 1, 0, 0, 0]]
    assert majority(np.array([[0, 0]]), np.array([[2, 1]]), 3).tolist() == [[1, 1]]  # the first of equals


@pytest.fixture
def folder(tmp_path):
    """A picture of two halves whose border no square patch follows."""
    labels = np.zeros((48, 60), np.uint8)
    labels[:, 37:] = 1
    for part in ("images", "labels"):
        (tmp_path / part / "val").mkdir(parents=True)
    Image.fromarray(labels).save(tmp_path / "labels" / "val" / "a.png")
    Image.fromarray(np.where(labels[..., None], (200, 30, 30), (20, 60, 160)).astype(np.uint8)).save(
        tmp_path / "images" / "val" / "a.png"
    )
    return tmp_path


def test_regions_that_follow_the_contour_reach_what_patches_cannot(folder):
    data = labelled_set(folder, "camvid")
    rows = {row["method"]: row for row in list(oracle(data.images, 2, ["pixtree", "grid"], [4]))[-1]}
    assert rows["pixtree"]["miou"] == rows["pixtree"]["boundary_f"] == 1.0
    assert rows["grid"]["miou"] < 0.9
    assert rows["grid"]["regions"] == 4


def test_the_command_writes_a_record_and_a_plot(folder, tmp_path):
    words = ["--tokens", "4,9", "--methods", "pixtree,grid", "-o", tmp_path / "r.json", "--plot", tmp_path / "p.png"]
    done = invoke(app, ["evaluate", "oracle", *map(str, [folder, *words])])
    assert done.exit_code == 0, done.stderr
    assert len(json.loads((tmp_path / "r.json").read_text())["rows"]) == 4
    assert Image.open(tmp_path / "p.png").size[0] > 500


def test_wrong_names_are_one_sentence(folder):
    for words in (["--methods", "magic"], ["--layout", "magic"], ["--tokens", "many"]):
        done = invoke(app, ["evaluate", "oracle", str(folder), *words])
        assert (done.exit_code, done.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize("rule", ["tree", "tome"])
def test_nested_partitions_of_merging_tokens_allow_less_from_block_to_block(folder, rule):
    vit = timm.create_model("vit_tiny_patch16_224", embed_dim=48, depth=4, num_heads=3, num_classes=0, img_size=(48, 64)).eval()
    model = pixtree.coarsen(vit, schedule=[12, 9, 6, 3], rule=rule)
    rows = list(coarse_oracle(labelled_set(folder, "camvid").images, 2, model, (48, 64)))[-1]
    assert [(row["block"], row["regions"]) for row in rows] == [(1, 12.0), (2, 9.0), (3, 6.0), (4, 3.0)]
    assert [row["boundary_f"] is None for row in rows] == [True, True, True, False]
    falling = [row["accuracy"] for row in rows]
    assert falling == sorted(falling, reverse=True)
    assert falling[0] == pytest.approx(1 - 7 / 60)  # of the cells at 30 to 45 px, 7 columns lie left of the border


def test_curves_of_segmenters_are_plotted(tmp_path):
    runs = [{"way": "a", "steps": 40, "losses": [2.0, 1.0 + seed], "tested": [[20, 0.2], [40, 0.4 + seed / 10]]} for seed in (0, 1)]
    plot_segmenters(runs, {"a": "regions", "b": "nobody ran"}, tmp_path / "c.png")
    assert Image.open(tmp_path / "c.png").size[0] > 900
