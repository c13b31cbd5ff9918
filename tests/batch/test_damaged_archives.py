"""Damaged archives keep their good images, are reported, and never end a run; none of them takes much memory."""

import subprocess
import sys
import tarfile

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from corpora import register, rows_in, sparse_shard, statuses, write_shard

from pixtree.batch import parquet, run
from pixtree.batch.archives import StoredImage, images_of_shard
from pixtree.batch.parquet import images_of_table

IMAGES = [("a.png", b"1" * 700), ("b.png", b"2" * 10), ("c.png", b"3" * 512)]
BLOCKS = 3 * 512 + 1024 + 512 + 512  # of headers and contents, before the end mark


@pytest.fixture(autouse=True)
def _stub(monkeypatch):
    register(monkeypatch)


def shards(folder, **contents):
    """A folder with a good shard and others of given bytes."""
    write_shard(folder / "good.tar", [("good.png", b"good")])
    for name, data in contents.items():
        (folder / f"{name}.tar").write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write_shard(tmp_path_factory.mktemp("whole") / "whole.tar", IMAGES).read_bytes()


def test_every_cut_of_a_shard_keeps_the_whole_images_and_is_reported(tmp_path, whole):
    path = tmp_path / "cut.tar"
    ends = (512 + 700, 1536 + 512 + 10, BLOCKS)  # of the three images, without padding
    for length in (*range(0, BLOCKS + 1, 128), 1, 511, 513, BLOCKS - 1, BLOCKS + 511):
        path.write_bytes(whole[:length])
        *images, last = images_of_shard(path)
        assert [image.key for image in images] == ["a", "b", "c"][: sum(length >= end for end in ends)], length
        assert all(image == StoredImage(name[0], ".png", data) for image, (name, data) in zip(images, IMAGES, strict=False))
        assert last.key == "cut.tar"
        assert last.reason.startswith(f"the file is damaged after {len(images)} image")
    path.write_bytes(whole[: BLOCKS + 512])
    assert [image.key for image in images_of_shard(path)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "content", [b"", b"garbage" * 999, bytes(100), b"\x1f\x8b" + bytes(600)], ids=["empty", "text", "zeros", "gz"]
)
def test_a_bad_shard_is_one_failed_row_and_the_run_goes_on(tmp_path, content):
    came = run("stub", shards(tmp_path / "in", bad=content), tmp_path / "made", workers=1)
    assert (came.done, came.failed, came.whole) == (1, 1, True)
    assert statuses(tmp_path / "made") == {"bad.tar": "failed", "good": "done"}
    assert run("stub", tmp_path / "in", tmp_path / "made", workers=1).parts_before == 2


def test_damage_in_the_middle_is_reported(tmp_path, whole):
    header = 1536  # of the second image
    for change in (b"\xff" * 512, bytes(512)):
        came = run(
            "stub",
            shards(tmp_path / "in", bad=whole[:header] + change + whole[header + 512 :]),
            tmp_path / change[:1].hex(),
            workers=1,
        )
        assert (came.done, came.failed) == (2, 1)


def test_a_repaired_shard_is_done_again(tmp_path, whole):
    run("stub", shards(tmp_path / "in", bad=whole[:2000]), tmp_path / "made", workers=1)
    (tmp_path / "in" / "bad.tar").write_bytes(whole)
    assert run("stub", tmp_path / "in", tmp_path / "made", workers=1) == (4, 0, 2, 1, True)


def test_a_parquet_file_that_is_damaged_or_has_no_images_is_one_failed_row(tmp_path):
    (tmp_path / "in").mkdir()
    pyarrow.parquet.write_table(pyarrow.table({"image": [b"1", b"2"], "key": ["a", "b"]}), tmp_path / "in" / "good.parquet")
    content = (tmp_path / "in" / "good.parquet").read_bytes()
    pyarrow.parquet.write_table(pyarrow.table({"label": [1]}), tmp_path / "in" / "labels.parquet")
    for name, data in (("empty", b""), ("cut", content[:-20]), ("text", b"PAR1 garbage PAR1")):
        (tmp_path / "in" / f"{name}.parquet").write_bytes(data)
    came = run("stub", tmp_path / "in", tmp_path / "made", workers=1)
    assert (came.done, came.failed) == (2, 4)
    errors = {row["key"]: row["error"] for row in rows_in(tmp_path / "made") if row["status"] == "failed"}
    assert "needs an image column" in errors["labels.parquet"]


DAMAGES = """
import sys
from pathlib import Path
from pixtree.batch.parquet import images_of_table
path = Path(sys.argv[1])
whole = path.read_bytes()
size = int.from_bytes(whole[-8:-4], "little")
for place in range(len(whole) - 8 - size, len(whole)):
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    list(images_of_table(path))
print(size)
"""


