"""A corpus: where its images are stored, and the parts in which processes work on them."""

import os
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from pixtree.batch.archives import (
    StoredImage,
    Unreadable,
    images_of_shard,
    keys_of_shard,
    split_name,
    unread,
)
from pixtree.batch.parquet import images_of_table, keys_of_table
from pixtree.files import IMAGE_SUFFIXES
from pixtree.images import bounds

Kind: TypeAlias = Literal["folder", "webdataset", "parquet"]
KINDS: tuple[Kind, ...] = ("folder", "webdataset", "parquet")
PART_SIZE = 64  # images in a part of a folder, about
LONGEST_NAME = 200  # bytes of the name of a part; file systems allow 255, with an ending


class CorpusPart(NamedTuple):
    """The unit of work of one process: some files of a folder, one webdataset shard, or one parquet file."""

    name: str
    files: tuple[str, ...]  # paths below the corpus, with /


class Corpus(NamedTuple):
    """A source of images, and its parts."""

    kind: Kind
    root: Path
    parts: tuple[CorpusPart, ...]
    doubled: frozenset[str] = frozenset()  # files of a folder whose results would have the name of those of an earlier file


def open_corpus(source: str | Path, parts: int | None = None) -> Corpus:
    """The images below a folder; or the shards (.tar) or parquet files in it; or one such file.

    parts: number of parts of a folder; by default one per 64 images. A hash of its path assigns an image to a part, so images that
    are added later do not change the other parts.
    """
    root = Path(source)
    if root.is_file():
        kind = _kind_of([root])
        return Corpus(kind, root.parent, (CorpusPart(root.stem, (root.name,)),))
    if not root.is_dir():
        raise FileNotFoundError(f"a corpus is a folder, a .tar or a .parquet file, but '{root}' does not exist; check the path")
    files = sorted(path for path in root.rglob("*") if path.is_file() and not path.name.startswith("."))
    shards = [path for path in files if path.suffix in (".tar", ".parquet")]
    images = [path.relative_to(root).as_posix() for path in files if path.suffix.lower() in IMAGE_SUFFIXES]
    if shards:
        kind = _kind_of(shards)
        if images:
            raise ValueError(
                f"a corpus has one kind of files, '{root}' has images ('{images[0]}') and {kind} files ('{shards[0].name}'); "
                "move one kind elsewhere"
            )
        return Corpus(kind, root, tuple(_one_part_each([path.relative_to(root) for path in shards])))
    if not images:
        raise FileNotFoundError(f"a corpus needs images, .tar or .parquet files, '{root}' has none; check the path")
    return Corpus("folder", root, tuple(_scattered(images, parts or -(-len(images) // PART_SIZE))), _doubled(images))


def _doubled(names: list[str]) -> frozenset[str]:
    """Names that differ from an earlier one by their suffix only, as in a.jpg and a.png."""
    first: dict[str, str] = {}
    return frozenset(name for name in names if first.setdefault(split_name(name)[0], name) != name)


def _kind_of(files: list[Path]) -> Kind:
    suffixes = {path.suffix for path in files}
    if suffixes == {".tar"}:
        return "webdataset"
    if suffixes == {".parquet"}:
        return "parquet"
    raise ValueError(f"a corpus has one kind of files, got {' and '.join(sorted(suffixes))}; pass .tar or .parquet files alone")


def _one_part_each(shards: list[Path]) -> Iterator[CorpusPart]:
    """A part for every shard, with its path as one name, and with a hash where two would be equal or one too long."""
    names = ["__".join(path.with_suffix("").parts) for path in shards]
    counts = Counter(names)
    for path, name in zip(shards, names, strict=True):
        encoded = os.fsencode(name)
        if counts[name] > 1 or len(encoded) > LONGEST_NAME:
            digest = sha256(os.fsencode(path.as_posix())).hexdigest()[:8]
            name = f"{os.fsdecode(encoded[:LONGEST_NAME])}-{digest}"
        yield CorpusPart(name, (path.as_posix(),))


def _scattered(images: list[str], count: int) -> Iterator[CorpusPart]:
    """Parts of about equal size."""
    bins: list[list[str]] = [[] for _ in range(count)]
    for name in images:
        bins[int.from_bytes(sha256(os.fsencode(name)).digest()[:8], "big") % count].append(name)
    digits = len(str(count - 1))
    return (CorpusPart(f"part-{number:0{digits}d}", tuple(files)) for number, files in enumerate(bins) if files)


def stored_images(corpus: Corpus, part: CorpusPart) -> Iterator[StoredImage | Unreadable]:
    """The images of a part in a fixed order, and what could not be read of it. A fault of the machine is raised."""
    if corpus.kind == "webdataset":
        yield from images_of_shard(corpus.root / part.files[0])
    elif corpus.kind == "parquet":
        yield from images_of_table(corpus.root / part.files[0])
    else:
        for name in part.files:
            if name in corpus.doubled:
                reason = "its result would take the name of another image's, which differs in its suffix only; rename it"
                yield Unreadable(name, reason)
            else:
                yield _image_of(corpus.root / name, *split_name(name))


def _image_of(path: Path, key: str, suffix: str) -> StoredImage | Unreadable:
    """One file of a folder."""
    try:
        with path.open("rb") as file:
            content = file.read(bounds.MAX_BYTES + 1) if os.fstat(file.fileno()).st_size <= bounds.MAX_BYTES else None
    except OSError as fault:
        return unread(key + suffix, fault)
    if content is None or len(content) > bounds.MAX_BYTES:
        reason = f"an image file may have at most {bounds.MAX_BYTES} bytes, it has more; raise max_bytes (--max-bytes)"
        return Unreadable(key + suffix, reason)
    return StoredImage(key, suffix, content)


def stored_keys(corpus: Corpus, part: CorpusPart) -> Iterator[str]:
    """The keys of the images of a part; archives are read up to where they are damaged."""
    if corpus.kind == "webdataset":
        yield from keys_of_shard(corpus.root / part.files[0])
    elif corpus.kind == "parquet":
        yield from keys_of_table(corpus.root / part.files[0])
    else:
        yield from (split_name(name)[0] for name in part.files if name not in corpus.doubled)
