"""A run over a corpus: every image is accounted for, whatever it is stored in, and the same call goes on."""

import io
import json
import tarfile

import numpy as np
import pytest
from corpora import SIDE, contents, folder_of, picture, shards_of, table_of
from PIL import Image

import pixtree
from pixtree.batch import Partitioned, open_corpus, run


def rows_of(destination):
    return [json.loads(line) for line in (destination / "manifest" / "manifest.jsonl").read_text().splitlines()]


def labels_in(data):
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image)


def test_a_folder_becomes_a_folder_of_the_librarys_own_labels(tmp_path):
    photos, labels = folder_of(tmp_path / "photos", 7), tmp_path / "labels"
    came = run("segment", photos, labels, workers=1, tokens=5)
    assert (came.done, came.failed, came.whole) == (7, 0, True)
    for number in range(7):
        found = labels_in((labels / f"class_{number % 3}" / f"{number:04d}.png").read_bytes())
        np.testing.assert_array_equal(found, pixtree.segment(photos / f"class_{number % 3}" / f"{number:04d}.png", tokens=5))
    assert sorted(row["key"] for row in rows_of(labels)) == [
        path.relative_to(photos).with_suffix("").as_posix() for path in sorted(photos.rglob("*.png"))
    ]


def test_shards_become_shards_with_the_same_keys(tmp_path):
    shards, labels = shards_of(tmp_path / "shards", 2, 3), tmp_path / "labels"
    assert run("segment", shards, labels, workers=1, tokens=4).done == 6
    with tarfile.open(labels / "photos-001.tar") as archive:
        assert archive.getnames() == ["001000.png", "001001.png", "001002.png"]
        first = archive.extractfile("001000.png").read()
    image = np.asarray(Image.open(io.BytesIO(picture(3))))
    np.testing.assert_array_equal(labels_in(first), pixtree.segment(image, tokens=4))


def test_parquet_files_become_parquet_files(tmp_path):
    import pyarrow.parquet

    assert run("segment", table_of(tmp_path / "table", 5), tmp_path / "labels", workers=1, tokens=4, format="npz").done == 5
    found = pyarrow.parquet.read_table(tmp_path / "labels" / "train-0.parquet").to_pylist()
    assert [row["key"] for row in found] == [f"{number:03d}" for number in range(5)]
    with np.load(io.BytesIO(found[2]["npz"])) as stored:
        assert int(stored["counts"][0]) == 4


@pytest.mark.parametrize("to", ["folder", "webdataset", "parquet"])
def test_results_go_where_they_are_asked_to(tmp_path, to):
    made = tmp_path / "made"
    assert run("vectorize", shards_of(tmp_path / "shards", 1, 2), made, to=to, workers=1, paths=3).done == 2
    expected = {"folder": "000001.svg", "webdataset": "photos-000.tar", "parquet": "photos-000.parquet"}[to]
    assert (made / expected).is_file()


def test_tokens_have_all_that_a_model_needs(tmp_path):
    made = tmp_path / "made"
    run("tokenize", folder_of(tmp_path / "photos", 1), made, workers=1, tokens=6)
    with np.load(made / "class_0" / "0000.npz", allow_pickle=False) as stored:
        assert stored["samples"].shape == (6, 3, 16, 16)
        assert stored["features"].shape == (6, 8)
        assert stored["boxes"].shape == (6, 4)
        assert stored["areas"].sum() == 24 * 24
        assert int(stored["labels"].max()) == 5


def test_a_bad_picture_is_a_row_and_the_rest_goes_on(tmp_path):
    photos = folder_of(tmp_path / "photos", 4)
    (photos / "class_1" / "torn.png").write_bytes(picture(9)[:60])
    came = run("segment", photos, tmp_path / "labels", workers=1, tokens=4)
    assert (came.done, came.failed) == (4, 1)
    (bad,) = [row for row in rows_of(tmp_path / "labels") if row["status"] == "failed"]
    assert bad["key"] == "class_1/torn"
    assert "class_1/torn.png" in bad["error"]
    assert "/tmp" not in bad["error"].replace(str(tmp_path), "")