def test_no_damage_of_a_footer_ends_the_process(tmp_path):
    table = pyarrow.table({"image": [b"one", None], "key": ["a", "b"]})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet", store_schema=False)
    command = [sys.executable, "-c", DAMAGES, str(tmp_path / "x.parquet")]
    assert int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) > 100


@pytest.mark.parametrize("options", [{}, {"compression": "zstd", "use_dictionary": False}, {"data_page_version": "2.0"}])
def test_the_places_of_columns_are_those_that_pyarrow_finds(tmp_path, options):
    rows = [{"image": {"bytes": bytes([n]) * 30, "path": f"{n}.png"}, "label": n} for n in range(9)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "x.parquet", row_group_size=4, **options)
    metadata = pyarrow.parquet.ParquetFile(tmp_path / "x.parquet").metadata
    chunks = [metadata.row_group(group).column(index) for group in range(3) for index in range(2)]
    starts = [chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks]
    expected = [(start, start + chunk.total_compressed_size) for start, chunk in zip(starts, chunks, strict=True)]
    with (tmp_path / "x.parquet").open("rb") as file:
        assert list(parquet._chunks(file, parquet._Columns("image", None))) == expected


def test_values_that_are_no_bytes_are_rows(tmp_path):
    pyarrow.parquet.write_table(pyarrow.table({"image": [[1, 2], None], "key": ["a", "/"]}), tmp_path / "x.parquet")
    first, second = images_of_table(tmp_path / "x.parquet")
    assert "stored as bytes, got list" in first.reason
    assert second.data == b""


def test_a_sparse_member_is_refused_before_it_is_read(tmp_path):
    (found,) = images_of_shard(sparse_shard(tmp_path / "sparse.tar"))
    assert found.key == "bomb"
    assert "must be stored whole, got a sparse one" in found.reason


def test_a_member_above_the_limit_is_a_row_unless_more_bytes_are_allowed(tmp_path):
    write_shard(tmp_path / "in" / "x.tar", [("a.png", b"1" * 3000), ("b.png", b"1")])
    assert run("stub", tmp_path / "in", tmp_path / "made", workers=1, max_bytes=2000).failed == 1
    assert "may have at most 2000 bytes, got 3000; raise max_bytes" in rows_in(tmp_path / "made")[0]["error"]
    assert run("stub", tmp_path / "in", tmp_path / "allowed", workers=1, max_bytes=3000).failed == 0


def test_a_file_above_the_limit_is_a_row_and_is_not_read(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.png").write_bytes(b"1")
    with (tmp_path / "in" / "hole.png").open("wb") as file:
        file.truncate(1 << 42)
    assert run("stub", tmp_path / "in", tmp_path / "made", workers=1).done == 1
    (error,) = [row["error"] for row in rows_in(tmp_path / "made") if row["status"] == "failed"]
    assert "an image file may have at most 2147483648 bytes" in error


def test_headers_that_ask_for_more_than_the_file_has_are_damage(tmp_path):
    member = tarfile.TarInfo("pax")
    member.type, member.size = tarfile.XHDTYPE, 1 << 60
    (tmp_path / "x.tar").write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    (found,) = images_of_shard(tmp_path / "x.tar")
    assert "damaged after 0 images" in found.reason


BOMBS = """
import resource, sys
import pyarrow.parquet
from pathlib import Path
from pixtree.batch.parquet import images_of_table
folder = Path(sys.argv[1])
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
before = peak()
for name in ("plain", "dictionary"):
    found = [len(one.data) if hasattr(one, "data") else one.reason for one in images_of_table(folder / f"{name}.parquet")]
    print(name, len(found), found[-1], flush=True)
print(peak() - before)
"""


def test_parquet_files_that_unpack_to_gigabytes_take_little_memory(tmp_path):
    zeros = np.zeros(1 << 27, np.uint8).tobytes()
    table = pyarrow.table({"image": pyarrow.array([zeros], pyarrow.large_binary())})
    pyarrow.parquet.write_table(table, tmp_path / "plain.parquet", compression="zstd", use_dictionary=False)
    # One value of 20 MB in 40 rows: 800 MB, if all rows are unpacked at once.
    repeated = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 40), pyarrow.array([zeros[: 20 << 20]]))
    pyarrow.parquet.write_table(
        pyarrow.table({"image": repeated}),
        tmp_path / "dictionary.parquet",
        compression="zstd",
        dictionary_pagesize_limit=1 << 27,
    )
    assert (tmp_path / "plain.parquet").stat().st_size < 100_000
    done = subprocess.run([sys.executable, "-c", BOMBS, str(tmp_path)], capture_output=True, text=True, check=True)
    plain, dictionary, grown = done.stdout.splitlines()
    assert "a page of" in plain
    assert "that unpacks to" in plain
    assert dictionary.split()[:2] == ["dictionary", "40"]  # row by row
    assert int(grown) < 300 << 20
