"""Results never replace images of the source, and never become part of it, whatever links there are."""

import os

import pytest
from corpora import contents, register, write_shard

from pixtree.batch import run


@pytest.fixture
def photos(tmp_path, monkeypatch):
    register(monkeypatch, suffix=".png")
    (tmp_path / "photos" / "old").mkdir(parents=True)
    for name in ("a.png", "b.png", "old/c.png"):
        (tmp_path / "photos" / name).write_bytes(name.encode())
    return tmp_path / "photos"


@pytest.mark.parametrize("place", [".", "old", "new", "old/../new", "../photos", ".."])
def test_a_destination_that_overlaps_the_source_is_refused_before_any_work(photos, place):
    before = contents(photos.parent)
    with pytest.raises(ValueError, match=r"^results need a folder outside of the source, .*; choose another one$"):
        run("stub", photos, photos / place, workers=1)
    assert contents(photos.parent) == before
    assert not (photos / "new").exists()


def test_links_to_the_source_are_refused(photos, tmp_path):
    (tmp_path / "link").symlink_to(photos)
    with pytest.raises(ValueError, match="outside of the source"):
        run("stub", photos, tmp_path / "link", workers=1)
    with pytest.raises(ValueError, match="outside of the source"):
        run("stub", tmp_path / "link", photos / "made", workers=1)
    assert sorted(contents(photos)) == ["a.png", "b.png", "old/c.png"]


@pytest.mark.parametrize("inside", ["old", "a.png"])
def test_links_inside_the_destination_that_lead_to_the_source_are_refused(photos, tmp_path, inside):
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / inside).symlink_to(photos / inside)
    with pytest.raises(ValueError, match=r"the link .* leads there; remove it"):
        run("stub", photos, tmp_path / "made", workers=1)
    assert (photos / "a.png").read_bytes() == b"a.png"


def test_images_that_are_links_into_the_destination_are_refused(photos, tmp_path):
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "z.png").write_bytes(b"result")
    (photos / "z.png").symlink_to(tmp_path / "made" / "z.png")
    with pytest.raises(ValueError, match=r"'z\.png' of the source is a link into"):
        run("stub", photos, tmp_path / "made", workers=1)


def test_a_shard_is_not_replaced_by_its_results(tmp_path, monkeypatch):
    register(monkeypatch)
    shard = write_shard(tmp_path / "in" / "x.tar", [("a.png", b"1")])
    before = shard.read_bytes()
    with pytest.raises(ValueError, match="contains"):
        run("stub", shard, tmp_path / "in", workers=1)
    assert shard.read_bytes() == before
    assert run("stub", shard, tmp_path / "in" / "made", workers=1).done == 1  # a folder next to a single file is none of its parts


@pytest.mark.parametrize("name", ["lock", "plan.json", "manifest.jsonl", "parts/part-0.at", "parts/part-0.json"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_links_and_pipes_among_the_files_of_a_run_are_refused(photos, tmp_path, name, kind):
    own, mine = tmp_path / "made" / "manifest" / name, tmp_path / "mine.txt"
    own.parent.mkdir(parents=True)
    mine.write_text("precious")
    own.symlink_to(mine) if kind == "link" else os.mkfifo(own)
    with pytest.raises(ValueError, match="is a link or a device; remove it"):
        run("stub", photos, tmp_path / "made", workers=1)
    assert mine.read_text() == "precious"
