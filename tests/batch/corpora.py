"""Small corpora for tests."""

import io
import tarfile

import numpy as np
from PIL import Image

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


def contents(path):
    """All files below a folder, by their names."""
    return {found.relative_to(path).as_posix(): found.read_bytes() for found in sorted(path.rglob("*")) if found.is_file()}
