"""Methods side by side, from photos to records and pictures."""

import csv
import json
import os
import sys
from dataclasses import replace

import numpy as np
import pytest
from forked import PROCESSES
from PIL import Image
from skimage import data

from pixtree.evaluation import superpixel_comparison
from pixtree.evaluation.annotated_photos import annotated_photos
from pixtree.evaluation.plots import plot_superpixels
from pixtree.evaluation.records import provenance, write_record, write_table
from pixtree.evaluation.superpixel_comparison import METHODS, Sample, compare_superpixels, differences, measure_photo, rows
from pixtree.evaluation.superpixels import MEASURES


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    for part in ("images", "groundTruth"):
        (root / part / "val").mkdir(parents=True)
    for name, array in (("astronaut", data.astronaut()), ("coffee", data.coffee())):
        small = np.ascontiguousarray(array[:256:4, :384:4])
        Image.fromarray(small).save(root / "images" / "val" / f"{name}.png")
        truth = (small.mean(-1) // 64).astype(np.uint8)
        for annotator in range(2):
            Image.fromarray(truth + annotator).save(root / "groundTruth" / "val" / f"{name}_{annotator}.png")
    return root


@pytest.fixture(scope="module")
def found(folder):
    names = ("grid", "pixtree", "pixtree-nested", "quadtree")
    return rows([sample for some in compare_superpixels(annotated_photos(folder), names, (12, 48)) for sample in some])


def test_there_is_a_row_per_method_and_count_with_every_measure(found):
    assert [(row["method"], row["tokens"]) for row in found] == [
        (name, count) for name in ("pixtree", "pixtree-nested", "grid", "quadtree") for count in (12, 48)
    ]
    for row in found:
        assert row["photos"] == 2
        assert all(row[measure.key] >= 0 and row[f"{measure.key}_se"] >= 0 for measure in MEASURES)
        assert row["seconds"] >= 0


def test_exact_methods_have_the_count_asked_for(found):
    assert all(row["segments"] == row["pieces"] == row["tokens"] for row in found if row["method"] != "grid")


def test_more_regions_follow_people_better(found):
    by_method = {(row["method"], row["tokens"]): row for row in found}
    for name in ("pixtree", "grid"):
        assert by_method[name, 48]["achievable_accuracy"] > by_method[name, 12]["achievable_accuracy"]
    assert by_method["pixtree", 48]["achievable_accuracy"] > by_method["grid", 48]["achievable_accuracy"]


def sample(photo, value, seconds):
    found = {measure.key: value for measure in MEASURES} | {"squared_error": value / 100}
    return Sample("grid", 9, photo, 10 + round(value), 12, seconds, found)


def test_rows_hold_means_standard_errors_and_median_seconds():
    (row,) = rows([sample("a", 1.0, 0.1), sample("b", 3.0, 0.2), sample("c", 2.0, 9.0)])
    assert row["segments"] == 12
    assert row["pieces"] == 12
    assert row["boundary_recall"] == 2
    assert row["boundary_recall_se"] == pytest.approx(1 / np.sqrt(3))
    assert row["seconds"] == 0.2
    assert row["psnr_of_mean_error"] == pytest.approx(-10 * np.log10(0.02))


def test_differences_are_paired_by_photo():
    others = [sample("a", 1.0, 0.1), sample("b", 3.0, 0.2), sample("c", 2.0, 9.0)]
    ours = [replace(one, method="pixtree", scores={key: 2 * value for key, value in one.scores.items()}) for one in others]
    (row,) = differences([*reversed(ours), *others], "pixtree")
    assert (row["method"], row["tokens"], row["photos"]) == ("grid", 9, 3)
    assert row["boundary_recall"] == -2
    assert row["boundary_recall_se"] == pytest.approx(1 / np.sqrt(3))
    assert differences([*ours, *others], "grid")[0]["boundary_recall"] == 2


def test_one_photo_has_no_standard_error():
    assert rows([sample("a", 1.0, 0.1)])[0]["psnr_se"] is None


def test_unknown_methods_and_counts_show_before_any_work(folder):
    photos = annotated_photos(folder)
    with pytest.raises(ValueError, match="choose from pixtree, pixtree-nested"):
        next(compare_superpixels(photos, ["pixtree", "magic"], [10]))
    with pytest.raises(ValueError, match="at least 1 region"):
        next(compare_superpixels(photos, ["pixtree"], [0]))
    with pytest.raises(ValueError, match="at least 1 worker"):
        next(compare_superpixels(photos, ["pixtree"], [10], workers=0))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_be_measured(folder, name):
    (sample,) = measure_photo(annotated_photos(folder)[0], [name], 12)
    assert sample.method == name
    assert 0 < sample.scores["boundary_recall"] <= 1
    assert 1 <= sample.segments <= sample.pieces


@pytest.mark.slow
def test_workers_find_what_one_process_finds(folder):
    photos = annotated_photos(folder)
    alone, together = (
        rows([sample for some in compare_superpixels(photos, ["grid", "quadtree"], [12], workers) for sample in some])
        for workers in (1, 2)
    )
    assert [{**row, "seconds": 0} for row in alone] == [{**row, "seconds": 0} for row in together]


def test_a_missing_extra_is_one_error_also_with_workers(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage.segmentation", None)
    with pytest.raises(ImportError, match=r"pip install 'pixtree\[evaluate\]'"):
        next(compare_superpixels(annotated_photos(folder), ["slic"], [12], workers=2))


def end_at_once(*_):
    os._exit(1)


def test_a_worker_that_dies_is_one_error(folder, monkeypatch):
    monkeypatch.setattr(superpixel_comparison, "measure_photo", end_at_once)
    monkeypatch.setattr(superpixel_comparison, "get_context", lambda method: PROCESSES)  # which start in no time
    with pytest.raises(MemoryError, match="got one that died, often because memory ran out; use fewer workers"):
        next(compare_superpixels(annotated_photos(folder), ["grid"], [12], workers=2))


def test_records_tables_and_plots_are_written(found, tmp_path):
    record = {"benchmark": "superpixels", **provenance("pixtree evaluate"), "rows": found, "endless": [float("inf")]}
    write_record(record, tmp_path / "r.json")
    write_table(found, tmp_path / "r.csv")
    plot_superpixels(found, tmp_path / "r.png")
    read = json.loads((tmp_path / "r.json").read_text())
    assert read["rows"] == found
    assert read["endless"] == [None]
    assert set(read["machine"]) == {"cpu", "cores", "platform"}
    assert read["versions"]["numpy"] == np.__version__
    with (tmp_path / "r.csv").open() as stream:
        assert [row["method"] for row in csv.DictReader(stream)] == [row["method"] for row in found]
    assert Image.open(tmp_path / "r.png").size[0] > 1000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.csv", "r.json", "r.png"]
