"""Whatever an image is called, it has a result that can be found again, or one failed row with the reason."""

import json
import os
import tarfile

import pyarrow
import pyarrow.parquet
import pytest
from corpora import contents, register, rows_in, statuses, write_shard

from pixtree.batch import run
from pixtree.files import write_json

ODD = [
    "line\u2028separator",
    "paragraph\u2029separator",
    "next\u0085line",
    "new\nline",
    "tab\t",
    "quote'\"",
    "ü",
    "名",
    " ",
    "100%",
]
KINDS = ["folder", "webdataset", "parquet"]


@pytest.fixture(autouse=True)
def _stub(monkeypatch):
    register(monkeypatch)


@pytest.mark.parametrize("to", KINDS)
def test_odd_names_are_done_found_again_and_not_done_twice(tmp_path, to):
    (tmp_path / "in").mkdir()
    for name in ODD:
        (tmp_path / "in" / f"{name}.png").write_bytes(name.encode())
    came = run("stub", tmp_path / "in", tmp_path / "made", to=to, workers=1)
    assert (came.done, came.failed) == (len(ODD), 0)
    assert sorted(row["key"] for row in rows_in(tmp_path / "made")) == sorted(ODD)
    assert run("stub", tmp_path / "in", tmp_path / "made", to=to, workers=1).parts_before == 1


@pytest.mark.parametrize("to", KINDS)
def test_names_that_are_not_utf_8_have_results_where_a_name_may_be_any_bytes(tmp_path, to):
    (tmp_path / "in").mkdir()
    key = os.fsdecode(b"caf\xe9")
    for name in (key, "good"):
        (tmp_path / "in" / f"{name}.png").write_bytes(b"1")
    run("stub", tmp_path / "in", tmp_path / "made", to=to, workers=1)
    assert statuses(tmp_path / "made") == {key: "failed" if to == "parquet" else "done", "good": "done"}
    if to == "folder":
        assert (tmp_path / "made" / f"{key}.txt").is_file()
    elif to == "webdataset":
        with tarfile.open(tmp_path / "made" / "part-0.tar", encoding="utf-8") as archive:
            assert sorted(archive.getnames()) == sorted([f"{key}.txt", "good.txt"])
    assert run("stub", tmp_path / "in", tmp_path / "made", to=to, workers=1).parts_before == 1


def test_members_of_shards_whose_names_are_not_utf_8_are_done(tmp_path):
    key = os.fsdecode(b"caf\xe9")
    write_shard(tmp_path / "in" / os.fsdecode(b"sh\xe9.tar"), [(f"{key}.png", b"1")])
    assert run("stub", tmp_path / "in", tmp_path / "made", workers=1).done == 1
    assert statuses(tmp_path / "made") == {key: "done"}


@pytest.mark.parametrize("to", KINDS)
def test_names_that_are_too_long_for_plain_tar_files_are_kept(tmp_path, to):
    key = "/".join(["d" * 120] * 3)
    write_shard(tmp_path / "in" / "x.tar", [(f"{key}.png", b"1"), ("b.png", b"2")])
    assert run("stub", tmp_path / "in", tmp_path / "made", to=to, workers=1).failed == 0
    if to == "webdataset":
        with tarfile.open(tmp_path / "made" / "x.tar") as archive:
            assert archive.getnames() == [f"{key}.txt", "b.txt"]


@pytest.mark.parametrize("key", ["n" * 300, "/".join(["d" * 200] * 30)])
def test_a_name_that_the_file_system_cannot_hold_is_a_row(tmp_path, key):
    write_shard(tmp_path / "in" / "x.tar", [(f"{key}.png", b"1"), ("b.png", b"2")])
    assert run("stub", tmp_path / "in", tmp_path / "made", to="folder", workers=1).done == 1
    assert statuses(tmp_path / "made") == {key: "failed", "b": "done"}
    assert "rename it" in rows_in(tmp_path / "made")[0]["error"]


@pytest.mark.parametrize("order", [1, -1])
def test_a_result_that_would_replace_the_folder_of_others_is_a_row_whoever_comes_first(tmp_path, order):
    members = [("a.jpg", b"1"), ("a.txt/b.jpg", b"2"), ("c.jpg", b"3")][::order]
    write_shard(tmp_path / "in" / "x.tar", members)
    run("stub", tmp_path / "in", tmp_path / "made", to="folder", workers=1)
    assert statuses(tmp_path / "made") == {"a": "failed", "a.txt/b": "done", "c": "done"}
    assert "a folder of other results" in next(row["error"] for row in rows_in(tmp_path / "made") if row["key"] == "a")