def test_pictures_above_the_limit_are_rows_unless_more_pixels_are_allowed(tmp_path, monkeypatch):
    photos = folder_of(tmp_path / "photos", 2)
    Image.new("L", (60, 60)).save(photos / "big.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    came = run("segment", photos, tmp_path / "refused", workers=1, tokens=4)
    assert (came.done, came.failed) == (2, 1)
    allowed = run("segment", photos, tmp_path / "allowed", workers=1, tokens=4, max_pixels=3600)
    assert (allowed.done, allowed.failed) == (3, 0)
    assert Image.MAX_IMAGE_PIXELS == 1000
    with pytest.raises(ValueError, match="was begun with options"):
        run("segment", photos, tmp_path / "allowed", workers=1, tokens=4)


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """The results of one and of two processes, for two parts of small images and of some that are larger than the limit."""
    folder = tmp_path_factory.mktemp("processes")
    photos = folder_of(folder / "photos", 90)
    (photos / "large").mkdir()
    for number in range(10):
        (photos / "large" / f"{number}.png").write_bytes(picture(number, side=2 * SIDE))
    parts = open_corpus(photos).parts
    assert len(parts) == 2
    assert all(any(name.startswith("large/") for name in part.files) for part in parts)
    for workers in (1, 2):
        came = run("segment", photos, folder / str(workers), workers=workers, tokens=4, max_pixels=SIDE**2)
        assert (came.done, came.failed) == (90, 10)
    return folder / "1", folder / "2"


def test_the_limit_of_pixels_reaches_all_processes(processes):
    _, two = processes
    failed = [row for row in rows_of(two) if row["status"] == "failed"]
    assert sorted(row["key"] for row in failed) == [f"large/{number}" for number in range(10)]
    assert all(f"at most {2 * SIDE**2} pixels" in row["error"] for row in failed)


def test_many_processes_make_the_bytes_of_one(processes):
    one, two = processes
    assert contents(one) == contents(two)


def test_a_finished_run_does_nothing_and_added_pictures_are_done(tmp_path):
    photos, labels = folder_of(tmp_path / "photos", 4), tmp_path / "labels"
    run("segment", photos, labels, workers=1, tokens=4)
    before = {path: path.stat().st_mtime_ns for path in labels.rglob("*.png")}
    assert run("segment", photos, labels, workers=1, tokens=4).parts_before == 1
    assert {path: path.stat().st_mtime_ns for path in labels.rglob("*.png")} == before
    (photos / "new.png").write_bytes(picture(77))
    assert run("segment", photos, labels, workers=1, tokens=4).done == 5


def test_shards_of_a_scheduler_make_the_whole(tmp_path):
    photos, labels, whole = shards_of(tmp_path / "shards", 4, 2), tmp_path / "labels", tmp_path / "whole"
    assert not run("segment", photos, labels, workers=1, shard=(0, 2), tokens=4).whole
    assert run("segment", photos, labels, workers=1, shard=(1, 2), tokens=4).whole
    run("segment", photos, whole, workers=1, tokens=4)
    assert contents(labels) == contents(whole)


def test_other_settings_for_a_run_that_was_begun_are_refused(tmp_path):
    photos = folder_of(tmp_path / "photos", 2)
    run("segment", photos, tmp_path / "labels", workers=1, tokens=4)
    with pytest.raises(ValueError, match=r"was begun with options .*choose another folder"):
        run("segment", photos, tmp_path / "labels", workers=1, tokens=5)


def test_names_that_leave_the_folder_are_refused(tmp_path):
    (tmp_path / "shards").mkdir()
    with tarfile.open(tmp_path / "shards" / "bad.tar", "w") as archive:
        for name in ("../outside.png", "/root.png", "good.png"):
            member = tarfile.TarInfo(name)
            member.size = len(picture(1))
            archive.addfile(member, io.BytesIO(picture(1)))
    came = run("segment", tmp_path / "shards", tmp_path / "made", to="folder", workers=1, tokens=4)
    assert (came.done, came.failed) == (1, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "shards"]
    errors = [row["error"] for row in rows_of(tmp_path / "made") if row["status"] == "failed"]
    assert all(error.startswith("an image's name must stay below its folder") for error in errors)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"task": "paint"}, "a task is one of segment, tokenize, vectorize, got 'paint'"),
        ({"colour": 3}, "segment has the options"),
        ({"engine": "steam"}, "an engine is one of pool, ray"),
        ({"to": "paper"}, "results go to one of folder, webdataset, parquet"),
        ({"shard": (2, 2)}, "a shard is i of n"),
    ],
)
def test_mistakes_are_one_sentence_before_any_output(tmp_path, change, words):
    photos = folder_of(tmp_path / "photos", 1)
    with pytest.raises(ValueError, match=words):
        run(**{"task": "segment", "source": photos, "destination": tmp_path / "made", "workers": 1, **change})
    assert not (tmp_path / "made").exists()


def test_sources_that_are_no_corpus_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        open_corpus(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="needs images"):
        open_corpus(tmp_path)
    (tmp_path / "a.png").write_bytes(picture(1))
    (tmp_path / "old.tar").touch()
    with pytest.raises(ValueError, match=r"has images \('a.png'\) and webdataset files \('old.tar'\); move one kind elsewhere"):
        open_corpus(tmp_path)


def test_partitions_are_a_dataset_for_training(tmp_path):
    photos = folder_of(tmp_path / "photos", 3)
    with pytest.raises(FileNotFoundError, match="run pixtree batch segment first"):
        Partitioned(photos, tmp_path)
    run("segment", photos, tmp_path / "labels", workers=1, tokens=4)
    data = Partitioned(photos, tmp_path / "labels")
    image, labels = data[0]
    assert len(data) == 3
    assert image.shape == (3, 24, 24)
    np.testing.assert_array_equal(labels.numpy(), pixtree.segment(image, tokens=4).numpy())
