"""A corpus: where its images are stored, and the parts in which processes work on them."""

import tarfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, TypeAlias

from pixtree.files import IMAGE_SUFFIXES

Kind: TypeAlias = Literal["folder", "webdataset", "parquet"]
KINDS: tuple[Kind, ...] = ("folder", "webdataset", "parquet")
PART_SIZE = 64  # images in a part of a folder, about
NAMES = ("__key__", "key", "path", "file_name", "filename", "id")  # columns of parquet files that may name an image
IMAGES = ("image", "img", "jpg", "jpeg", "png", "webp", "bytes")


class CorpusPart(NamedTuple):
    """The unit of work of one process: some files of a folder, one webdataset shard, or one parquet file."""

    name: str
    files: tuple[str, ...]  # paths below the corpus, with /


class Corpus(NamedTuple):
    """A source of images, and its parts."""

    kind: Kind
    root: Path
    parts: tuple[CorpusPart, ...]


class StoredImage(NamedTuple):
    """One encoded image."""

    key: str  # a path below the corpus, without the suffix
    suffix: str
    data: bytes


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
    if shards:
        kind = _kind_of(shards)
        return Corpus(kind, root, tuple(CorpusPart(_flat(path, root), (path.relative_to(root).as_posix(),)) for path in shards))
    images = [path.relative_to(root).as_posix() for path in files if path.suffix.lower() in IMAGE_SUFFIXES]
    if not images:
        raise FileNotFoundError(f"a corpus needs images, .tar or .parquet files, '{root}' has none; check the path")
    _check_names(images)
    return Corpus("folder", root, tuple(_scattered(images, parts or -(-len(images) // PART_SIZE))))


def _check_names(names: list[str]) -> None:
    """Refuse images whose results would have the same name."""
    keys: dict[str, str] = {}
    for name in names:
        other = keys.setdefault(split_name(name)[0], name)
        if other != name:
            raise ValueError(f"the results of '{other}' and '{name}' would have one name; rename or remove one of them")


def _kind_of(files: list[Path]) -> Kind:
    suffixes = {path.suffix for path in files}
    if suffixes == {".tar"}:
        return "webdataset"
    if suffixes == {".parquet"}:
        return "parquet"
    raise ValueError(f"a corpus has one kind of files, got {' and '.join(sorted(suffixes))}; pass .tar or .parquet files alone")


def _flat(path: Path, root: Path) -> str:
    """The path of a shard as one name."""
    return "__".join(path.relative_to(root).with_suffix("").parts)


def _scattered(images: list[str], count: int) -> Iterator[CorpusPart]:
    """Parts of about equal size."""
    bins: list[list[str]] = [[] for _ in range(count)]
    for name in images:
        bins[int.from_bytes(sha256(name.encode()).digest()[:8], "big") % count].append(name)
    digits = len(str(count - 1))
    return (CorpusPart(f"part-{number:0{digits}d}", tuple(files)) for number, files in enumerate(bins) if files)


def stored_images(corpus: Corpus, part: CorpusPart) -> Iterator[StoredImage | tuple[str, OSError]]:
    """The images of a part in a fixed order; for a file that cannot be read, its key and the error."""
    if corpus.kind == "webdataset":
        yield from _of_shard(corpus.root / part.files[0])
    elif corpus.kind == "parquet":
        yield from _of_table(corpus.root / part.files[0])
    else:
        for name in part.files:
            key, suffix = split_name(name)
            try:
                yield StoredImage(key, suffix, (corpus.root / name).read_bytes())
            except OSError as fault:
                yield key + suffix, fault


def split_name(name: str) -> tuple[str, str]:
    """Key and suffix of a path."""
    path = PurePosixPath(name)
    return path.with_suffix("").as_posix(), path.suffix.lower()


def _of_shard(path: Path) -> Iterator[StoredImage]:
    """Members that are images, in their order. Nothing is unpacked, so no name in an archive reaches the disk."""
    with tarfile.open(path, "r|") as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isfile() else None
            if stream is not None and PurePosixPath(member.name).suffix.lower() in IMAGE_SUFFIXES:
                key, suffix = split_name(member.name)
                yield StoredImage(key, suffix, stream.read())


def _of_table(path: Path) -> Iterator[StoredImage]:
    """Rows of a parquet file: bytes, or a struct with bytes as Hugging Face has it; without a name, the row number is the key."""
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        columns = file.schema_arrow.names
        image = next((name for name in IMAGES if name in columns), None)
        if image is None:
            raise ValueError(
                f"a parquet file needs an image column named {', '.join(IMAGES)}, '{path}' has {', '.join(columns)}; rename one"
            )
        name = next((one for one in NAMES if one in columns), None)
        number = 0
        for batch in file.iter_batches(16, columns=[image, *([name] if name else [])]):
            for row in batch.to_pylist():
                yield _of_row(row, image, name, f"{path.stem}-{number:06d}")
                number += 1


def _of_row(row: dict[str, Any], image: str, name: str | None, default: str) -> StoredImage:
    value = row[image]
    inner = value if isinstance(value, dict) else {"bytes": value}
    key, suffix = split_name(str(row.get(name or "") or inner.get("path") or default))
    return StoredImage(key, suffix if suffix in IMAGE_SUFFIXES else "", inner.get("bytes") or b"")
