"""Small corpora for tests."""

import io
import tarfile
from hashlib import sha256

import numpy as np
from PIL import Image

from pixtree.batch import work
from pixtree.batch.manifest import read_rows
from pixtree.batch.work import Made

SIDE = 24


def picture(seed, kind="PNG", side=SIDE):
    """A seeded picture as the bytes of a file."""
    generator = np.random.default_rng(seed)
    blocks = generator.integers(0, 256, (side // 6, side // 6, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(np.kron(blocks, np.ones((6, 6, 1), np.uint8))).save(stream, kind)
    return stream.getvalue()


def folder_of(path, count):
    for number in range(count):
        place = path / f"class_{number % 3}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:04d}.png").write_bytes(picture(number))
    return path


def shards_of(path, shards, each):
    path.mkdir(parents=True)
    for shard in range(shards):
        with tarfile.open(path / f"photos-{shard:03d}.tar", "w") as archive:
            for number in range(each):
                for suffix, data in ((".png", picture(shard * each + number)), (".cls", b"3")):
                    member = tarfile.TarInfo(f"{shard:03d}{number:03d}{suffix}")
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
    return path


def table_of(path, count):
    import pyarrow
    import pyarrow.parquet

    path.mkdir(parents=True)
    rows = [{"image": {"bytes": picture(number), "path": f"{number:03d}.png"}, "label": number % 2} for number in range(count)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path / "train-0.parquet")
    return path


def sparse_shard(path, size=6 << 30):
    """A tar of two kilobytes whose member claims gigabytes."""
    member = tarfile.TarInfo("bomb.png")
    member.size, member.type = 0, tarfile.GNUTYPE_SPARSE
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[386:410] = b"%011o\0%011o\0" % (0, 0)  # one piece of nothing
    header[483:495] = b"\x80" + size.to_bytes(11, "big")  # the size that it unpacks to
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + 8 * 32 + sum(header[156:512]))
    path.write_bytes(bytes(header) + bytes(1024))
    return path


def contents(path):
    """All files below a folder, by their names."""
    return {found.relative_to(path).as_posix(): found.read_bytes() for found in sorted(path.rglob("*")) if found.is_file()}


def stub(image, *, suffix=".txt", fault=None, key=None):
    """A task whose result is a hash of the image's bytes; `fault` is raised for the image `key`, or for all."""
    if fault is not None and key in (None, image.name):
        raise fault
    return Made({suffix: sha256(image.read()).hexdigest().encode()}, {})


def register(patch, **options):
    """Make the task "stub" known to this process."""
    patch.setitem(work.TASKS, "stub", ({"suffix": ".txt", "fault": None, "key": None, **options}, stub))


def write_shard(path, members):
    """A tar file of names and contents."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def rows_in(destination):
    """The rows of the manifest of a run."""
    return read_rows(destination / "manifest" / "manifest.jsonl")


def statuses(destination):
    return {row["key"]: row["status"] for row in rows_in(destination)}
