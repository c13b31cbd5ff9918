"""Partitions of a corpus as datasets for training, whatever the corpus is stored in."""

import io

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch
from corpora import folder_of, picture, shards_of, sparse_shard, table_of
from torch.utils.data import DataLoader

import pixtree
from pixtree.batch import Partitioned, PartitionedStream, run
from pixtree.batch.datasets import read_labels
from pixtree.images.bounds import larger_files

SOURCES = {
    "folder": lambda path: folder_of(path, 5),
    "webdataset": lambda path: shards_of(path, 2, 3),
    "parquet": lambda path: table_of(path, 4),
}


@pytest.mark.parametrize("to", SOURCES)
@pytest.mark.parametrize("kind", SOURCES)
def test_a_stream_has_every_picture_with_its_partition(tmp_path, kind, to):
    source = SOURCES[kind](tmp_path / "source")
    came = run("segment", source, tmp_path / "made", to=to, workers=1, tokens=4, format="npz" if to == "parquet" else "png")
    found = list(PartitionedStream(source, tmp_path / "made"))
    assert len(found) == came.done
    for image, labels in found:
        assert image.shape == (3, 24, 24)
        assert torch.equal(labels, pixtree.segment(image, tokens=4))


def test_pictures_that_failed_are_left_out(tmp_path):
    source = folder_of(tmp_path / "source", 4)
    (source / "class_0" / "0000.png").write_bytes(picture(1)[:70])
    run("segment", source, tmp_path / "made", workers=1, tokens=4)
    assert len(list(PartitionedStream(source, tmp_path / "made"))) == len(Partitioned(source, tmp_path / "made")) == 3


def test_the_workers_of_a_loader_share_the_parts(tmp_path):
    source = shards_of(tmp_path / "source", 3, 2)
    run("segment", source, tmp_path / "made", workers=1, tokens=4)
    alone = [labels.numpy() for _, labels in PartitionedStream(source, tmp_path / "made")]
    loaded = [labels[0].numpy() for _, labels in DataLoader(PartitionedStream(source, tmp_path / "made"), num_workers=2)]
    assert len(alone) == len(loaded) == 6
    assert {one.tobytes() for one in alone} == {one.tobytes() for one in loaded}


def test_only_label_maps_are_partitions(tmp_path):
    source = folder_of(tmp_path / "source", 1)
    with pytest.raises(FileNotFoundError, match="run pixtree batch segment first"):
        PartitionedStream(source, tmp_path / "made")
    run("vectorize", source, tmp_path / "made", workers=1, paths=3)
    with pytest.raises(ValueError, match="was made by vectorize; choose another folder"):
        PartitionedStream(source, tmp_path / "made")


def test_labels_are_those_of_the_files(tmp_path):
    source = folder_of(tmp_path / "source", 1)
    for format in ("png", "tiff", "npz"):
        run("segment", source, tmp_path / format, workers=1, tokens=4, format=format)
        _, labels = Partitioned(source, tmp_path / format)[0]
        np.testing.assert_array_equal(labels.numpy(), pixtree.segment(source / "class_0" / "0000.png", tokens=4))


@pytest.mark.parametrize("suffix", [".npz", ".png"])
def test_a_label_map_that_is_damaged_or_unpacks_to_much_is_refused_in_one_sentence(suffix):
    stream = io.BytesIO()
    np.savez_compressed(stream, labels=np.zeros(1 << 21, np.uint8))
    with larger_files(1 << 20), pytest.raises(ValueError, match="may decode to at most 1048576 bytes, got 2097280 in a label map"):
        read_labels(stream.getvalue(), ".npz")
    for content in (b"", b"PK\x03\x04", stream.getvalue()[:90], b"\x89PNG\r\n\x1a\n" + bytes(40)):
        with pytest.raises(ValueError, match=r"^[^\n]+ a label map [^\n]+$"):
            read_labels(content, suffix)


def test_damaged_label_maps_of_a_shard_end_in_one_sentence(tmp_path):
    source = shards_of(tmp_path / "source", 1, 3)
    run("segment", source, tmp_path / "made", workers=1, tokens=4)
    (shard,) = (tmp_path / "made").glob("*.tar")
    shard.write_bytes(shard.read_bytes()[:1100])
    with pytest.raises(
        ValueError, match=r"^expected the label maps of a finished run, got [^\n]+ is damaged after 1 image [^\n]+$"
    ):
        list(PartitionedStream(source, tmp_path / "made"))


@pytest.mark.parametrize("to", ["webdataset", "parquet"])
def test_stored_label_maps_that_ask_for_much_memory_are_refused_before_they_are_read(tmp_path, to):
    source = shards_of(tmp_path / "source", 1, 1)
    run("segment", source, tmp_path / "made", to=to, workers=1, tokens=4)
    (stored,) = [path for path in (tmp_path / "made").iterdir() if path.suffix in (".tar", ".parquet")]
    if to == "webdataset":
        sparse_shard(stored)
    else:
        zeros = pyarrow.array([bytes(1 << 27)], pyarrow.large_binary())
        table = pyarrow.table({"key": ["labels"], "png": zeros})
        pyarrow.parquet.write_table(table, stored, compression="zstd", use_dictionary=False)
    with pytest.raises(ValueError, match=r"must be stored whole, got a sparse one|bytes that unpacks to"):
        list(PartitionedStream(source, tmp_path / "made"))