def test_one_key_in_two_shards_is_done_once_in_a_folder_and_twice_in_shards(tmp_path):
    for name, members in (("x", [("a.png", b"1"), ("b.png", b"2")]), ("y", [("b.png", b"other"), ("c.png", b"3")])):
        write_shard(tmp_path / "in" / f"{name}.tar", members)
    assert run("stub", tmp_path / "in", tmp_path / "folder", to="folder", workers=1) == (3, 1, 2, 0, True)
    (bad,) = [row for row in rows_in(tmp_path / "folder") if row["status"] == "failed"]
    assert (bad["key"], "an image of an earlier part has the same name" in bad["error"]) == ("b", True)
    run("stub", tmp_path / "in", tmp_path / "first", to="folder", workers=1, shard=(1, 2))  # the order of work does not matter
    run("stub", tmp_path / "in", tmp_path / "first", to="folder", workers=1, shard=(0, 2))
    assert contents(tmp_path / "first") == contents(tmp_path / "folder")
    assert run("stub", tmp_path / "in", tmp_path / "shards", workers=1) == (4, 0, 2, 0, True)


@pytest.mark.parametrize("size", [1, 64])
def test_of_files_that_differ_in_their_suffix_only_the_first_is_done_and_the_others_are_rows(tmp_path, monkeypatch, size):
    monkeypatch.setattr("pixtree.batch.corpus.PART_SIZE", size)
    source = tmp_path / "in"
    source.mkdir()
    for number, name in enumerate(("a.jpg", "a.png", "a.tif", "b.png")):
        (source / name).write_bytes(bytes([number]))
    run("stub", source, tmp_path / "made", workers=1)
    assert statuses(tmp_path / "made") == {"a": "done", "a.png": "failed", "a.tif": "failed", "b": "done"}
    (source / "a.jpg").unlink()  # now the next one gives its name to the result
    run("stub", source, tmp_path / "made", workers=1)
    run("stub", source, tmp_path / "fresh", workers=1)
    assert statuses(tmp_path / "made") == {"a": "done", "a.tif": "failed", "b": "done"}
    assert (tmp_path / "made" / "a.txt").read_bytes() == (tmp_path / "fresh" / "a.txt").read_bytes()


def test_names_of_temporary_files_are_not_swept(tmp_path):
    write_shard(tmp_path / "in" / "x.tar", [(".pixtree-0123abcd.png", b"1"), ("manifest/parts/.pixtree-0123abcd.png", b"2")])
    run("stub", tmp_path / "in", tmp_path / "made", to="folder", workers=1)
    assert (tmp_path / "made" / ".pixtree-0123abcd.txt").is_file()
    assert statuses(tmp_path / "made") == {".pixtree-0123abcd": "done", "manifest/parts/.pixtree-0123abcd": "failed"}


@pytest.mark.parametrize("name", ["manifest.jsonl", "plan.json", "lock", "x", "../Manifest/parts/y"])
def test_images_in_the_folder_of_the_run_are_rows_and_do_not_end_it(tmp_path, name):
    write_shard(tmp_path / "in" / "x.tar", [(f"manifest/{name}/a.png", b"1"), ("manifest.png", b"2")])
    for _ in range(2):
        came = run("stub", tmp_path / "in", tmp_path / "made", to="folder", workers=1)
        assert (came.done, came.failed, came.whole) == (1, 1, True)


def test_shards_whose_paths_give_one_name_are_two_parts(tmp_path):
    write_shard(tmp_path / "in" / "a" / "b.tar", [("x.png", b"1")])
    write_shard(tmp_path / "in" / "a__b.tar", [("y.png", b"2")])
    assert run("stub", tmp_path / "in", tmp_path / "made", workers=1) == (2, 0, 2, 0, True)
    assert len(list((tmp_path / "made").glob("*.tar"))) == 2


@pytest.mark.parametrize("name", ["/", ".", "..", "", "a/..", "./"])
def test_names_that_name_nothing_are_rows(tmp_path, name):
    (tmp_path / "in").mkdir()
    pyarrow.parquet.write_table(pyarrow.table({"image": [b"1", b"2"], "key": [name, "good"]}), tmp_path / "in" / "x.parquet")
    came = run("stub", tmp_path / "in", tmp_path / "made", to="folder", workers=1)
    assert came.done + came.failed == 2
    assert statuses(tmp_path / "made")["good"] == "done"


def test_json_gives_back_names_that_are_not_utf_8(tmp_path):
    name = os.fsdecode(b"\xff\xe9 \xc3\xbc")
    write_json(tmp_path / "x.json", {"name": name})
    assert json.loads((tmp_path / "x.json").read_bytes()) == {"name": name}


def test_a_folder_whose_name_is_that_of_a_result_is_kept_in_a_folder_of_images_too(tmp_path):
    (tmp_path / "in" / "a.txt").mkdir(parents=True)
    for name in ("a.jpg", "a.txt/b.jpg"):
        (tmp_path / "in" / name).write_bytes(b"1")
    run("stub", tmp_path / "in", tmp_path / "made", workers=1)
    assert statuses(tmp_path / "made") == {"a": "failed", "a.txt/b": "done"}
