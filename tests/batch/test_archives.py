"""Archives from elsewhere: names that leave the folder, links and devices write nothing outside, and read nothing outside."""

import io
import json
import tarfile

import pyarrow
import pyarrow.parquet
import pytest
from corpora import picture

from pixtree.batch import run
from pixtree.batch.naming import checked_key

OUTSIDE = [
    *("../outside.png", "a/../../outside.png", "/outside.png", "//outside.png", "..\\outside.png", "C:\\outside.png"),
    *("C:outside.png", "c:/outside.png", "a\0b.png"),
]


def shard_of(path, members):
    """A tar file of TarInfo objects, each a picture where it is a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for member in members:
            data = picture(1) if member.isfile() else b""
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def kind_of(name, kind, target=""):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def rows_of(destination):
    return [json.loads(line) for line in (destination / "manifest" / "manifest.jsonl").read_text().splitlines()]


def everything(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_key_names_a_place_below_the_destination(name):
    with pytest.raises(ValueError, match="must stay below its folder"):
        checked_key(name)


@pytest.mark.parametrize("to", ["folder", "webdataset", "parquet"])
def test_members_of_shards_that_leave_the_folder_are_rows_and_no_files(tmp_path, to):
    names = [name for name in OUTSIDE if "\0" not in name]  # tar files end names there
    shard = shard_of(tmp_path / "in" / "bad.tar", [*(tarfile.TarInfo(name) for name in names), tarfile.TarInfo("good.png")])
    before = everything(tmp_path)
    came = run("segment", shard, tmp_path / "made", to=to, workers=1, tokens=3)
    assert (came.done, came.failed) == (1, len(names))
    outside = [path for path in everything(tmp_path) if path not in before and not path.startswith("made")]
    assert outside == []
    assert [row["key"] for row in rows_of(tmp_path / "made") if row["status"] == "done"] == ["good"]
    if to == "webdataset":
        with tarfile.open(tmp_path / "made" / "bad.tar") as archive:
            assert archive.getnames() == ["good.png"]


def test_links_and_devices_of_shards_are_not_followed(tmp_path):
    secret = tmp_path / "secret.png"
    secret.write_bytes(picture(2))
    members = [
        kind_of("soft.png", tarfile.SYMTYPE, str(secret)),
        kind_of("hard.png", tarfile.LNKTYPE, str(secret)),
        kind_of("up.png", tarfile.SYMTYPE, "../secret.png"),
        kind_of("folder", tarfile.SYMTYPE, str(tmp_path)),
        kind_of("device.png", tarfile.CHRTYPE),
        kind_of("pipe.png", tarfile.FIFOTYPE),
        tarfile.TarInfo("folder/through.png"),  # would go through the link, if anything were unpacked
    ]
    came = run("segment", shard_of(tmp_path / "in" / "links.tar", members), tmp_path / "made", to="folder", workers=1, tokens=3)
    assert (came.done, came.failed) == (1, 0)
    assert not (tmp_path / "through.png").exists()
    assert not any(path.is_symlink() for path in (tmp_path / "made").rglob("*"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "made", "secret.png"]


@pytest.mark.parametrize("column", ["key", "path", "image"])
def test_keys_of_parquet_files_that_leave_the_folder_are_rows_and_no_files(tmp_path, column):
    names = [*OUTSIDE, "good.png"]
    if column == "image":
        rows = [{"image": {"bytes": picture(1), "path": name}} for name in names]
    else:
        rows = [{"image": picture(1), column: name} for name in names]
    (tmp_path / "in").mkdir()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "in" / "bad.parquet")
    came = run("segment", tmp_path / "in", tmp_path / "made", to="folder", workers=1, tokens=3)
    assert (came.done, came.failed) == (1, len(OUTSIDE))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "made"]
    assert [path.name for path in (tmp_path / "made").iterdir() if path.is_file()] == ["good.png"]


def test_a_row_without_bytes_reads_no_file_that_it_names(tmp_path):
    secret = tmp_path / "secret.png"
    secret.write_bytes(picture(2))
    (tmp_path / "in").mkdir()
    rows = [{"image": {"bytes": None, "path": "secret.png"}}, {"image": {"bytes": picture(1), "path": "good.png"}}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "in" / "paths.parquet")
    came = run("segment", tmp_path / "in", tmp_path / "made", workers=1, tokens=3)
    assert (came.done, came.failed) == (1, 1)
